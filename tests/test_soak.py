"""The soak of `make soak`, with one kill; and what a sweep says that lost a worker."""

import os
import signal
import time
from pathlib import Path

import pytest
from soak import processes_of, soak, start, work_done


@pytest.mark.slow
def test_killed_sweep_loses_and_doubles_nothing(tmp_path):
    assert soak(tmp_path, kills=1, ranks=1, seed=5) == 1


@pytest.mark.slow
def test_killed_worker_is_told_without_a_traceback(tmp_path):
    process = start(tmp_path, ranks=1)
    while not work_done(tmp_path):
        assert process.poll() is None
        time.sleep(0.05)
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in processes_of(process.pid)}
    worker = next(pid for pid, command in commands.items() if "popen_loky" in command)
    os.kill(worker, signal.SIGKILL)
    assert process.wait(timeout=200) == 1
    told = (tmp_path / "log").read_text()
    assert "error: a process in which runs were trained was killed" in told
    assert "Traceback" not in told
