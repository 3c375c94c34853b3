"""Two gloo ranks against one process: the noise scale of Adam's steps, and that of a model in shards."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from reproduce.distributed import Ranks, run_on_ranks
from reproduce.estimator import NoiseScaleError
from reproduce.noise_scale import NoiseScale

STEPS, SHARE, MICRO = 5, 12, 4


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))


def shares(step: int) -> list[tuple[Tensor, Tensor]]:
    """The step's samples for each of two ranks."""
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(2 * SHARE, 5, generator=generator)
    labels = torch.randint(3, (2 * SHARE,), generator=generator)
    return list(zip(inputs.split(SHARE), labels.split(SHARE), strict=True))


def train(model: nn.Module, noise_scale: NoiseScale, optimizer, batches, micro_batch: int) -> list[float]:
    """[updates, |G|^2, tr Sigma, a few weights in the end]; `batches(step)`: this process's, a backward pass each."""
    for step in range(STEPS):
        optimizer.zero_grad()
        parts = batches(step)
        for inputs, labels in parts:
            (F.cross_entropy(model(inputs), labels) / len(parts)).backward()
            if micro_batch:
                noise_scale.micro_batch(micro_batch, weight=1 / len(parts))
        noise_scale.update(samples=len(parts) * len(parts[0][0]))
        optimizer.step()
    estimate = noise_scale.estimate()
    weight = next(model.parameters())
    weight = weight.full_tensor() if isinstance(weight, DTensor) else weight
    return [estimate.updates, estimate.grad_sq, estimate.trace, *weight.flatten()[:3].tolist()]


def in_pieces(batch: tuple[Tensor, Tensor]) -> list[tuple[Tensor, Tensor]]:
    return list(zip(*(t.split(MICRO) for t in batch), strict=True))


def alone(precondition: bool, micro: bool = False) -> list[float]:
    """One process, in which each rank's share, or each micro-batch of each rank, is a micro-batch."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    noise_scale = NoiseScale(model, micro_batches=True, precondition=optimizer if precondition else None)

    def batches(step: int) -> list[tuple[Tensor, Tensor]]:
        return [part for share in shares(step) for part in in_pieces(share)] if micro else shares(step)

    return train(model, noise_scale, optimizer, batches, MICRO if micro else SHARE)


def sharded_network() -> nn.Module:
    model = network()
    mesh = init_device_mesh("cpu", (2,))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def refusal(make) -> str:
    try:
        make()
    except NoiseScaleError as error:
        return str(error)
    return "not refused"


def two_passes_in_one_update(model: nn.Module) -> None:
    noise_scale = NoiseScale(model)
    for inputs, _ in shares(0):
        model(inputs).mean().backward()
    noise_scale.update(samples=SHARE)


def on_two_ranks(ranks: Ranks) -> dict[str, list]:
    results = {}
    for name, precondition in (("plain", False), ("adam", True)):
        model = DistributedDataParallel(network(), bucket_cap_mb=1e-4)  # several buckets
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        noise_scale = NoiseScale(model, precondition=optimizer if precondition else None)
        results[name] = train(model, noise_scale, optimizer, lambda step: [shares(step)[ranks.rank]], 0)
    for name, micro in (("sharded", False), ("sharded micro-batches", True)):
        model = sharded_network()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        noise_scale = NoiseScale(model, micro_batches=micro)
        results[name] = train(
            model,
            noise_scale,
            optimizer,
            lambda step, micro=micro: in_pieces(shares(step)[ranks.rank]) if micro else [shares(step)[ranks.rank]],
            MICRO if micro else 0,
        )
    model, half = sharded_network(), network()
    optimizer = torch.optim.Adam(model.parameters())
    fully_shard(half, mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.float16), mesh=init_device_mesh("cpu", (2,)))
    NoiseScale(half)
    partly = network()
    fully_shard(partly[0], mesh=init_device_mesh("cpu", (2,)))
    results["refusals"] = [
        refusal(lambda: NoiseScale(model, precondition=optimizer)),
        refusal(lambda: half(shares(0)[0][0]).sum().backward()),
        refusal(lambda: NoiseScale(partly)),
        refusal(lambda: NoiseScale(model).update(samples=SHARE)),
        refusal(lambda: two_passes_in_one_update(sharded_network())),
    ]
    return results


@pytest.fixture(scope="module")
def together() -> dict[str, list]:
    return run_on_ranks(on_two_ranks, 2, "cpu")


@pytest.mark.parametrize("name", ["plain", "adam", "sharded"])
def test_two_ranks_find_the_moments_of_two_micro_batches(together, name):
    expected = alone(precondition=name == "adam")
    assert together[name] == pytest.approx(expected, rel=1e-4, abs=1e-7)
    assert expected[0] == STEPS - (name == "adam")  # no v at the first


def test_shards_of_micro_batches_find_the_moments_of_all_micro_batches(together):
    expected = alone(precondition=False, micro=True)
    assert together["sharded micro-batches"] == pytest.approx(expected, rel=1e-4, abs=1e-7)


def test_adams_metric_changes_the_moments(together):
    """Otherwise the agreement above would hold of two plain measurements."""
    ratios = [together[name][2] / together[name][1] for name in ("plain", "adam")]
    assert abs(ratios[1] / ratios[0] - 1) > 0.1
    assert together["adam"][2] > 10 * together["plain"][2]


def test_what_shards_cannot_tell_is_refused(together):
    told = ["Adam's v in shards", "reduce_dtype=torch.float32", "every parameter sharded", "No gradient was reduced"]
    told.append("reduced more than once")
    for message, expected in zip(together["refusals"], told, strict=True):
        assert expected in message
