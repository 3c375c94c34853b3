"""InfoGAN's discriminator and generator for SVHN as encoder and decoder (Chen et al. 2016, App. C.2,
arXiv 1606.03657), at any width."""

import torch.nn.functional as F
from torch import Tensor, nn


class Encoder(nn.Module):
    """Three 4x4 convolutions of stride 2 and a hidden layer: images (n, 3, 32, 32) -> (n, outputs).

    Channels are width, 2 width and 4 width; InfoGAN's are 64, 128 and 256. Where it has BatchNorm, ours has nothing:
    images stay independent of each other, and a batch may hold one. (With GroupNorm, many seeds at small batches
    never left the stage where every image is reconstructed as the mean of all.)
    """

    def __init__(self, width: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 4, 2, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 4, 2, padding=1)
        self.conv3 = nn.Conv2d(2 * width, 4 * width, 4, 2, padding=1)
        self.hidden = nn.Linear(4 * width * 16, hidden)
        self.code = nn.Linear(hidden, outputs)

    def forward(self, images: Tensor) -> Tensor:
        x = F.leaky_relu(self.conv1(images), 0.1)
        x = F.leaky_relu(self.conv2(x), 0.1)
        x = F.leaky_relu(self.conv3(x), 0.1)
        return self.code(F.leaky_relu(self.hidden(x.flatten(1)), 0.1))


class Decoder(nn.Module):
    """A linear layer to 2x2 pixels and four transposed 4x4 convolutions of stride 2: codes -> images in [0, 1].

    Channels are 7 width, 4 width, 2 width, width and 3; InfoGAN's are 448, 256, 128, 64 and 3.
    """

    def __init__(self, width: int, codes: int) -> None:
        super().__init__()
        self.seed = nn.Linear(codes, 7 * width * 4)
        self.up1 = nn.ConvTranspose2d(7 * width, 4 * width, 4, 2, padding=1)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, padding=1)
        self.up3 = nn.ConvTranspose2d(2 * width, width, 4, 2, padding=1)
        self.up4 = nn.ConvTranspose2d(width, 3, 4, 2, padding=1)

    def forward(self, codes: Tensor) -> Tensor:
        x = F.relu(self.seed(codes).view(len(codes), -1, 2, 2))
        x = F.relu(self.up1(x))
        x = F.relu(self.up3(F.relu(self.up2(x))))
        return (self.up4(x).tanh() + 1) / 2
