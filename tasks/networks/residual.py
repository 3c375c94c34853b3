"""Residual networks for small images (He et al. 2015, section 4.2, arXiv 1512.03385)."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

Norm = Callable[[int], nn.Module]
"""Makes the normalisation of so many channels."""


def group_norm(channels: int) -> nn.Module:
    """GroupNorm with 8 channels a group: like BatchNorm in effect, but each image is normalised on its own."""
    return nn.GroupNorm(max(1, channels // 8), channels)


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = norm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = norm(outputs)
        self.stride, self.more = stride, outputs - inputs

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        # The shortcut has no weights: every second pixel, and zeros for the channels that are new (option A).
        shortcut = x[:, :, :: self.stride, :: self.stride]
        if self.more:
            shortcut = F.pad(shortcut, (0, 0, 0, 0, 0, self.more))
        return F.relu(y + shortcut)


class ResNet(nn.Module):
    """A first convolution, stages of `blocks` blocks each, the mean over pixels, a linear layer.

    With widths (16, 32, 64) and 5 blocks a stage this is ResNet-32.

    Args:
        widths: channels of each stage; stages but the first halve the image. blocks: in a stage.
        stem_stride: of the first convolution; 2 makes all of the network four times as fast.
    """

    def __init__(self, widths: tuple[int, ...], blocks: int, classes: int, norm: Norm, stem_stride: int = 1) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 3, stem_stride, padding=1, bias=False)
        self.norm = norm(widths[0])
        stages = []
        inputs = widths[0]
        for stage, width in enumerate(widths):
            for block in range(blocks):
                stages.append(Block(inputs, width, 2 if stage and not block else 1, norm))
                inputs = width
        self.blocks = nn.Sequential(*stages)
        self.classes = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        x = F.relu(self.norm(self.stem(images)))
        return self.classes(self.blocks(x).mean((2, 3)))
