"""The benchmark's layout from files to ten steps, on one rank and on two."""

from pathlib import Path

import pytest
from conftest import composed
from test_tokens import write_benchmark

from reproduce.records import read_record
from reproduce.run import run

pytestmark = pytest.mark.slow

SMALL = (
    "task.vocabulary=280",
    "task.embedding=8",
    "task.hidden=16",
    "task.evaluation_sequences=20",
    "task.goals=[0.1]",
)


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[dict]]:
    """What the paper's config records in ten steps, by ranks; tokens are made by whichever run comes first."""
    results = {}
    for ranks in (2, 1):
        folder = tmp_path_factory.mktemp("paper")
        write_benchmark(folder)
        outcome = run(
            composed(
                "billion_word/paper",
                folder / "outputs",
                f"task.data_dir={folder}",
                f"trainer.ranks={ranks}",
                "trainer.device=cpu",
                "trainer.precision=float32",
                "trainer.max_samples=4",
                "grid.budget={steps: 10, examples: 0}",
                *SMALL,
                batch_size=320,
                learning_rate=0.01,
            )
        )
        assert (outcome["status"], outcome["step"], outcome["examples"]) == ("exhausted", 10, 3200)
        (path,) = Path(folder / "outputs").rglob("*.jsonl")
        results[ranks] = read_record(path).evaluations
    return results


def test_two_ranks_learn_what_one_learns(evaluations):
    for alone, together in zip(evaluations[1][1:], evaluations[2][1:], strict=True):
        assert together["score"] == pytest.approx(alone["score"], rel=1e-5)
        assert together["loss"] == pytest.approx(alone["loss"], rel=1e-5)
    assert evaluations[1][-1]["score"] < evaluations[1][0]["score"] - 0.3


def test_noise_scale_is_in_tokens_whether_from_probes_ranks_or_micro_batches(evaluations):
    """tr Sigma of a token is 20 times that of a sequence: the squared distance of two sequences' gradients tells."""
    probes = {ranks: [e["probe"] for e in evaluations[ranks] if "probe" in e] for ranks in (1, 2)}
    assert len(probes[1]) == len(probes[2]) > 0
    for alone, together in zip(probes[1], probes[2], strict=True):
        assert alone["examples"] == together["examples"] == 8 * 20
        assert together["trace"] == pytest.approx(alone["trace"], rel=1e-3)
    probed = probes[1][-1]["trace"]
    for ranks in (1, 2):
        traces = [e["training"]["trace"] for e in evaluations[ranks][1:]]
        assert sum(traces) / len(traces) == pytest.approx(probed, rel=0.7)
