"""Gradients in Adam's metric, g / (sqrt(v) + eps), of which the noise scale of an Adam step is made.

Adam (Algorithm 1 of arXiv 1412.6980) does not step along the gradient but along the gradient so divided, and its noise
scale is tr(P Sigma P) / |P G|^2 with P the diagonal matrix of 1 / (sqrt(v) + eps). It does not change where P is the
same for all weights.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim import Adam

from reproduce.estimator import NoiseScaleError


class AdamMetric:
    """Divides gradients as the next step of an optimizer would if this step's gradient did not change v.

    The state is read when asked: during and after a backward pass that of the step before, which does not depend on
    the gradient it divides. (With the v that the gradient enters, noise would divide itself.)

    Args:
        optimizer: torch.optim.Adam or AdamW, with its parameters.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        if not isinstance(optimizer, Adam):  # AdamW is one
            raise NoiseScaleError(
                f"precondition={type(optimizer).__name__}: only torch.optim.Adam and AdamW are known to divide by "
                "sqrt(v) + eps. Leave it out for the plain noise scale."
            )
        self.optimizer = optimizer
        # Numbers, not the groups themselves, which load_state_dict replaces.
        self.group = {p: i for i, group in enumerate(optimizer.param_groups) for p in group["params"]}

    def has_stepped(self) -> bool:
        """Whether the optimizer has any v."""
        return any("exp_avg_sq" in state for state in self.optimizer.state.values())

    def divisor(self, parameter: nn.Parameter) -> Tensor | None:
        """sqrt(v / (1 - beta2^t)) + eps, of the parameter's shape; None before its first step.

        Infinite where v is 0: a weight that has had no gradient yet (the row of a token not seen so far) has no scale,
        and would outweigh all others if it were divided by eps.
        """
        state = self.optimizer.state.get(parameter, {})
        if "exp_avg_sq" not in state:
            return None
        group = self.optimizer.param_groups[self.group[parameter]]
        v = state["max_exp_avg_sq"] if group["amsgrad"] else state["exp_avg_sq"]
        v = v.to(torch.promote_types(v.dtype, torch.float32))
        # On whichever device keeps the count of steps, without waiting for it.
        correction = 1 - group["betas"][1] ** torch.as_tensor(state["step"]).double()
        return ((v / correction).sqrt() + group["eps"]).masked_fill(v == 0, torch.inf)

    def divided(self, parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor]) -> list[Tensor]:
        """Each gradient over its divisor; those without one are left out."""
        divisors = [self.divisor(p) for p in parameters]
        return [g / d for g, d in zip(gradients, divisors, strict=True) if d is not None]
