"""GPUs that runs beside each other hold, with locks in files: no GPU is needed to test them."""

import multiprocessing
import tempfile
import time
from pathlib import Path

import pytest

from reproduce.devices import devices_called, held, physical_name

FOUR = [f"cuda:{index}" for index in range(4)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path


def hold(folder: Path, wanted: int, seconds: float, log: multiprocessing.Queue) -> None:
    tempfile.tempdir = str(folder)
    with held(FOUR, wanted) as devices:
        began = time.monotonic()
        time.sleep(seconds)
        log.put((began, time.monotonic(), devices))


def test_runs_hold_different_gpus_until_they_end():
    with held(FOUR, 1) as first, held(FOUR, 2) as second:
        assert (first, second) == (["cuda:0"], ["cuda:1", "cuda:2"])
        with held(FOUR, 1) as third:
            assert third == ["cuda:3"]
    with held(FOUR, 8) as everything:
        assert everything == FOUR


def test_runs_that_want_more_than_there_are_take_turns(folder):
    """Nine processes at once on four GPUs, each with three or one: all end, and none shares a GPU."""
    context = multiprocessing.get_context("fork")
    log = context.Queue()
    processes = [context.Process(target=hold, args=(folder, 1 + 2 * (i % 2), 0.2, log)) for i in range(9)]
    for process in processes:
        process.start()
    spans = [log.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(timeout=10)
        assert process.exitcode == 0
    for i, (began, ended, devices) in enumerate(spans):
        for other_began, other_ended, others in spans[:i]:
            if began < other_ended and other_began < ended:
                assert set(devices).isdisjoint(others)
    assert sorted(len(devices) for _, _, devices in spans) == [1] * 5 + [3] * 4


def test_a_killed_run_holds_nothing(folder):
    context = multiprocessing.get_context("fork")
    process = context.Process(target=hold, args=(folder, 4, 600, context.Queue()))
    process.start()
    while not list(folder.glob("*/gpu-3")):
        time.sleep(0.01)
    process.kill()
    process.join()
    with held(FOUR, 4) as devices:
        assert devices == FOUR


def test_names_are_those_of_the_machine(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "6,GPU-8f3a")
    assert [physical_name(device) for device in FOUR[:2]] == ["gpu-6", "gpu-GPU-8f3a"]


def test_processors_are_not_held(folder):
    assert devices_called("cpu") == ["cpu"]
    with held(["cpu"], 2) as first, held(["cpu"], 2) as second:
        assert first == second == ["cpu"]
    assert not list(folder.iterdir())
