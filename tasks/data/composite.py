"""Generated images without end: shapes from a fixed set, moved, coloured and laid over textured backgrounds.

The shapes are drawn once, into an atlas; a batch is one look-up of all its pixels in it and a few sums, so that making
images costs little beside training on them. Image i of step s depends on (seed, s, i) alone: it is the same at every
batch size, on any number of ranks and after a resume. Across versions of Pillow and PyTorch, and on a GPU, images are
alike in distribution, not bit by bit.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tasks.task import random_generator

ATLAS_COLUMNS = 64
TEXTURES = 512
NOISE_VALUES = 1 << 18  # of which each image takes a slice, beginning anywhere: few enough to stay in a cache


@dataclass(frozen=True)
class Look:
    """How images vary: ranges of uniform distributions.

    Attributes:
        size: pixels a side. scale: by which shapes shrink (below 1 they fill more of the image).
        stretch: ln of the factor of the width, and of 1 / that of the height, either way. angle: in radians, either
        way. shear: a slope, either way. shift: of the view, in half images, either way. flip: mirror half of them.
        grey: of the background. tint: width of the colour casts of background and shape. contrast: of shape against
        background, of either sign. light: brightness gradient from the image's middle to its edge, either way.
        texture, noise: standard deviations of the background's texture and of the pixel noise.
    """

    size: int
    scale: tuple[float, float]
    stretch: float
    angle: float
    shear: float
    shift: float
    flip: bool
    grey: tuple[float, float]
    tint: float
    contrast: tuple[float, float]
    light: float
    texture: tuple[float, float]
    noise: tuple[float, float]

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Each number that is drawn for an image, and between which limits."""
        cast = (-self.tint / 2, self.tint / 2)
        return {
            "shape": (0, 1),
            "scale": self.scale,
            "stretch": either_way(self.stretch),
            "angle": either_way(self.angle),
            "shear": either_way(self.shear),
            "shift_x": either_way(self.shift),
            "shift_y": either_way(self.shift),
            "mirror": (-1, 1) if self.flip else (0, 1),
            "grey": self.grey,
            **dict.fromkeys(("red", "green", "blue"), cast),
            "contrast": self.contrast,
            "sign": (-1, 1),
            **dict.fromkeys(("ink_red", "ink_green", "ink_blue"), cast),
            "light_x": either_way(self.light),
            "light_y": either_way(self.light),
            "field": (0, TEXTURES),
            "texture": self.texture,
            **dict.fromkeys(("texture_red", "texture_green", "texture_blue"), (0.5, 1.5)),
            "noise_start": (0, NOISE_VALUES - 3 * self.size**2),
            "noise": self.noise,
        }


def either_way(limit: float) -> tuple[float, float]:
    return -limit, limit


def smooth_textures(count: int, size: int, generator: torch.Generator) -> Tensor:
    """Value noise of several octaves, (count, size * size), each field with mean 0 and standard deviation 1."""
    fields = torch.zeros(count, 1, size, size)
    for cells in (3, 5, 9):
        coarse = torch.randn(count, 1, cells, cells, generator=generator)
        fields += F.interpolate(coarse, (size, size), mode="bicubic", align_corners=True) / math.sqrt(cells)
    flat = fields.flatten(1)
    flat = flat - flat.mean(1, keepdim=True)
    return flat / flat.std(1, keepdim=True)


