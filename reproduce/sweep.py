"""Which runs a sweep needs to find, at each batch size, the learning rate that reaches each goal first (App. A.2).

The search is a pure function of the outcomes of complete rounds, so an interrupted sweep that replays its rounds
from records asks for exactly the runs that an undisturbed one would have asked for.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from reproduce.records import Record
from reproduce.tradeoff import Point, central_learning_rate, fit_tradeoff

# Learning rates are eps_central(B) * 2^(index / 4): the index counts quarter octaves.
PER_OCTAVE = 4
FURTHEST = 8 * PER_OCTAVE  # a search looks this far each way


@dataclass(frozen=True)
class Trial:
    """A run that the sweep wants; `limits` as in RunSettings. `curvature`: also measure B_noise."""

    batch_size: int
    index: int  # quarter octaves from the central learning rate
    seed: int
    limits: tuple[float | None, ...] = field(compare=False)
    curvature: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a run showed.

    Attributes:
        steps: to each goal, None where not reached. last_step: where the run ended.
        progress: best score that it showed, higher is better. Used where nobody reached a goal.
    """

    status: str
    steps: tuple[float | None, ...]
    last_step: int
    progress: float
    seconds: float = 0.0
    examples: int = 0


@dataclass(frozen=True)
class SweepPlan:
    """A sweep's fixed choices; see conf/sweep for their meaning."""

    batch_sizes: tuple[int, ...]
    goals: int
    seeds: int
    search: str  # "pruned" or "grid"
    spacings: tuple[int, ...]  # of learning rates, in quarter octaves, from coarse to fine
    octaves: int
    eps: float
    knee: float
    alpha: float
    curvature: bool

    def learning_rate(self, batch_size: int, index: int) -> float:
        """The rate at `index`, to four digits, so that it reads the same in names, records and commands."""
        central = central_learning_rate(batch_size, self.eps, self.knee, self.alpha)
        return float(f"{central * 2 ** (index / PER_OCTAVE):.4g}")


Known = dict[Trial, Outcome]


def outcome_from_record(record: Record, higher_is_better: bool) -> Outcome:
    """A complete record as the search sees it."""
    end = record.outcome
    sign = 1 if higher_is_better else -1
    scores = [sign * e["score"] for e in record.evaluations if e["score"] is not None]
    if end["status"] == "failed":
        return Outcome("failed", (), record.last_step, -math.inf)
    return Outcome(
        end["status"],
        tuple(end["steps_to_goals"]),
        end["step"],
        max(scores, default=-math.inf),
        end["seconds"],
        end["examples"] + end["probed_examples"],
    )


def by_index(known: Known, batch_size: int, seed: int) -> dict[int, Outcome]:
    """Outcomes at one batch size and seed, by learning rate index."""
    return {
        t.index: outcome
        for t, outcome in known.items()
        if t.batch_size == batch_size and t.seed == seed and not t.curvature
    }


def best_index(outcomes: dict[int, Outcome], goal: int) -> int:
    """The learning rate that reached the goal first; where none did, the one that came closest to it."""

    def rank(index: int) -> tuple[float, float, int]:
        outcome = outcomes[index]
        steps = outcome.steps[goal] if outcome.steps else None
        return (math.inf if steps is None else steps, -outcome.progress, index)

    return min(outcomes, key=rank)


def best_indices(outcomes: dict[int, Outcome], goals: int) -> set[int]:
    return {best_index(outcomes, goal) for goal in range(goals)}


def untried_neighbours(outcomes: dict[int, Outcome], goals: int, spacing: int) -> set[int]:
    """Learning rates to try next, so that each goal's best one ends with worse ones on both sides."""
    if not outcomes:
        return {0}
    if all(outcome.status == "failed" for outcome in outcomes.values()):
        return set()  # not a matter of the learning rate
    # Rates above one that diverged before it reached anything diverge too.
    diverged = [
        index for index, o in outcomes.items() if o.status == "diverged" and not any(s is not None for s in o.steps)
    ]
    ceiling = min(diverged, default=math.inf)
    wanted = {best + offset for best in best_indices(outcomes, goals) for offset in (-spacing, spacing)}
    return {index for index in wanted if index not in outcomes and index < ceiling and abs(index) <= FURTHEST}


def limits_from(outcomes: Iterable[Outcome], goals: int) -> tuple[float | None, ...]:
    """Fewest steps to each goal so far; None where nobody reached it."""
    outcomes = list(outcomes)
    best: list[float | None] = []
    for goal in range(goals):
        reached = [o.steps[goal] for o in outcomes if o.steps and o.steps[goal] is not None]
        best.append(min(reached) if reached else None)
    return tuple(best)


