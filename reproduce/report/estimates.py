"""Numbers as summaries hold them: with their intervals, or only bounds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A measured number with its interval; or, where value is None, only a bound on it, or nothing."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def measured(self) -> bool:
        return self.value is not None

    @property
    def at_least(self) -> float | None:
        """The lower bound, where that is all there is."""
        return self.low if self.value is None and self.high is None else None

    @property
    def at_most(self) -> float | None:
        """The upper bound, where that is all there is."""
        return self.high if self.value is None and self.low is None else None


@dataclass(frozen=True)
class SignedEstimate:
    """A measured number that may be negative, with its interval."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class LearningRateFit:
    """Best learning rate = eps / (1 + knee / B)^alpha (appendix A.2)."""

    eps: float
    knee: float
    alpha: float
