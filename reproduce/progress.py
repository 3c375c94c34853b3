"""One line that tells how far a sweep is: runs done, running, given up, and about how long it still takes."""

import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from reproduce.records import RecordError, read_record
from reproduce.sweep import SweepPlan, grid_round

# Searches end after about this many learning rates a batch size, and so many rates are run with further seeds; for
# the estimate only. Of the sweeps in results/, quick ones took 4.1 and 4.4 runs a batch size, full ones 14 to 23 and in
# the median 16: the best rate of a goal changes as seeds come in.
USUAL_RATES, USUAL_FINER_RATES, USUAL_SEEDED_RATES = 4.5, 2.5, 4
TERMINAL_SECONDS, FILE_SECONDS = 1.0, 30.0


def duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"


def expected_runs(plan: SweepPlan) -> float:
    """About how many runs the whole sweep takes."""
    if plan.search == "grid":
        return len(grid_round(plan, {}))
    rates = USUAL_RATES + USUAL_FINER_RATES * (len(plan.spacings) - 1)
    return len(plan.batch_sizes) * (rates + USUAL_SEEDED_RATES * (plan.seeds - 1))


class Progress:
    """Watches the records of a round from a thread; use as a context manager around each round."""

    def __init__(self, title: str, jobs: int) -> None:
        self.title, self.jobs = title, jobs
        self.began = time.monotonic()
        self.terminal = sys.stderr.isatty()

    def watch(
        self, missing: Sequence[Path], done: int, planned: float, given_up: int = 0, seconds: float = 0.0
    ) -> None:
        """Sets what is watched next: the records that are still to be completed.

        Args:
            done: runs that are complete already; given_up: of these; seconds: that they took.
            planned: about how many there will be in all.
        """
        self.missing, self.done_before = missing, done
        self.planned = max(planned, done + len(missing))
        self.given_up_before, self.known_seconds = given_up, seconds

    def __enter__(self) -> None:
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()
        self._show(final=True)

    def _watch(self) -> None:
        while not self.stop.wait(TERMINAL_SECONDS if self.terminal else FILE_SECONDS):
            self._show()

    def _show(self, final: bool = False) -> None:
        text = self.line()
        if self.terminal:
            print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
        elif not final or time.monotonic() - self.began > FILE_SECONDS:
            print(text, file=sys.stderr, flush=True)

    def line(self) -> str:
        """The line as it stands."""
        ended = running = given_up = 0
        seconds = self.known_seconds
        for path in self.missing:
            try:
                record = read_record(path) if path.exists() else None
            except RecordError:
                record = None  # told by the sweep itself when it reads the record
            if record is None:
                continue
            seconds += record.evaluations[-1]["seconds"] if record.evaluations else 0
            ended += record.outcome is not None
            running += record.outcome is None
            given_up += record.status == "given_up"
        done = self.done_before + ended
        parts = [
            f"{self.title}: {done} of about {self.planned:.0f} runs done",
            f"{running} running",
            f"{given_up + self.given_up_before} given up",
            f"{duration(time.monotonic() - self.began)} so far",
        ]
        if done >= 2:
            left = max(self.planned - done, 0) * seconds / (done + 0.5 * running) / self.jobs
            parts.append(f"about {duration(left)} left")
        return ", ".join(parts)
