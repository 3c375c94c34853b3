"""From a sweep's records to results/<task>/<scale>/summary.json and curves.csv (schemas in the README)."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import geometric_mean

from reproduce.curves import CURVE_COLUMNS, curve
from reproduce.noise_at_goal import Crossing, NoiseAtGoal, Probe, noise_at_goal, probes_at_goal, run_average
from reproduce.power_law import estimated, fit_loss_law
from reproduce.published import published
from reproduce.records import Record
from reproduce.results import rounded, write_csv, write_json
from reproduce.run import commit, origin
from reproduce.sweep import PER_OCTAVE, Known, SweepPlan, Trial, best_index, by_index, points
from reproduce.tradeoff import Point, fit_learning_rate, fit_tradeoff
from tasks.task import Task

GRID_OCTAVES = 3  # as conf/sweep/grid.yaml
# The run's entries of a noise scale, and where in the goals' estimates they come from.
RUN_KEYS = {"run": "value", "run_low": "low", "run_high": "high"}


@dataclass(frozen=True)
class FinishedSweep:
    """All that a summary is made of.

    Attributes:
        name, scale: of the task. kind: of the sweep: quick, full or grid. optimizer: its class's name.
        command: that makes it again. records: of the trials that have one. known: outcomes of all.
    """

    name: str
    scale: str
    kind: str
    optimizer: str
    command: str
    task: Task
    plan: SweepPlan
    known: Known
    records: dict[Trial, Record]


def commits_of(records: Iterable[Record]) -> str:
    """The commits that trained the runs, then the one that chose among them and fitted, where it is another."""
    trained = sorted({record.header.get("commit") or "unknown" for record in records})
    return ", ".join(dict.fromkeys([*trained, commit() or "unknown"]))


class Summary:
    """Collects what the summary says from a finished sweep."""

    def __init__(self, sweep: FinishedSweep) -> None:
        self.sweep = sweep
        self.task, self.plan, self.known, self.records = sweep.task, sweep.plan, sweep.known, sweep.records
        self.points = [points(self.plan, self.known, goal) for goal in range(self.plan.goals)]
        self.fits = [fit_tradeoff(p) if p else None for p in self.points]
        goals = range(self.plan.goals)
        self.probes = [probes_at_goal(self.crossings(g), "probe") for g in goals]
        self.curvature_probes = [probes_at_goal(self.crossings(g, curvature=True), "curvature") for g in goals]
        self.noise = [noise_at_goal(probes) for probes in self.probes]
        self.curvature = [noise_at_goal(probes) for probes in self.curvature_probes]

    def best(self, batch_size: int, goal: int) -> int:
        return best_index(by_index(self.known, batch_size), goal)

    def crossings(self, goal: int, curvature: bool = False) -> list[Crossing]:
        """Runs at the best rates for a goal that reached it (or the run in which curvature was measured)."""
        result = []
        for trial, record in self.records.items():
            outcome = self.known[trial]
            if not outcome.steps or outcome.steps[goal] is None or trial.curvature != curvature:
                continue
            if curvature or trial.index == self.best(trial.batch_size, goal):
                result.append(Crossing(record, outcome.steps[goal]))
        return result

    def goal_entry(self, goal: int) -> dict:
        fit, noise, curvature = self.fits[goal], self.noise[goal], self.curvature[goal]
        return {
            "goal": self.task.goals[goal],
            "b_crit": fit.b_crit if fit else None,
            "b_crit_low": fit.b_crit_low if fit else None,
            "b_crit_high": fit.b_crit_high if fit else None,
            "identified": bool(fit and fit.identified),
            "reason": fit.reason if fit else "no run was long enough to say anything about this goal",
            "s_min": fit.s_min if fit else None,
            "e_min": fit.e_min if fit else None,
            "fit_rms": fit.rms if fit else None,
            "b_simple": noise.value,
            "b_simple_low": noise.low,
            "b_simple_high": noise.high,
            "b_noise": curvature.value,
            "b_noise_low": curvature.low,
            "b_noise_high": curvature.high,
            "exact": self.exact(goal),
            "points": [self.point_entry(point, goal) for point in self.points[goal]],
        }

    def point_entry(self, point: Point, goal: int) -> dict:
        """Geometric mean of the seeds' steps; the ends are their extremes."""
        steps = geometric_mean(point.steps) if point.steps else None
        return {
            "batch_size": point.batch_size,
            "learning_rate": self.plan.learning_rate(int(point.batch_size), self.best(int(point.batch_size), goal)),
            "steps": steps,
            "steps_low": min(point.steps or point.censored),
            "steps_high": max(point.steps) if point.steps and not point.censored else None,
            "examples": steps * point.batch_size if steps else None,
            "seeds": len(point.steps) + len(point.censored),
            "seeds_reached": len(point.steps),
        }

    def exact(self, goal: int) -> dict | None:
        """Closed-form answers for the same batch sizes, rates and moments, where the task knows them."""
        sizes = [p.batch_size for p in self.points[goal] if p.steps]
        steps = [self.task.exact_steps(b, self.task.goals[goal]) for b in sizes]
        if not sizes or any(s is None for s in steps):
            return None
        fit = fit_tradeoff([Point(b, (s,)) for b, s in zip(sizes, steps, strict=True)])
        return {
            "b_crit": fit.b_crit,
            "s_min": fit.s_min,
            "e_min": fit.e_min,
            "steps": dict(zip(map(str, sizes), steps, strict=True)),
            "b_simple": self.exact_noise(self.probes[goal], "trace", "grad_sq"),
            "b_noise": self.exact_noise(self.curvature_probes[goal], "curvature_trace", "curvature_grad_sq"),
        }

    def exact_noise(self, probes: Sequence[Probe], over: str, under: str) -> float | None:
        """What the same probes would say without noise: the expected moments of their runs at their steps."""
        expected = []
        for probe in probes:
            run = probe.record
            moments = self.task.exact_moments(run.batch_size, run.learning_rate, probe.step)
            expected.append(replace(probe, trace=getattr(moments, over), grad_sq=getattr(moments, under)))
        return noise_at_goal(expected).value

    def averaged(self, values: Sequence[NoiseAtGoal], end: str) -> float | None:
        """Run average of a noise scale, the geometric mean over batch sizes; `end`: value, low or high."""
        noise = [getattr(v, end) if v.value is not None else None for v in values]
        averages = []
        for batch_size in self.plan.batch_sizes:
            steps = [
                next(
                    (geometric_mean(p.steps) for p in ps if p.batch_size == batch_size and p.steps),
                    None,
                )
                for ps in self.points
            ]
            average = run_average(steps, noise, batch_size)
            if average:
                averages.append(average)
        return geometric_mean(averages) if averages else None

    def noise_entry(self, values: Sequence[NoiseAtGoal]) -> dict | None:
        """First goal and run average; None where nothing was measured."""
        if all(v.low is None for v in values):
            return None
        entry = {"start": values[0].value, "start_low": values[0].low, "start_high": values[0].high}
        return entry | {name: self.averaged(values, end) for name, end in RUN_KEYS.items()}

    def b_crit_entry(self) -> dict:
        """The first goal's and the last goal's critical batch size."""
        first, last = self.fits[0], self.fits[-1]
        return {
            "start": first and first.b_crit,
            "start_low": first and first.b_crit_low,
            "start_high": first and first.b_crit_high,
            "run": last and last.b_crit,
            "run_low": last and last.b_crit_low,
            "run_high": last and last.b_crit_high,
        }

    def learning_rate_fit(self) -> dict | None:
        """Best rates of the last goal against batch size; alpha is 1 for SGD (App. A.2), else fitted."""
        reached = [p for p in self.points[-1] if p.steps]
        rates = [self.plan.learning_rate(int(p.batch_size), self.best(int(p.batch_size), -1)) for p in reached]
        is_sgd = self.sweep.optimizer == "SGD"
        fit = fit_learning_rate([p.batch_size for p in reached], rates, alpha=1.0 if is_sgd else None)
        return {"eps": fit.eps, "knee": fit.knee, "alpha": fit.alpha, "rms": fit.rms} if fit else None

    def loss_law(self) -> dict | None:
        """B_crit as a power of the loss, through identified goals of a task whose score is a loss in nats."""
        if self.task.score_unit != "nats":
            return None
        points = [
            point
            for goal, fit in zip(self.task.goals, self.fits, strict=True)
            if fit and fit.identified
            for point in estimated(goal, fit.b_crit, fit.b_crit_low, fit.b_crit_high)
        ]
        law = fit_loss_law(points)
        return asdict(law) if law else None

    def cost(self) -> dict:
        """What the sweep took, and at least what the plain grid (App. A.2) at its finest spacing would have taken.

        The grid runs GRID_OCTAVES each way with every seed, each run at least as long as the best one to the last
        goal (or to the budget, where none reached it): a lower bound, since most rates take longer.
        """
        rates = 2 * GRID_OCTAVES * PER_OCTAVE // self.plan.spacings[-1] + 1
        full = 0
        for batch_size in self.plan.batch_sizes:
            tried = by_index(self.known, batch_size)
            best = tried[best_index(tried, self.plan.goals - 1)]
            full += rates * self.plan.seeds * min(outcome.last_step for outcome in best) * batch_size
        ended = list(self.known.values())
        return {
            "runs": len(ended),
            "given_up": sum(o.status == "given_up" for o in ended),
            "diverged": sum(o.status == "diverged" for o in ended),
            "exhausted": sum(o.status == "exhausted" for o in ended),
            "failed": sum(o.status == "failed" for o in ended),
            "seeds": self.plan.seeds,
            "examples": sum(o.examples for o in ended),
            "examples_full_grid": full,
            "seconds": sum(o.seconds for o in ended),
            "cores": os.cpu_count(),
        }

    def as_dict(self) -> dict:
        row = published(self.sweep.name)
        return {
            "task": self.sweep.name,
            "scale": self.sweep.scale,
            "sweep_name": self.sweep.kind,
            "unit": self.task.unit,
            "score": self.task.score,
            "score_unit": self.task.score_unit,
            "higher_is_better": self.task.higher_is_better,
            "data": {"name": self.task.data, "embedded": self.task.embedded},
            "model": self.model_text(),
            "optimizer": self.sweep.optimizer,
            "goals": [self.goal_entry(goal) for goal in range(self.plan.goals)],
            "b_crit": self.b_crit_entry(),
            "b_simple": self.noise_entry(self.noise) or {},
            "b_noise": self.noise_entry(self.curvature),
            "published": row.to_summary() if row else None,
            "learning_rate_fit": self.learning_rate_fit(),
            "loss_law": self.loss_law(),
            "sweep": self.cost(),
            "command": self.sweep.command,
            **origin(),
            "commit": commits_of(self.records.values()),
            "notes": [],
        }

    def model_text(self) -> str:
        model = self.task.build_model()
        weights = sum(p.numel() for p in model.parameters())
        return f"{type(model).__name__}, {weights:,} weights"

    def curve_rows(self) -> list[dict]:
        """Evaluations of the runs with seed 0 at the best rate for the last goal.

        Where B_noise was measured in a run of the same rate and seed, that one: it trained alike.
        """
        rows = []
        for batch_size in self.plan.batch_sizes:
            best = (batch_size, self.best(batch_size, self.plan.goals - 1), 0)
            same = [t for t in self.records if (t.batch_size, t.index, t.seed) == best]
            for trial in sorted(same, key=lambda t: t.curvature)[-1:]:
                rows += curve(self.records[trial], self.task.smoothing)
        return rows


def write_summary(sweep: FinishedSweep, folder: Path) -> dict:
    """Writes summary.json and curves.csv into `folder`; returns the summary."""
    collected = Summary(sweep)
    summary = rounded(collected.as_dict())
    write_csv(folder / "curves.csv", CURVE_COLUMNS, collected.curve_rows())
    write_json(folder / "summary.json", summary)
    return summary
