"""Every script of examples/ as a user starts it: the noise scale it prints against the known one it prints."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
KNOWN = {  # also worked out in the scripts, which are not to be their own judges
    "gradient_accumulation.py": [100],
    "per_example.py": [100],
    "adam.py": [125, 72.07],
    "ddp.py": [100],
    "fsdp2.py": [100],
    "lightning_ddp.py": [100],
}
LAUNCHED = {"ddp.py", "fsdp2.py"}


def printed(name: str) -> list[list[float]]:
    """[value, low, high, known] of each line."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"] if name in LAUNCHED else []
    command = [sys.executable, *launcher, str(EXAMPLES / name)]
    environment = os.environ | {"PYTHONPATH": str(EXAMPLES.parent), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert run.returncode == 0, run.stderr
    lines = [line for line in run.stdout.splitlines() if "known" in line]
    return [[float(x) for x in re.findall(r"\d+(?:\.\d+)?(?:e[+-]\d+)?", line)] for line in lines]


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(KNOWN)


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_example_finds_the_known_noise_scale(name):
    lines = printed(name)
    assert [line[3] for line in lines] == pytest.approx(KNOWN[name], rel=1e-3)
    for value, low, high, known in lines:
        assert low < known < high
        assert value == pytest.approx(known, rel=0.1)
        assert high / low < 1.3
