"""What a claim's judge gives: findings, and whose they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reproduce.report.summaries import Summary


@dataclass(frozen=True)
class Finding:
    """What was measured for one claim, and what follows."""

    measurement: str
    verdict: str


@dataclass(frozen=True)
class Judgement:
    """A finding and whose it is: one task, or several joined by "/"; in_paper where the paper has them."""

    task: str
    scale: str
    in_paper: bool
    finding: Finding


Judge = Callable[[Sequence[Summary]], list[Judgement]]


def each_sweep(find: Callable[[Summary], Finding]) -> Judge:
    """Judges every sweep on its own."""

    def judge(summaries: Sequence[Summary]) -> list[Judgement]:
        return [Judgement(it.task, it.scale, it.published is not None, find(it)) for it in summaries]

    return judge
