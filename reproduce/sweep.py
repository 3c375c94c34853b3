"""Which runs a sweep needs to find, at each batch size, the learning rate that reaches each goal first (App. A.2).

A learning rate is judged by all seeds that were run at it. The search begins with seed 0; further seeds are run where
a rate is the best for a goal, until the best one of every goal has all of them.

The search is a pure function of the outcomes of complete rounds, so an interrupted sweep that replays its rounds
from records asks for exactly the runs that an undisturbed one would have asked for.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from reproduce.records import Record
from reproduce.tradeoff import Point, central_learning_rate, fit_tradeoff

# Learning rates are eps_central(B) * 2^(index / 4): the index counts quarter octaves.
PER_OCTAVE = 4
FURTHEST = 8 * PER_OCTAVE  # a search looks this far each way
# With further seeds to come a run goes on for so long beyond the fewest steps, as its rate may win with these. Half as
# much again is what a rate 2.6 times too high or too low takes where steps follow (r + 1 / r) / 2.
SECOND_LOOK = 1.5
# A rate that was run with fewer seeds than another is preferred to it only if it takes so many times fewer steps: near
# the best rate steps hardly depend on it, and single seeds would take the lead by luck, one rate after the other.
FEWER_SEEDS = 1.1


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


def outcome_from_record(record: Record, limits: Sequence[float | None], higher_is_better: bool) -> Outcome:
    """A complete record as the search sees it that asked for it with these limits."""
    end = record.outcome
    sign = 1 if higher_is_better else -1
    scores = [sign * e["score"] for e in record.evaluations if e["score"] is not None]
    if end["status"] == "failed":
        return Outcome("failed", (), record.last_step, -math.inf)
    whole = Outcome(
        end["status"],
        tuple(end["steps_to_goals"]),
        end["step"],
        max(scores, default=-math.inf),
        end["seconds"],
        end["examples"] + end["probed_examples"],
    )
    return within(whole, limits)


def within(outcome: Outcome, limits: Sequence[float | None]) -> Outcome:
    """What a run with these limits would have shown, of one that may have had wider ones."""
    end = max(
        min(math.inf if step is None else step, math.inf if limit is None else limit)
        for step, limit in zip(outcome.steps, limits, strict=True)
    )
    steps = tuple(None if step is None or step > end else step for step in outcome.steps)
    if None not in steps or end >= outcome.last_step:
        return outcome
    return replace(outcome, status="given_up", steps=steps, last_step=int(end))


Rates = dict[int, list[Outcome]]
"""At one batch size: the outcomes of all seeds by learning rate index."""


def by_index(known: Known, batch_size: int) -> Rates:
    """Outcomes at one batch size."""
    rates: Rates = {}
    for trial, outcome in known.items():
        if trial.batch_size == batch_size and not trial.curvature:
            rates.setdefault(trial.index, []).append(outcome)
    return rates


def tells(outcome: Outcome, goal: int) -> bool:
    """True unless the run was given up before the goal, or failed."""
    return bool(outcome.steps) and (outcome.steps[goal] is not None or outcome.status != "given_up")


def expected_steps(outcomes: Sequence[Outcome], goal: int) -> float:
    """Steps that reaching the goal costs on average, where a run that does not reach it is begun anew.

    All steps spent on the way, over the number of runs that arrived: the expected running time that optimisers are
    compared by (Hansen et al. 2016, arXiv 1605.03560). Infinite if none arrived.
    """
    told = [o for o in outcomes if tells(o, goal)]
    reached = [o.steps[goal] for o in told if o.steps[goal] is not None]
    wasted = sum(o.last_step for o in told if o.steps[goal] is None)
    return (sum(reached) + wasted) / len(reached) if reached else math.inf


def best_index(rates: Rates, goal: int) -> int:
    """The learning rate of the fewest expected steps to the goal; where none reaches it, that which came closest."""
    seeds = {index: sum(tells(outcome, goal) for outcome in outcomes) for index, outcomes in rates.items()}
    most = max(seeds.values())

    def rank(index: int) -> tuple[float, float, int]:
        handicap = FEWER_SEEDS if seeds[index] < most else 1.0
        return handicap * expected_steps(rates[index], goal), -max(o.progress for o in rates[index]), index

    return min(rates, key=rank)


def best_indices(rates: Rates, goals: int) -> set[int]:
    return {best_index(rates, goal) for goal in range(goals)}


def untried_neighbours(rates: Rates, goals: int, spacing: int) -> set[int]:
    """Learning rates to try next, so that each goal's best one ends with worse ones on both sides."""
    if not rates:
        return {0}
    if all(outcome.status == "failed" for outcomes in rates.values() for outcome in outcomes):
        return set()  # not a matter of the learning rate
    # Rates above one at which every run diverged before it reached anything diverge too.
    diverged = [
        index
        for index, outcomes in rates.items()
        if all(o.status == "diverged" and not any(s is not None for s in o.steps) for o in outcomes)
    ]
    ceiling = min(diverged, default=math.inf)
    wanted = {best + offset for best in best_indices(rates, goals) for offset in (-spacing, spacing)}
    return {index for index in wanted if index not in rates and index < ceiling and abs(index) <= FURTHEST}


def limits_from(rates: Rates, goals: int, factor: float) -> tuple[float | None, ...]:
    """`factor` times the fewest expected steps to each goal so far; None where nobody reached it."""
    fewest = [
        min((expected_steps(outcomes, goal) for outcomes in rates.values()), default=math.inf) for goal in range(goals)
    ]
    return tuple(None if math.isinf(steps) else factor * steps for steps in fewest)


def search_round(plan: SweepPlan, known: Known) -> list[Trial]:
    """Next trials of the pruned search with seed 0: at the coarsest spacing first, then finer around the best."""
    trials = []
    for batch_size in plan.batch_sizes:
        rates = by_index(known, batch_size)
        rounds = (untried_neighbours(rates, plan.goals, spacing) for spacing in plan.spacings)
        wanted = next((indices for indices in rounds if indices), set())
        limits = limits_from(rates, plan.goals, SECOND_LOOK if plan.seeds > 1 else 1.0)
        trials += [Trial(batch_size, index, 0, limits) for index in wanted]
    return trials


def seed_round(plan: SweepPlan, known: Known) -> list[Trial]:
    """Further seeds at the rates that are best for some goal, each as far as the last goal it is best for."""
    trials = []
    for batch_size in plan.batch_sizes:
        rates = by_index(known, batch_size)
        best = [best_index(rates, goal) for goal in range(plan.goals)]
        for index in sorted(set(best)):
            limits = tuple(None if best[goal] == index else 0.0 for goal in range(plan.goals))
            last = max(goal for goal in range(plan.goals) if best[goal] == index)
            for seed in range(1, plan.seeds):
                trial = Trial(batch_size, index, seed, limits)
                before = known.get(trial)  # perhaps only as far as an easier goal
                if before is None or (before.status == "given_up" and before.steps[last] is None):
                    trials.append(trial)
    return trials


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
        rates = by_index(known, batch_size)
        if not rates:
            continue
        # A run that was given up says nothing here: it ended because the goal was no longer of interest.
        told = [outcome for outcome in rates[best_index(rates, goal)] if tells(outcome, goal)]
        reached = tuple(o.steps[goal] for o in told if o.steps[goal] is not None)
        censored = tuple(float(o.last_step) for o in told if o.steps[goal] is None and o.last_step > 0)
        if reached or censored:
            result.append(Point(batch_size, reached, censored))
    return result


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
    index = best_index(by_index(known, batch_size), last)
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
