"""Shape classes for CIFAR-10's and ImageNet's embedded stand-ins: coloured fractals on textured backgrounds.

A class is an iterated function system, as in FractalDB (Kataoka et al. 2020, arXiv 2101.08515); systems are drawn by
their singular values, as Anderson and Farrell (2021, arXiv 2110.03091) do, whose images are also coloured and have
backgrounds. Ours differ from both: 32 x 32 pixels, a few maps, a weak cue of colour by class, and views that are
composed anew for every training step.
"""

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from tasks.data.composite import Composites, Look
from tasks.task import random_generator

CELL = 48  # pixels: room for rotated and shrunk views of 32 x 32
WALKERS, BURN_IN, KEPT = 256, 15, 16  # of the chaos game: points of a shape are WALKERS * KEPT
JITTER = 0.06  # of a system's maps and translations, between shapes of a class
LEAST_COVER = 0.22  # of a 32 x 32 grid: systems that cover less are dust, and drawn again
LOOK = Look(
    size=32,
    scale=(1.0, 1.5),
    stretch=0.2,
    angle=0.5,
    shear=0.2,
    shift=0.2,
    flip=True,
    grey=(0.25, 0.75),
    tint=0.3,
    contrast=(0.2, 0.5),
    light=0.15,
    texture=(0.03, 0.12),
    noise=(0.0, 0.05),
)


def rotations(angles: Tensor) -> Tensor:
    """(...,) -> (..., 2, 2)."""
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)


def random_systems(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """`count` systems of 2 to 4 contractions of the plane.

    Singular values s1 >= s2 of n maps are drawn so that (5 + n) / 2 <= sum (s1 + 2 s2) <= (6 + n) / 2, the range in
    which Anderson and Farrell found fractals that are neither dust nor blobs; then each is at most 0.95.

    Returns:
        maps (count, 4, 2, 2), translations (count, 4, 2), probabilities (count, 4), 0 for maps that are not there.
    """

    def uniform(*shape: int) -> Tensor:
        return torch.rand(count, *shape, generator=generator)

    present = torch.arange(4) < (2 + (uniform(1) * 3).long())
    n = present.sum(1, keepdim=True)
    target = (5 + n + uniform(1)) / 2
    s1 = 0.3 + 0.7 * uniform(4)
    s2 = s1 * uniform(4)
    total = ((s1 + 2 * s2) * present).sum(1, keepdim=True)
    s1, s2 = (s * target / total for s in (s1, s2))
    # What rescaling made longer than a contraction may be is cut off: such systems lose size, not shape.
    s1, s2 = s1.clamp(max=0.95), s2.clamp(max=0.95)
    reflect = torch.where(uniform(4) < 0.5, -1.0, 1.0)
    stretches = torch.diag_embed(torch.stack([s1, s2 * reflect], -1))
    maps = rotations(2 * math.pi * uniform(4)) @ stretches @ rotations(2 * math.pi * uniform(4))
    # Visited in proportion to the area that they cover, or a large map would stay empty.
    probabilities = (s1 * s2).clamp(min=0.02) * present
    return maps, uniform(4, 2) * 2 - 1, probabilities


def chaos_game(maps: Tensor, translations: Tensor, probabilities: Tensor, generator: torch.Generator) -> Tensor:
    """Points of the systems' attractors, (systems, WALKERS * KEPT, 2), each with mean 0 and about in [-1, 1]."""
    systems = len(maps)
    points = torch.zeros(systems, WALKERS, 2)
    kept = []
    flat_maps, flat_translations = maps.reshape(-1, 2, 2), translations.reshape(-1, 2)
    first = torch.arange(systems)[:, None] * maps.shape[1]
    for step in range(BURN_IN + KEPT):
        chosen = torch.multinomial(probabilities, WALKERS, replacement=True, generator=generator) + first
        points = (flat_maps[chosen] @ points[..., None]).squeeze(-1) + flat_translations[chosen]
        if step >= BURN_IN:
            kept.append(points)
    cloud = torch.cat(kept, 1)
    cloud = cloud - cloud.mean(1, keepdim=True)
    radius = torch.quantile(cloud.norm(dim=2), 0.97, dim=1)
    return cloud / radius.clamp(min=1e-6)[:, None, None]


def densities(points: Tensor, size: int, reach: float) -> Tensor:
    """How often points of [-1, 1] fall on each pixel, (systems, size, size); the pixels span [-reach, reach]."""
    pixel = ((points / reach + 1) * size / 2).floor().long()
    inside = ((pixel >= 0) & (pixel < size)).all(2)
    index = (pixel[..., 1] * size + pixel[..., 0]).clamp(0, size**2 - 1)
    counts = torch.zeros(len(points), size**2)
    return counts.scatter_add_(1, index, inside.float()).view(-1, size, size)


def systems_that_cover(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """`count` random systems whose attractors are neither dust nor a point."""
    found: list[tuple[Tensor, ...]] = []
    while sum(len(part[0]) for part in found) < count:
        systems = random_systems(2 * count, generator)
        cover = (densities(chaos_game(*systems, generator), 32, 1.0) > 0).float().mean((1, 2))
        found.append(tuple(part[cover >= LEAST_COVER] for part in systems))
    maps, translations, probabilities = (torch.cat(parts)[:count] for parts in zip(*found, strict=True))
    return maps, translations, probabilities


def fractal_shapes(classes: int, shapes_per_class: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Shapes (classes * shapes_per_class, CELL, CELL) in [0, 1] and their classes."""
    systems = systems_that_cover(classes, generator)
    labels = torch.arange(classes * shapes_per_class) % classes
    parts = []
    for chosen in labels.split(512):
        maps, translations, probabilities = (part[chosen] for part in systems)
        maps = maps + JITTER * torch.randn(maps.shape, generator=generator)
        translations = translations + JITTER * torch.randn(translations.shape, generator=generator)
        counts = densities(chaos_game(maps, translations, probabilities, generator), CELL, CELL / 32)
        mean = counts.sum((1, 2), keepdim=True) / (counts > 0).sum((1, 2), keepdim=True)
        # Saturating, so that an attractor's body shows and not its densest spots alone; then as blurred as a photo.
        masks = F.avg_pool2d((1 - torch.exp(-2 * counts / mean))[:, None], 3, 1, 1)[:, 0]
        parts.append(masks / masks.amax((1, 2), keepdim=True))
    shapes = torch.cat(parts)
    shapes[:, [0, -1]] = 0
    shapes[:, :, [0, -1]] = 0
    return shapes, labels


@lru_cache(maxsize=2)
def fractals(classes: int, shapes_per_class: int, cue: float) -> Composites:
    """A source of `classes` fractal classes.

    Args:
        cue: how much the colour of a shape says about its class: length of the class's own colour vector.
    """
    generator = random_generator("fractals", classes)
    shapes, labels = fractal_shapes(classes, shapes_per_class, generator)
    colours = F.normalize(torch.randn(classes, 3, generator=generator), dim=1) * cue
    return Composites(f"fractals {classes}", shapes, labels, LOOK, colours)


if __name__ == "__main__":
    from tasks.data.contact_sheet import sheet_from_command_line

    sheet_from_command_line(fractals(classes=100, shapes_per_class=32, cue=0.6), "fractals")