def search_round(plan: SweepPlan, known: Known) -> list[Trial]:
    """Next trials of the pruned search with seed 0: at the coarsest spacing first, then finer around the best."""
    trials = []
    for batch_size in plan.batch_sizes:
        outcomes = by_index(known, batch_size, 0)
        rounds = (untried_neighbours(outcomes, plan.goals, spacing) for spacing in plan.spacings)
        wanted = next((indices for indices in rounds if indices), set())
        limits = limits_from(outcomes.values(), plan.goals)
        trials += [Trial(batch_size, index, 0, limits) for index in wanted]
    return trials


def seed_round(plan: SweepPlan, known: Known) -> list[Trial]:
    """Further seeds at the rates that were best for some goal, each as far as the last goal it was best for."""
    trials = []
    for batch_size in plan.batch_sizes:
        outcomes = by_index(known, batch_size, 0)
        best = [best_index(outcomes, goal) for goal in range(plan.goals)]
        for index in sorted(set(best)):
            limits = tuple(None if best[goal] == index else 0.0 for goal in range(plan.goals))
            trials += [Trial(batch_size, index, seed, limits) for seed in range(1, plan.seeds)]
    return [trial for trial in trials if trial not in known]


def grid_round(plan: SweepPlan, known: Known) -> list[Trial]:
    """The paper's plain grid: everything at once, without limits."""
    span = PER_OCTAVE * plan.octaves
    no_limits = (None,) * plan.goals
    trials = [
        Trial(batch_size, index, seed, no_limits)
        for batch_size in plan.batch_sizes
        for index in range(-span, span + 1, plan.spacings[-1])
        for seed in range(plan.seeds)
    ]
    return [trial for trial in trials if trial not in known]


def points(plan: SweepPlan, known: Known, goal: int) -> list[Point]:
    """Steps to a goal at each batch size, at the learning rate that was best for it."""
    result = []
    for batch_size in plan.batch_sizes:
        outcomes = by_index(known, batch_size, 0)
        if not outcomes:
            continue
        index = best_index(outcomes, goal)
        seeds = [
            outcome
            for t, outcome in known.items()
            if t.batch_size == batch_size and t.index == index and not t.curvature and outcome.steps
        ]
        reached = tuple(o.steps[goal] for o in seeds if o.steps[goal] is not None)
        # A run that was given up says nothing here: it ended because the goal was no longer of interest.
        censored = tuple(
            float(o.last_step) for o in seeds if o.steps[goal] is None and o.status in ("exhausted", "diverged")
        )
        if reached or censored:
            result.append(Point(batch_size, reached, tuple(c for c in censored if c > 0)))
    return [point for point in result if point.steps or point.censored]


def curvature_round(plan: SweepPlan, known: Known) -> list[Trial]:
    """Well-tuned runs near the critical batch size, one a seed, in which B_noise is measured beside B_simple."""
    if not plan.curvature or any(t.curvature for t in known):
        return []
    last = plan.goals - 1
    fitted = points(plan, known, last)
    b_crit = fit_tradeoff(fitted).b_crit if fitted else None
    sizes = [p.batch_size for p in fitted if p.steps] or list(plan.batch_sizes)
    middle = b_crit or sizes[len(sizes) // 2]
    batch_size = min(sizes, key=lambda b: abs(math.log(b / middle)))
    index = best_index(by_index(known, batch_size, 0), last)
    no_limits = (None,) * plan.goals
    return [Trial(int(batch_size), index, seed, no_limits, curvature=True) for seed in range(plan.seeds)]


def next_round(plan: SweepPlan, known: Known) -> list[Trial]:
    """The trials of the next round, longest first; empty when the sweep is complete."""
    pruned = plan.search == "pruned"
    trials = (search_round(plan, known) or seed_round(plan, known)) if pruned else grid_round(plan, known)
    trials = trials or curvature_round(plan, known)
    return sorted(trials, key=lambda t: (-expected_seconds(plan, known, t.batch_size), t.batch_size, t.index, t.seed))


def expected_seconds(plan: SweepPlan, known: Known, batch_size: int) -> float:
    """Rank by duration: that of the longest run at this batch size; before there is one, the extremes come first,
    since small batches take many steps and large ones many examples.
    """
    seconds = [outcome.seconds for trial, outcome in known.items() if trial.batch_size == batch_size]
    middle = sum(map(math.log, plan.batch_sizes)) / len(plan.batch_sizes)
    return max(seconds) if seconds else abs(math.log(batch_size) - middle)


def run_sweep(plan: SweepPlan, run_round: Callable[[Sequence[Trial], Known], Known]) -> Known:
    """Runs rounds until none is left; `run_round(trials, known)` returns their outcomes."""
    known: Known = {}
    while trials := next_round(plan, known):
        outcomes = run_round(trials, known)
        known |= outcomes
    return known
