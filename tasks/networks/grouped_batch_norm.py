"""Batch normalisation over groups of fixed size, so that a batch's size does not change what its images mean."""

import torch
from torch import Tensor, nn


class GroupedBatchNorm2d(nn.BatchNorm2d):
    """BatchNorm2d whose statistics in training are those of each `group` consecutive images (ghost batch
    normalisation, Hoffer et al. 2017, arXiv 1705.08741).

    Images of one group depend on each other, groups do not: a group is what a task calls a sample. Evaluation uses
    running statistics, to which each forward pass adds the mean over its groups.

    Args:
        features: channels. group: images normalised together.
    Raises:
        ValueError: in training, if a batch does not consist of whole groups.
    """

    def __init__(self, features: int, group: int) -> None:
        super().__init__(features)
        self.group = group

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        images, channels, height, width = x.shape
        if images % self.group:
            raise ValueError(f"{images} images do not make whole groups of {self.group} for batch normalisation.")
        values = self.group * height * width
        if values == 1:
            raise ValueError("Batch normalisation needs more than one value a channel: a larger group, or image.")
        # Half precision would lose the small differences that a variance is made of.
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        groups = wide.view(-1, self.group, channels, height, width)
        variance, mean = torch.var_mean(groups, (1, 3, 4), correction=0, keepdim=True)
        if self.track_running_stats:
            with torch.no_grad():
                unbiased = variance.mean(0).flatten() * (values / (values - 1))
                self.running_mean.lerp_(mean.mean(0).flatten().to(self.running_mean.dtype), self.momentum)
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), self.momentum)
                self.num_batches_tracked += 1
        normalised = (groups - mean) * torch.rsqrt(variance + self.eps)
        scaled = normalised.view_as(x) * self.weight[:, None, None] + self.bias[:, None, None]
        return scaled.to(x.dtype)
