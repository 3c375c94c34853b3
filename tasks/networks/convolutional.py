"""Two convolutions and a hidden layer, the paper's network for MNIST and SVHN (App. A.4)."""

import torch.nn.functional as F
from torch import Tensor, nn


class ConvNet(nn.Module):
    """conv 5x5 - pool - conv 5x5 - pool - hidden - classes, with an optional dropout mask on the hidden layer.

    The dropout mask comes with the batch, as augmentation does: a training step is then a pure function of
    (seed, step), the same on one rank and on eight, at any micro-batch, and after a resume.

    Args:
        image: channels and pixels a side. channels: filters of the two convolutions. hidden: units.
        stride: of the first convolution; 2 in place of its pooling makes the network about three times as fast.
    """

    def __init__(
        self, image: tuple[int, int], channels: tuple[int, int], hidden: int, classes: int, stride: int = 1
    ) -> None:
        super().__init__()
        depth, size = image
        first, second = channels
        self.conv1 = nn.Conv2d(depth, first, 5, padding=2, stride=stride)
        self.conv2 = nn.Conv2d(first, second, 5, padding=2)
        self.pool_first = stride == 1
        self.hidden = nn.Linear(second * (size // 4) ** 2, hidden)
        self.classes = nn.Linear(hidden, classes)

    def forward(self, images: Tensor, dropout_mask: Tensor | None = None) -> Tensor:
        x = self.conv1(images)
        x = F.relu(F.max_pool2d(x, 2) if self.pool_first else x)
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = F.relu(self.hidden(x.flatten(1)))
        return self.classes(x if dropout_mask is None else x * dropout_mask)
