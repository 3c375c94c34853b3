"""Under torchrun: a rank that is killed is started again with the others, and the run goes on from its checkpoint."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reproduce.distributed import warn_of_kept_addresses
from reproduce.records import Record, read_record


def start(folder: Path) -> subprocess.Popen:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=3"]
    run = ["task=mnist/mini", "run.batch_size=16", "run.learning_rate=0.07", "task.evaluation_images=100"]
    run += ["task.goals=[0.01]", "grid.budget={steps: 200, examples: 0}", "trainer.checkpoint_seconds=0"]
    command = [*torchrun, "-m", "reproduce", *run, f"outputs={folder}"]
    environment = os.environ | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def record(folder: Path) -> Record | None:
    paths = list(folder.glob("*/*/runs/*.jsonl"))
    return read_record(paths[0]) if paths else None


def wait_for_step(folder: Path, step: int, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 200
    while not (found := record(folder)) or found.last_step < step:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline, f"step {step} was not reached"
        time.sleep(0.01)


def ranks_of(process: subprocess.Popen) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


@pytest.mark.slow
def test_killed_rank_restarts_from_the_last_checkpoint_and_ends_bit_equal(tmp_path):
    undisturbed = start(tmp_path / "a")
    assert undisturbed.wait(timeout=120) == 0, undisturbed.stderr.read()
    process = start(tmp_path / "b")
    for step, rank in ((30, 1), (110, 0)):
        wait_for_step(tmp_path / "b", step, process)
        os.kill(ranks_of(process)[rank], signal.SIGKILL)
    told = process.communicate(timeout=200)[1]
    assert process.returncode == 0, told
    reference, killed = record(tmp_path / "a"), record(tmp_path / "b")
    assert killed.header["ranks"] == 2
    assert killed.outcome["weights_sha256"] == reference.outcome["weights_sha256"]
    assert [entry["step"] for entry in killed.evaluations] == [entry["step"] for entry in reference.evaluations]
    assert killed.evaluations[-1]["examples"] == 16 * 200


@pytest.mark.parametrize(("restarts", "shared", "warnings"), [("3", "True", 1), ("3", "False", 0), ("0", "True", 0)])
def test_store_that_keeps_addresses_of_killed_ranks_is_warned_of(monkeypatch, recwarn, restarts, shared, warnings):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", restarts)
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", shared)
    warn_of_kept_addresses()
    assert ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in str(warned.message) for warned in recwarn] == [True] * warnings
