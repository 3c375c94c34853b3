"""What an estimate of the noise scale costs: its error at equal compute, and examples that pruning spares."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from reproduce.bench.timing import quartiles
from reproduce.estimator import unbiased_moments

DIMENSIONS, SAMPLES, STEPS = 256, 64, 100  # of a gradient; a step; in one estimate
RANKS = 8
REPEATS = 100  # estimates, of which the median error is taken, in a block
NOISE_SCALES = (1, 10, 100)  # in samples of a step


def two_batches(gradient: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float, float]:
    """The plain form (App. A.1): a small and a big batch of their own at each step."""
    small = SAMPLES // (RANKS + 1)
    big = SAMPLES - small
    norms = [np.square(noisy(gradient, size, rng)).sum(-1) for size in (small, big)]
    return *norms, small, big


def ranks(gradient: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float, float]:
    """All ranks' gradients against their mean."""
    return shares(gradient, rng, RANKS)


def samples(gradient: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Each sample's own gradient against their mean."""
    return shares(gradient, rng, SAMPLES)


def shares(gradient: np.ndarray, rng: np.random.Generator, of: int) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Squared norms of `of` shares of a step's samples (their mean), and of the whole, each of shape (STEPS,)."""
    size = SAMPLES // of
    parts = [noisy(gradient, size, rng) for _ in range(of)]
    small = sum(np.square(part).sum(-1) for part in parts) / of
    return small, np.square(sum(parts) / of).sum(-1), size, SAMPLES


def noisy(gradient: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Gradients over `size` samples each, at STEPS steps: unit variance in every direction of a sample's."""
    return gradient + rng.standard_normal((STEPS, DIMENSIONS), dtype=np.float32) / np.sqrt(size)


def median_error(form: Callable, noise_scale: float, rng: np.random.Generator) -> float:
    """Of ln(estimate / truth); an estimate without a positive |G|^2 is infinitely wrong."""
    gradient = np.full(DIMENSIONS, 1 / np.sqrt(noise_scale), dtype=np.float32)  # |G|^2 = tr Sigma / B_simple
    errors = []
    for _ in range(REPEATS):
        small, big, n_small, n_big = form(gradient, rng)
        grad_sq, trace = unbiased_moments(small.mean(), big.mean(), n_small, n_big)
        errors.append(abs(np.log(trace / grad_sq / noise_scale)) if grad_sq > 0 and trace > 0 else np.inf)
    return float(np.median(errors))


def measure_errors(blocks: int) -> list[dict]:
    """Errors against those of the plain form, at as many samples a step."""
    rng = np.random.default_rng(0)
    rows = []
    for multiple in NOISE_SCALES:
        for name, form in (("8 ranks", ranks), ("per example", samples)):
            pairs = [
                [median_error(kind, multiple * SAMPLES, rng) for kind in (form, two_batches)] for _ in range(blocks)
            ]
            errors = np.array(pairs)
            rows.append(
                {
                    "what": "error / two batches",
                    "task": f"{name}, B_simple {multiple * SAMPLES}",
                    "batch_size": SAMPLES,
                    "ranks": RANKS if form is ranks else 1,
                    **quartiles(errors[:, 0] / errors[:, 1]),
                    "error": round(float(np.median(errors[:, 0])), 4),
                    "blocks": blocks,
                }
            )
    return rows


def measure_pruning(results: Path) -> list[dict]:
    """Examples that the sweeps in `results` spent, against the least that the plain grid would have (Summary.cost)."""
    rows = []
    for path in sorted(results.glob("*/*/summary.json")):
        sweep = json.loads(path.read_text())["sweep"]
        ratio = round(sweep["examples"] / sweep["examples_full_grid"], 4)
        rows.append({"what": "examples / plain grid", "task": f"{path.parts[-3]}/{path.parts[-2]}", "ratio": ratio})
    return rows
