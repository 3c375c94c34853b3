"""Kills sweeps at random moments and starts them again: nothing may be lost, doubled or changed by it.

make soak        # 100 kills on one process a run, then 100 on two ranks
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from reproduce.records import read_record

PATIENCE = 900  # seconds for one sweep that nobody kills, or a sign of life of one that is to be killed
STARTS = 3  # in a row without a kill, after which a sweep has ended


def command(folder: Path, ranks: int) -> list[str]:
    sweep = ["task=noisy_quadratic/mini", "sweep=quick", "sweep.batch_sizes=[16,64]", "task.goals=[0.4,0.2]"]
    sweep += [f"trainer.ranks={ranks}", "hydra.launcher.n_jobs=2", "trainer.checkpoint_seconds=0.2"]
    return [sys.executable, "-m", "reproduce", "-m", *sweep, f"outputs={folder}", f"results={folder}"]


def start(folder: Path, ranks: int) -> subprocess.Popen:
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "log", "ab") as log:
        return subprocess.Popen(command(folder, ranks), stdout=log, stderr=log, start_new_session=True)


def summary(folder: Path) -> dict:
    """What was measured, without what depends on time and place."""
    content = json.loads((folder / "noisy_quadratic/mini/summary.json").read_text())
    del content["command"], content["commit"], content["date"], content["sweep"]["seconds"]
    return content


def records(folder: Path) -> dict[str, tuple]:
    """Of each run that has ended: its outcome and evaluations. Raises RecordError where a record is damaged."""
    found = [read_record(path) for path in sorted(folder.glob("*/*/runs/*.jsonl"))]
    untimed = {"seconds"}
    return {
        record.path.name: tuple(
            {key: value for key, value in entry.items() if key not in untimed}
            for entry in [*record.evaluations, record.outcome]
        )
        for record in found
        if record and record.outcome and record.status != "failed"
    }


def processes_of(session: int) -> list[int]:
    """All processes of a session, which a sweep starts for itself."""
    listed = subprocess.run(["ps", "-o", "pid=", "-s", str(session)], capture_output=True, text=True).stdout
    return [int(pid) for pid in listed.split()]


def wait_for_a_moment(process: subprocess.Popen, folder: Path, ranks: int, rng: random.Random) -> None:
    """Until a random moment after the next evaluation, or while the sweep starts; or until the sweep ends."""
    before = work_done(folder)
    deadline = time.monotonic() + PATIENCE
    at_work = rng.random() < 0.8
    while at_work and work_done(folder) == before and process.poll() is None:
        assert time.monotonic() < deadline, f"no sign of life: {folder / 'log'}"
        time.sleep(0.05)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=rng.uniform(0, 3 * ranks))


def disturb(folder: Path, kills: int, ranks: int, rng: random.Random) -> Iterator[int]:
    """Kills all of a sweep, or one of its processes, at random moments; starts it again wherever it ended too early.

    Yields the runs that have ended, after each kill; stops when the sweep has ended or `kills` are done.
    """
    kept = {}
    process = start(folder, ranks)
    done = starts = 0
    try:
        while done < kills:
            wait_for_a_moment(process, folder, ranks, rng)
            if process.poll() == 0:
                return
            if process.poll() is None:
                victims = processes_of(process.pid)
                kill(victims if rng.random() < 0.3 else rng.sample(victims, 1))
                done += 1
                starts = 0
                now = records(folder)
                assert now.items() >= kept.items(), "a run that had ended was lost or changed"
                kept = now
                yield len(now)
            else:
                kill(processes_of(process.pid))  # what is left of a sweep whose first process was killed
                assert starts < STARTS, f"ends by itself: {folder / 'log'}"
                starts += 1
                process = start(folder, ranks)
    finally:
        kill(processes_of(process.pid))
        process.wait(timeout=PATIENCE)


def kill(processes: list[int]) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def work_done(folder: Path) -> int:
    """Grows with every evaluation."""
    return sum(path.stat().st_size for path in folder.glob("*/*/runs/*.jsonl"))


def soak(folder: Path, kills: int, ranks: int, seed: int = 0) -> int:
    """Kills that were survived: as many as were asked for; AssertionError where anything differs.

    A sweep that was killed until it ended is compared with an undisturbed one, and another one begins.
    """
    rng = random.Random(seed)
    calm = folder / "calm"
    assert start(calm, ranks).wait(timeout=PATIENCE) == 0, f"see {calm / 'log'}"
    expected, expected_records = summary(calm), records(calm)
    done, sweeps = 0, 0
    began = time.monotonic()
    while done < kills:
        killed = folder / f"killed_{sweeps}"
        for ended in disturb(killed, kills - done, ranks, rng):
            done += 1
            left = (time.monotonic() - began) / done * (kills - done)
            text = f"{done} of {kills} kills, {ended} runs of sweep {sweeps} ended, about {left:.0f} s left"
            print(f"{ranks} rank(s): {text}", flush=True)
        for _ in range(STARTS):  # a sweep says so, with status 1, where a run was cut off
            if start(killed, ranks).wait(timeout=PATIENCE) == 0:
                break
        found = records(killed)
        differing = sorted(name for name in expected_records if found.get(name) != expected_records[name])
        assert not differing, f"{killed}: lost or changed: {differing}"
        assert summary(killed) == expected
        sweeps += 1
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for ranks in options.ranks:
        folder = Path(tempfile.mkdtemp(prefix="soak"))  # kept where something differs
        done = soak(folder, options.kills, ranks, options.seed)
        shutil.rmtree(folder)
        print(f"{done} kills on {ranks} rank(s): nothing lost, nothing doubled, the summary unchanged")


if __name__ == "__main__":
    main()
