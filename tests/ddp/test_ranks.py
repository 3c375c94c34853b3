"""1, 2 and 4 gloo ranks: the same samples, the same weights, the same noise scale."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from omegaconf import OmegaConf
from tests_config import mnist_config, quadratic_config
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from reproduce.distributed import RankKilled, Ranks, run_on_ranks, with_process_group
from reproduce.estimator import NoiseScaleError
from reproduce.noise_scale import NoiseScale
from reproduce.probe import probe
from reproduce.records import read_record
from reproduce.run import run
from reproduce.run_noise import moments
from reproduce.settings import build_task, settings_from_config
from reproduce.trainer import Trainer

STEPS = 6


def train_a_little(ranks: Ranks, config: dict, max_samples: int, steps: int) -> dict:
    """Weights, first samples, and both noise measurements after a few steps; from the first rank."""
    composed = OmegaConf.create(config)
    task = build_task(composed)
    settings = settings_from_config(composed, task)
    settings = replace(settings, trainer=replace(settings.trainer, max_samples=max_samples))
    trainer = Trainer(task, settings, ranks, None)
    share = trainer.sampler.draw(1, trainer.samples, trainer.model)
    drawn = [torch.zeros_like(share[0]) for _ in range(ranks.size)]
    if ranks.size > 1:
        dist.all_gather(drawn, share[0].contiguous())
    else:
        drawn = [share[0]]
    for _ in range(steps):
        trainer.train_step()
    batch = trainer.noise.probe_sampler.draw(0, 64, trainer.model)
    norms, _ = probe(trainer.model, trainer.loss, batch, 8)
    noise = trainer.noise.scale.estimate() if trainer.noise.scale else None
    return {
        "drawn": torch.cat(drawn).numpy(),
        "weights": torch.cat([p.detach().flatten() for p in trainer.model.parameters()]).numpy(),
        "probe": moments(norms, 1),
        "noise": noise,
    }


def refusals(ranks: Ranks) -> list[str]:
    """What happens where every rank draws the same samples, and with shares of different sizes."""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(20, 1, bias=False))
    noise_scale = NoiseScale(model)
    message = "not refused"
    try:
        for step in range(12):
            torch.manual_seed(step)  # the trap: no rank in the seed
            model.zero_grad()
            model(torch.randn(8, 20)).mean().backward()
            noise_scale.update(samples=8)
        noise_scale.estimate()
    except NoiseScaleError as error:
        message = str(error)
    # Pure noise of tr Sigma = 20 with 2 samples on even ranks and 6 on odd ones.
    torch.manual_seed(100 + ranks.rank)
    model = DistributedDataParallel(nn.Linear(20, 1, bias=False))
    noise_scale = NoiseScale(model)
    samples = 6 if ranks.rank % 2 else 2
    for _ in range(600):
        model.zero_grad()
        model(torch.randn(samples, 20)).mean().backward()
        noise_scale.update(samples=samples)
    estimate = noise_scale.estimate()
    return [message, estimate.trace, estimate.grad_sq]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> dict:
    """Results of train_a_little by (task, ranks, micro-batches), and those of `refusals` on two ranks."""
    folder = tmp_path_factory.mktemp("ddp")
    results = {}
    for size in (1, 2, 4):
        for name, make in (("mnist", mnist_config), ("quadratic", quadratic_config)):
            config = OmegaConf.to_container(make(folder, size), resolve=True)
            steps = STEPS if name == "mnist" else 150
            micro = (1, 2) if name == "mnist" else (1, 2, 8)
            results[size] = results.get(size, []) + [(name, m, config, 64 // size // m, steps) for m in micro]
    out = {}
    for size, jobs in results.items():
        for key, value in run_on_ranks(train_all, size, "cpu", jobs).items():
            out[(key[0], size, key[1])] = value
    return out


def train_all(ranks: Ranks, jobs: list) -> dict:
    torch.set_num_threads(1)
    results = {(name, m): train_a_little(ranks, config, size, steps) for name, m, config, size, steps in jobs}
    return results | ({("refusals", 0): refusals(ranks)} if ranks.size == 2 else {})


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_draw_the_global_batch_of_one_rank(trained, ranks):
    for name in ("mnist", "quadratic"):
        alone, together = trained[name, 1, 1]["drawn"], trained[name, ranks, 1]["drawn"]
        assert (alone == together).all()


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_weights_do_not_depend_on_ranks_and_micro_batches(trained, ranks, micro_batches):
    alone, other = trained["mnist", 1, 1]["weights"], trained["mnist", ranks, micro_batches]["weights"]
    start = trained["mnist", 1, 1]["weights"] * 0
    assert abs(alone - start).max() > 0.1
    torch.testing.assert_close(torch.tensor(other), torch.tensor(alone), rtol=1e-3, atol=2e-6)


@pytest.mark.parametrize("ranks", [2, 4])
def test_probe_does_not_depend_on_ranks(trained, ranks):
    assert trained["mnist", ranks, 1]["probe"] == pytest.approx(trained["mnist", 1, 1]["probe"], rel=2e-3)


@pytest.mark.parametrize(("ranks", "micro_batches"), [(1, 2), (1, 8), (2, 1), (2, 2), (2, 8), (4, 1), (4, 2), (4, 8)])
def test_every_split_of_one_global_batch_finds_the_same_noise_scale(trained, ranks, micro_batches):
    """The learning rate is so small that the quadratic stays where its moments are known."""
    config = quadratic_config(Path("unused"), 1)
    task = build_task(config)
    exact = task.exact_moments(64, config.run.learning_rate, 0)
    estimate = trained["quadratic", ranks, micro_batches]["noise"]
    assert estimate.updates == 150
    assert estimate.value == pytest.approx(exact.b_simple, rel=0.1)
    assert estimate.trace == pytest.approx(exact.trace, rel=0.05)
    assert estimate.low * 0.95 <= exact.b_simple <= estimate.high * 1.05


def test_same_data_is_refused_and_unequal_shares_are_counted_right(trained):
    message, trace, grad_sq = trained["refusals", 2, 0]
    assert "every rank" in message
    assert trace == pytest.approx(20, rel=0.1)
    assert grad_sq == pytest.approx(0, abs=0.25)


def test_a_whole_run_on_two_ranks_is_recorded_once_with_its_noise_scale(config):
    cfg = config("noisy_quadratic/mini", "trainer.ranks=2", "grid.budget={steps: 40, examples: 0}", batch_size=16)
    outcome = run(cfg)
    assert outcome["step"] == 40
    (path,) = Path(cfg.outputs).glob("noisy_quadratic/mini/runs/*.jsonl")
    record = read_record(path)
    assert record.outcome == {"kind": "outcome"} | outcome
    assert record.header["ranks"] == 2
    training = [e["training"] for e in record.evaluations if "training" in e]
    assert sum(t["updates"] for t in training) == 40
    assert run(cfg) == {"kind": "outcome"} | outcome  # again: from the record, without training


def look_for_threads(rank: int, ports: list[int], config: dict) -> None:
    """After a process group of a few steps of DDP, and after that of a whole run."""
    torch.set_num_threads(1)
    jobs = (lambda: with_process_group(refusals, ["cpu"]), lambda: run(OmegaConf.create(config)))
    for port, job in zip(ports, jobs, strict=True):
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        job()
        threads = ["ps", "-T", "-o", "comm=", "-p", str(os.getpid())]
        names = subprocess.run(threads, capture_output=True, text=True, check=True).stdout
        assert "python" in names
        assert "gloo" not in names


@pytest.mark.skipif(sys.platform != "linux", reason="threads have names there")
def test_no_thread_of_gloo_outlives_its_process_group(config):
    """One that lets go of a tensor while the interpreter ends would abort a process whose run is done."""
    cfg = config("noisy_quadratic/mini", "trainer.ranks=2", "grid.budget={steps: 4, examples: 0}", batch_size=16)
    stores = [dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) for _ in range(2)]
    ports = [store.port for store in stores]
    del stores  # closed again, and their ports are free
    torch.multiprocessing.spawn(look_for_threads, (ports, OmegaConf.to_container(cfg, resolve=True)), nprocs=2)


def killed(ranks: Ranks) -> None:
    if ranks.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()  # fails on the other rank


def test_killed_rank_is_told_from_one_that_failed():
    with pytest.raises(RankKilled, match="SIGKILL"):
        run_on_ranks(killed, 2, "cpu")


def test_batch_that_ranks_cannot_share_is_told_before_processes_start(config):
    with pytest.raises(ValueError, match="3 rank"):
        run(config("mnist/mini", "trainer.ranks=3", batch_size=32))