class Composites(nn.Module):
    """Makes images from uniform random numbers: a module, so that its tables can live on a GPU.

    Args:
        name: keys the textures and the noise. shapes: (k, height, width) in [0, 1], 0 along the edges. labels: (k,)
        int64. look: how images vary. cue: (classes, 3), added to a shape's colour by its class; None for none.
    """

    def __init__(self, name: str, shapes: Tensor, labels: Tensor, look: Look, cue: Tensor | None = None) -> None:
        super().__init__()
        self.name, self.look = name, look
        count, height, width = shapes.shape
        rows = math.ceil(count / ATLAS_COLUMNS)
        cells = torch.zeros(rows * ATLAS_COLUMNS, height, width)
        cells[:count] = shapes
        atlas = cells.view(rows, ATLAS_COLUMNS, height, width).transpose(1, 2).reshape(rows * height, -1)
        row, column = torch.arange(count) // ATLAS_COLUMNS, torch.arange(count) % ATLAS_COLUMNS
        line = (torch.arange(look.size) + 0.5) * 2 / look.size - 1
        y, x = torch.meshgrid(line, line, indexing="ij")
        generator = random_generator(name, "textures")
        ranges = look.ranges()
        self.column = {name: index for index, name in enumerate(ranges)}
        self.labels: Tensor
        for key, table in {
            "atlas": atlas[None, None],
            "labels": labels,
            # Coordinates of grid_sample run from -1 to 1 over the whole atlas.
            "centres": torch.stack([(2 * column + 1) / ATLAS_COLUMNS - 1, (2 * row + 1) / rows - 1], 1),
            # From a cell's middle to the middle of its last pixel; and an image's half, in these.
            "reach": torch.tensor([(1 - 1 / width) / ATLAS_COLUMNS, (1 - 1 / height) / rows]),
            "window": torch.tensor([look.size / (width - 1), look.size / (height - 1)]),
            "plane": torch.stack([x.flatten(), y.flatten(), torch.ones(look.size**2)]),
            "textures": smooth_textures(TEXTURES, look.size, generator),
            "noise": torch.randn(NOISE_VALUES, generator=generator),
            "cue": torch.zeros(int(labels.max()) + 1, 3) if cue is None else cue,
            "low": torch.tensor([float(low) for low, _ in ranges.values()]),
            "span": torch.tensor([float(high - low) for low, high in ranges.values()]),
        }.items():
            self.register_buffer(key, table, persistent=False)

    def uniforms(self, seed: object, step: int, images: int) -> Tensor:
        """The random numbers of a step's images, (images, numbers), on the CPU.

        Row by row from one stream, so that image i does not depend on how many follow it.
        """
        return torch.rand(images, len(self.column), generator=random_generator(self.name, seed, step))

    def forward(self, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        """Images (n, 3, size, size) float in [0, 1], channels last, and their labels (n,) int64."""
        drawn = torch.addcmul(self.low, uniforms, self.span)
        shape = (self._drawn(drawn, "shape") * len(self.labels)).long()
        images = self._images(drawn, shape)
        return images.contiguous(memory_format=torch.channels_last), self.labels[shape]

    def _drawn(self, drawn: Tensor, first: str, columns: int = 0) -> Tensor:
        """The column `first`, (n,), or so many columns from there on, (n, columns)."""
        index = self.column[first]
        return drawn[:, index : index + columns] if columns else drawn[:, index]

    def _masks(self, drawn: Tensor, shape: Tensor) -> Tensor:
        """The shapes under each image's affine map, (n, pixels)."""
        n = len(shape)
        scale, stretch, angle, shear, shift_x, shift_y, mirror = self._drawn(drawn, "scale", 7).unbind(1)
        cos, sin, ratio, mirror = angle.cos(), angle.sin(), stretch.exp(), mirror.sign()
        wide, tall = scale * ratio, scale / ratio
        rows = [
            *(wide * cos * mirror, wide * (shear * cos - sin), shift_x),
            *(tall * sin * mirror, tall * (shear * sin + cos), shift_y),
        ]
        maps = torch.stack(rows, 1).view(n, 2, 3) * self.window[:, None]
        # Outside its cell a shape is 0, as along its cell's edges.
        local = (maps.view(2 * n, 3) @ self.plane).view(n, 2, -1).clamp_(-1, 1)
        local = local.mul_(self.reach[:, None]).add_(self.centres[shape][:, :, None])
        grid = local.transpose(1, 2).reshape(1, n, -1, 2)
        return F.grid_sample(self.atlas, grid, align_corners=False).view(n, -1)

    def _images(self, drawn: Tensor, shape: Tensor) -> Tensor:
        """background + light . (x, y) + ink * mask + texture * field + noise, (n, 3, size, size)."""
        n, size = len(shape), self.look.size
        background = self._drawn(drawn, "grey", 1) + self._drawn(drawn, "red", 3)
        sign = self._drawn(drawn, "sign", 1).sign()
        ink = self._drawn(drawn, "contrast", 1) * sign + self._drawn(drawn, "ink_red", 3)
        ink = ink + self.cue[self.labels[shape]]
        texture = self._drawn(drawn, "texture", 1) * self._drawn(drawn, "texture_red", 3)
        light = self._drawn(drawn, "light_x", 2)[:, None].expand(n, 3, 2)
        flat = torch.cat([light, background[:, :, None]], 2).view(3 * n, 3)
        images = (flat @ self.plane).view(n, 3, -1)
        field = self.textures.index_select(0, self._drawn(drawn, "field").long())
        images.baddbmm_(torch.stack([ink, texture], 2), torch.stack([self._masks(drawn, shape), field], 1))
        windows = self.noise.as_strided((NOISE_VALUES - 3 * size**2 + 1, 3 * size**2), (1, 1))
        noise = windows.index_select(0, self._drawn(drawn, "noise_start").long()).view_as(images)
        images.addcmul_(noise, self._drawn(drawn, "noise", 1)[:, None])
        return images.clamp_(0, 1).view(n, 3, size, size)
