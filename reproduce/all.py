"""python -m reproduce.all: the sweeps of all tasks of a scale, one after the other (make reproduce-all).

    python -m reproduce.all --scale mini svhn mnist -- sweep=full hydra.launcher.n_jobs=4

Before each sweep it tells how far the whole is and about how long it still takes, from the times that results/ has of
earlier sweeps. Sweeps that are complete take seconds, and one that fails does not stop the others.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import conf
from reproduce.progress import duration

QUICK_SHARE = 0.3  # of a full sweep's time, about; results/README.md has both
TELLING = 60  # seconds: a shorter sweep was there already and says nothing about the others


@dataclass(frozen=True)
class Ended:
    """One sweep that has ended; status: its exit status."""

    task: str
    status: int
    seconds: float


def tasks_of_scale(scale: str) -> list[str]:
    """The suite's tasks that have a config of this scale."""
    return sorted(path.parent.name for path in (Path(conf.__file__).parent / "task").glob(f"*/{scale}.yaml"))


def usual_seconds(summary: Path, kind: str) -> float | None:
    """What a sweep of this kind takes, from the summary of an earlier one; None where that does not tell."""
    try:
        record = json.loads(summary.read_text())
        seconds, earlier = record["sweep"]["seconds"] / record["sweep"]["cores"], record["sweep_name"]
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
        return None
    shares = {"quick": QUICK_SHARE, "full": 1.0}
    if earlier == kind:
        return seconds
    return seconds * shares[kind] / shares[earlier] if kind in shares and earlier in shares else None


def time_left(left: Sequence[str], usual: dict[str, float | None], ended: Sequence[Ended]) -> str:
    """About how long the sweeps of `left` take: their usual times, scaled as those that have ended took."""
    paces = [e.seconds / usual[e.task] for e in ended if e.seconds > TELLING and usual[e.task]]
    pace = statistics.median(paces) if paces else 1.0
    known = [usual[task] * pace for task in left if usual[task]]
    unknown = len(left) - len(known)
    told = f"about {duration(sum(known))} left" if known else "no earlier sweep tells how long they take"
    return f"{told}, without {unknown} that were never swept" if known and unknown else told


def told(task: str, tasks: Sequence[str], usual: dict[str, float | None], ended: Sequence[Ended]) -> str:
    """The line before a sweep."""
    left = tasks[len(ended) :]
    failed = [e.task for e in ended if e.status]
    parts = [f"sweep {len(ended) + 1} of {len(tasks)}: {task}", time_left(left, usual, ended)]
    return "; ".join([*parts, *([f"failed: {', '.join(failed)}"] if failed else [])])


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0 if all sweeps ended well, 130 after an interrupt, else 1."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    own, overrides = arguments, []
    if "--" in arguments:
        cut = arguments.index("--")
        own, overrides = arguments[:cut], arguments[cut + 1 :]
    parser = argparse.ArgumentParser(prog="python -m reproduce.all", description="The sweeps of all tasks of a scale.")
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="default: all of the scale")
    parser.add_argument("--scale", default="mini", help="default: mini")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    parser.epilog = "What follows -- are overrides of every sweep, such as sweep=full."
    options = parser.parse_args(own)
    known = tasks_of_scale(options.scale)
    wrong = [task for task in options.tasks if task not in known]
    if wrong or not known:
        names = ", ".join(known) or "none"
        parser.error(f"no task {', '.join(wrong) or 'at all'} of scale {options.scale}; there are {names}")
    tasks = options.tasks or known
    kind = next((o.removeprefix("sweep=") for o in overrides if o.startswith("sweep=")), "quick")
    usual = {t: usual_seconds(options.results / t / options.scale / "summary.json", kind) for t in tasks}
    overrides = [f"results={options.results}", *overrides]
    ended: list[Ended] = []
    for task in tasks:
        print(f"\n{told(task, tasks, usual, ended)}", flush=True)
        began = time.monotonic()
        command = [sys.executable, "-m", "reproduce", "-m", f"task={task}/{options.scale}", *overrides]
        try:
            status = subprocess.run(command).returncode
        except KeyboardInterrupt:  # the sweep has had it too, and has said that it goes on from here
            return 130
        if status == 130:
            return 130
        ended.append(Ended(task, status, time.monotonic() - began))
    print()
    for e in ended:
        print(f"{e.task}: {'failed' if e.status else 'done'}, {duration(e.seconds)}")
    return int(any(e.status for e in ended))


if __name__ == "__main__":
    sys.exit(main())
