"""Actions of stochastic policies, drawn by numbers that the caller gives: the same on any number of ranks."""

from torch import Tensor


def sample_actions(log_policy: Tensor, uniforms: Tensor) -> Tensor:
    """One action each from log-probabilities (..., actions), by uniform numbers (...); never an illegal one."""
    cumulative = log_policy.exp().cumsum(-1)
    # Scaled, since sums of float32 may end below 1; the action is the first whose sum is above the number.
    return (cumulative <= uniforms[..., None] * cumulative[..., -1:] * (1 - 1e-6)).sum(-1)
