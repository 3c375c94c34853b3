"""Full disks, folders that cannot be written and clocks set back: told in one message, with nothing lost."""

import itertools
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import SMALL_QUADRATIC, reproduce, sweep_small_quadratic

from reproduce.checkpoint import load_checkpoint, save_checkpoint
from reproduce.distributed import RankKilled, run_on_ranks
from reproduce.records import RecordError, RecordWriter, read_record
from reproduce.results import write_json

ONE_ROUND = ["sweep=grid", "sweep.octaves=1", "sweep.spacings=[1]", "sweep.batch_sizes=[16,64]"]


def arguments(folder: Path) -> list[str]:
    sweep = ["-m", "task=noisy_quadratic/mini", *SMALL_QUADRATIC, *ONE_ROUND, "sweep.curvature_samples=0"]
    return [*sweep, "hydra/launcher=basic", f"outputs={folder}", f"results={folder}"]


def sweep(folder: Path, file_bytes: int) -> subprocess.CompletedProcess:
    """With files limited to a size, which fails as a full disk does: in the middle of a line."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    command = [sys.executable, "-m", "reproduce", *arguments(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, preexec_fn=limit)


def measured(folder: Path) -> dict:
    summary = json.loads((folder / "noisy_quadratic/mini/summary.json").read_text())
    del summary["command"], summary["date"], summary["sweep"]["seconds"]
    return summary


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert reproduce(*arguments(folder)).code == 0
    return measured(folder)


@pytest.mark.slow
def test_a_full_disk_is_told_and_the_sweep_goes_on_when_there_is_room(tmp_path, undisturbed):
    full = tmp_path
    for file_bytes, unwritten in ((1_500, ".jsonl"), (40_000, ".png")):  # records, then figures
        ended = sweep(full, file_bytes)
        assert ended.returncode == 1
        assert f"{unwritten} cannot be written: File too large" in ended.stderr
        assert "start the same command again" in ended.stderr
        assert "Traceback" not in ended.stderr
    assert not list(full.rglob("*.partial"))
    again = reproduce(*arguments(full))
    assert again.code == 0, again.stderr
    assert "all 6 runs are there already" in again.stdout  # those from before the figures
    assert measured(full) == undisturbed


@pytest.mark.slow
def test_a_clock_that_runs_backwards_changes_nothing(tmp_path, undisturbed, monkeypatch):
    clock = itertools.count(2e9, -3600)
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: next(clock))
        assert reproduce(*arguments(tmp_path)).code == 0
        again = reproduce(*arguments(tmp_path))
    assert again.code == 0
    assert "all 6 runs are there already" in again.stdout
    assert measured(tmp_path) == undisturbed
    assert next(clock) < 2e9 - 3600, "nobody asked for the time"


@pytest.mark.slow
def test_no_rate_is_chosen_without_the_run_of_a_killed_rank(tmp_path, monkeypatch):
    search = ["sweep=quick", "sweep.batch_sizes=[16,64]", "sweep.curvature_samples=0"]
    calls = itertools.count(1)

    def killed_once(*run: Any) -> dict:
        if next(calls) == 4:  # in the second round, of two rates at each batch size
            raise RankKilled("Rank 1 failed: Signal 9 (SIGKILL) received")
        return run_on_ranks(*run)

    monkeypatch.setattr("reproduce.run.run_on_ranks", killed_once)
    sweep_small_quadratic(tmp_path / "killed", *search).told("was killed", "the same command goes on from here")
    assert next(calls) == 7, "the round is ended, and no other begun"
    for folder in ("killed", "calm"):
        ended = sweep_small_quadratic(tmp_path / folder, *search)
        assert ended.code == 0, ended.stderr
    assert measured(tmp_path / "killed") == measured(tmp_path / "calm")
    runs = [{path.name for path in tmp_path.glob(f"{sweep}/*/*/runs/*.jsonl")} for sweep in ("calm", "killed")]
    assert runs[0] == runs[1]


def test_a_line_that_was_cut_short_by_a_full_disk_is_written_anew(tmp_path):
    identity = {"run": {"batch_size": 1, "learning_rate": 1.0, "seed": 0}}
    with RecordWriter(tmp_path, identity, {}) as writer:
        whole = writer.path.read_bytes()
    writer.path.write_bytes(whole[:-5])
    with RecordWriter(tmp_path, identity, {}) as writer:
        assert writer.path.read_bytes() == whole
    assert read_record(writer.path).header["identity"] == identity


def test_what_cannot_be_replaced_stays_as_it_was(tmp_path):
    path = tmp_path / "summary.json"
    write_json(path, {"value": 1})
    (tmp_path / "summary.json.partial").mkdir()
    with pytest.raises(RecordError, match=r"summary\.json cannot be written: Is a directory\. It is as it was before"):
        write_json(path, {"value": 2})
    assert json.loads(path.read_text()) == {"value": 1}


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(tmp_path):
    record = tmp_path / "run.jsonl"
    save_checkpoint(record, {"step": 1})
    script = (
        "import resource, sys, torch; from pathlib import Path; from reproduce.checkpoint import save_checkpoint\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "save_checkpoint(Path(sys.argv[1]), {'model': torch.zeros(100_000)})"
    )
    ended = subprocess.run([sys.executable, "-c", script, record], capture_output=True, text=True)
    assert "run.checkpoint cannot be written" in ended.stderr
    assert "The last checkpoint is kept" in ended.stderr
    assert load_checkpoint(record) == {"step": 1}
    assert not list(tmp_path.glob("*.partial"))
