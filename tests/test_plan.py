"""What a sweep will cost: counted by hand, held against the trainer's own records, and told in seconds without data."""

import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from report.synthetic import sweep_record, write_sweep
from torch import nn

from reproduce import plan_text
from reproduce.plan import from_command_line, planned
from reproduce.plan_text import format_plan
from reproduce.records import read_record
from reproduce.run import run
from reproduce.sample_cost import on_meta, sample_cost, tensor_bytes
from reproduce.settings import Budget, ConfigError, build_task, settings_from_config
from reproduce.step_times import StepTimes, given, measured, saturated, seconds_of
from reproduce.sweep_cost import curvature_batch_size, evaluations, probed_units
from tasks.task import Task

CPU = torch.device("cpu")
SGD = {"_target_": "torch.optim.SGD", "_partial_": True}
ADAM = {"_target_": "torch.optim.Adam", "_partial_": True}


class Hand(Task):
    """A task of any model on one zero sample of a shape; nothing else is needed to count it."""

    unit, score, data, embedded, goals = "example", "loss", "none", False, (0.5,)

    def __init__(self, build: Callable[[], nn.Module], *shape: int, value_in_loss: bool = False) -> None:
        self.build, self.shape, self.value_in_loss = build, shape, value_in_loss

    def build_model(self):
        return self.build()

    def fake_batch(self, samples):
        return (torch.zeros(samples, *self.shape),)

    def loss(self, model, batch):
        out = model(batch[0])
        loss = (out[0] if isinstance(out, tuple) else out).square().mean()
        return loss * (1 + 0 * loss.item()) if self.value_in_loss else loss

    sampler = evaluate = None


class Tied(nn.Module):
    """Two layers of one matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(self.first(x))


def test_flops_of_two_layers_are_those_counted_by_hand():
    task = Hand(lambda: nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)), 5)
    # Forward one product each; backward one for the weights each, and one for the input of the second layer alone.
    assert sample_cost(task, SGD).flops == 2 * (5 * 7 + 7 * 3) + 2 * (5 * 7 + 7 * 3 + 7 * 3)


def test_flops_of_convolutions_are_those_counted_by_hand():
    task = Hand(lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.Conv2d(3, 4, 3, stride=2)), 2, 9, 9)
    first, second = 2 * (3 * 7 * 7) * (2 * 3 * 3), 2 * (4 * 3 * 3) * (3 * 3 * 3)
    assert sample_cost(task, SGD).flops == 2 * first + 3 * second


@pytest.mark.parametrize("value_in_loss", [False, True], ids=["without values", "carried out"])
def test_flops_of_an_lstm_are_those_of_its_matrix_products(value_in_loss):
    steps, inputs, hidden = 6, 7, 5
    task = Hand(lambda: nn.LSTM(inputs, hidden, batch_first=True), steps, inputs, value_in_loss=value_in_loss)
    forward = 2 * steps * 4 * hidden * (inputs + hidden)
    through_time = 2 * (steps - 1) * 4 * hidden * hidden  # gradients of the states before, but for the first
    assert sample_cost(task, SGD).flops == 2 * forward + through_time


def test_a_checkpoint_holds_the_weights_and_the_state_of_the_optimiser():
    task = Hand(lambda: nn.Linear(5, 7), 5)
    weights, float32 = 5 * 7 + 7, 4
    assert sample_cost(task, SGD).checkpoint_bytes == float32 * weights
    assert sample_cost(task, SGD | {"momentum": 0.9}).checkpoint_bytes == 2 * float32 * weights
    adam = sample_cost(task, ADAM)  # two moments a weight, and a count of steps for each of the two parameters
    assert (adam.weights, adam.checkpoint_bytes) == (weights, float32 * (3 * weights + 2))
    assert tensor_bytes({"a": [torch.zeros(3), {"b": torch.zeros(2, dtype=torch.float64)}], "c": "text"}) == 12 + 16


def test_shared_weights_stay_shared_where_nothing_is_computed():
    copied = on_meta(Tied())
    assert copied.first.weight is copied.second.weight
    assert copied.first.weight.is_meta
    assert sum(p.numel() for p in copied.parameters()) == 16 == sample_cost(Hand(Tied, 4), SGD).weights


def test_resnet_50_has_the_operations_that_are_known_of_it(config):
    made = planned(config("imagenet/paper", "plan.throughput=1000"))
    assert made.sample.weights == 25_557_032
    # 4.09e9 multiply-adds an image forward (He et al. 2016 round to 3.8e9), and twice that backward.
    assert made.sample.flops / made.task.units_per_sample == pytest.approx(3 * 2 * 4.09e9, rel=0.01)


def test_times_between_measured_sizes_are_on_the_line_of_the_logs_and_beyond_go_with_samples():
    times = StepTimes((1, 4, 16), (0.1, 0.2, 0.8), update_seconds=0.05)
    assert times.of_pass(2) == pytest.approx(math.sqrt(0.1 * 0.2))
    assert times.of_pass(16) == pytest.approx(0.8)
    assert times.of_pass(64) == pytest.approx(3.2)
    assert times.of_step(4, 4) == pytest.approx(4 * 0.1 + 0.05)
    assert given(50).of_step(200, 7) == pytest.approx(4.0)


def test_larger_passes_are_tried_until_two_in_a_row_gain_nothing():
    assert not saturated([1, 4], [1.0, 4.0])
    assert not saturated([1, 4, 16], [1.0, 4.0, 8.0])
    assert saturated([1, 4, 16], [1.0, 4.0, 16.0])


def test_steps_are_timed_for_real(config):
    task = build_task(config("noisy_quadratic/mini"))
    settings = settings_from_config(config("noisy_quadratic/mini", "trainer.clip_norm=1"), task)
    times = measured(task, settings.trainer, settings.optimizer_config, CPU, largest=20, seconds=5)
    assert times.samples[:2] == (1, 4)
    assert times.samples[-1] in (16, 20)
    assert min(*times.pass_seconds, times.update_seconds) > 0
    once = measured(task, settings.trainer, settings.optimizer_config, CPU, largest=20, seconds=1e-9)
    assert once.samples == (1,)  # a pass of one sample is always timed


def test_the_median_call_counts_and_the_first_only_where_it_is_all_there_is(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("reproduce.step_times.time.perf_counter", lambda: clock[0])
    calls = iter([9.0, 0.2, 0.1, 0.3, 0.2, 0.2])

    def take() -> None:
        clock[0] += next(calls)

    assert seconds_of(take, CPU, most=10) == pytest.approx(0.2)  # of 0.2, 0.1 and 0.3: half a second is enough
    calls = iter([9.0])
    assert seconds_of(take, CPU, most=5) == pytest.approx(9.0)


@pytest.mark.parametrize("cost", [0.1, 1.0])
def test_evaluations_probes_and_bytes_are_those_of_a_run(config, cost):
    own = config(
        *("noisy_quadratic/mini", "task.goals=[1e-9]", "grid.budget={steps: 300, examples: 0}"),
        *(f"noise_scale.probe_cost={cost}", "noise_scale.max_probe_samples=40"),
        batch_size=16,
    )
    settings = settings_from_config(own, build_task(own))
    outcome = run(own)
    record = read_record(settings.record_path)
    at = evaluations(300, settings.trainer.evaluation_spacing)
    assert at == [e["step"] for e in record.evaluations]
    assert probed_units(at, 16, 1, settings.noise_scale) == outcome["probed_examples"] > 100
    made = planned(with_sizes(config, f"noise_scale.probe_cost={cost}", "grid.budget={steps: 300, examples: 0}"))
    of_file = made.cost.rows[0].record_bytes / made.cost.rows[0].runs
    assert of_file == pytest.approx(settings.record_path.stat().st_size, rel=0.3)


def with_sizes(config: Callable, *overrides: str, sizes: str = "[16]") -> object:
    return config("noisy_quadratic/mini", f"sweep.batch_sizes={sizes}", "plan.throughput=1000", *overrides)


def test_runs_examples_and_hours_of_a_plan_counted_by_hand(config):
    made = planned(
        with_sizes(
            config,
            *("sweep=full", "sweep.spacings=[1,0.5]", "noise_scale.probe_cost=0", "trainer.ranks=2"),
            "grid.budget={steps: 100, examples: 6400}",
            sizes="[16,64]",
        )
    )
    small, large, noise = made.cost.rows
    assert [row.batch_size for row in made.cost.rows] == [16, 64, 64]  # the budget's own B_crit is 64
    assert (small.runs, large.runs) == (15, 15)
    assert (noise.runs, noise.curvature) == (3, True)
    assert [row.length.steps for row in made.cost.rows] == [500, 200, 200]
    assert not any(row.length.measured for row in made.cost.rows)
    assert (small.examples, large.examples) == (15 * 500 * 16, 15 * 200 * 64)
    at = evaluations(200, 0.05)
    probed = probed_units(at, 64, 1, replace(made.settings.noise_scale, probe_cost=1.0))
    assert noise.examples == 3 * (200 * 64 + probed)
    assert 0.8 < probed / (200 * 64) <= 1
    # Two ranks of 1,000 examples a second each.
    assert small.rank_seconds == pytest.approx(15 * 500 * 16 / 2000)
    assert small.units_per_second == pytest.approx(2000)
    # 13 rates a factor sqrt 2 apart over 3 octaves each way, 3 seeds.
    assert made.cost.grid_runs == 2 * 13 * 3
    assert made.cost.grid_examples == 39 * (500 * 16 + 200 * 64)
    text = format_plan(made)
    assert "expected to save at least 62%" in text
    assert f"{2 * made.cost.total('rank_seconds') / 3600:.3g} rank-hours in all" in text


def test_the_plain_grid_is_planned_run_by_run(config):
    made = planned(with_sizes(config, "sweep=grid", "sweep.spacings=[1]", "sweep.curvature_samples=0", sizes="[4,16]"))
    assert [row.runs for row in made.cost.rows] == [7, 7]
    assert "plain grid, each to its end" in format_plan(made)


def test_totals_are_the_sums_of_the_rows_and_stand_in_the_table(config):
    made = planned(with_sizes(config, "sweep=full", sizes="[2,8,32,128]"))
    for quantity in ("runs", "examples", "flops", "rank_seconds", "record_bytes"):
        assert made.cost.total(quantity) == sum(getattr(row, quantity) for row in made.cost.rows)
    total = next(line for line in format_plan(made).splitlines() if line.startswith("total"))
    assert plan_text.number(made.cost.total("examples")) in total
    assert plan_text.time(made.cost.total("rank_seconds")) in total


def test_micro_batches_are_the_trainers(config):
    made = planned(with_sizes(config, "trainer.max_samples=3", "plan.throughput=null", "plan.seconds=0.01"))
    assert made.device == CPU
    row = made.cost.rows[0]
    step = row.rank_seconds / row.examples * 16
    assert step == pytest.approx(6 * made.times.of_pass(16 / 6) + made.times.update_seconds)


def quadratic_sweep(results: Path, goals: tuple[float, ...]) -> None:
    record = sweep_record("noisy_quadratic", goals=goals, b_crit=(20, 40), batch_sizes=(4, 16), published=None)
    record["goals"][-1]["points"][0] |= {"steps": 321.0}
    record["goals"][-1]["points"][1] |= {"steps": None, "steps_low": 999.0, "steps_high": None, "examples": None}
    write_sweep(results, record)


def test_an_earlier_sweep_tells_steps_better_than_the_budget(config, tmp_path):
    goals = (0.5, 0.4, 0.3, 0.2, 0.15, 0.1)
    quadratic_sweep(tmp_path / "outputs/results", goals)
    own = ("noise_scale.probe_cost=0", "sweep.curvature_samples=0", "grid.budget={steps: 1000, examples: 0}")
    made = planned(with_sizes(config, *own, sizes="[4,16,64]"))
    assert [(row.length.steps, row.length.measured) for row in made.cost.rows] == [
        (321, True),
        (1000, False),
        (1000, False),
    ]
    text = format_plan(made)
    assert "from the earlier sweep in results/ (sweep=full, which took 90 runs, 2,500,000 examples, 21 min" in text
    assert "at most 1,000" in text
    assert "as it saved the earlier sweep 75%" in text
    harder = planned(with_sizes(config, *own, "task.goals=[0.5,0.01]", sizes="[4]"))
    assert (harder.summary, harder.cost.rows[0].length.measured) == (None, False)
    assert "no earlier sweep to this last goal is in results/" in format_plan(harder)


def test_b_noise_is_planned_where_b_crit_is_expected(config):
    made = planned(with_sizes(config, sizes="[1,8,64]"))
    assert curvature_batch_size(made.plan, Budget(100.0, 700.0), 50.0) == 64
    assert curvature_batch_size(made.plan, Budget(100.0, 700.0), None) == 8
    assert curvature_batch_size(made.plan, Budget(100.0, 100.0), None) == 1
    assert curvature_batch_size(made.plan, Budget(0.0, 700.0), None) == 8


@pytest.mark.parametrize("task", ["imagenet/paper", "billion_word/paper", "dota_1v1/mini", "noisy_quadratic/mini"])
def test_tasks_are_planned_in_seconds_without_data(config, task):
    made = planned(config(task, "sweep=full", "plan.throughput=1000"))
    total = made.cost.total
    assert total("rank_seconds") == pytest.approx(total("examples") / 1000)
    assert (total("flops") > 0) == (task != "noisy_quadratic/mini")
    assert all(row.runs > 0 and row.record_bytes > 0 for row in made.cost.rows)
    text = format_plan(made)
    assert text.splitlines()[0].startswith(f"{task}, sweep=full: ")
    assert "nan" not in text


@pytest.mark.parametrize(
    ("quantity", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1230, "1.23 kB"), (2.5e9, "2.5 GB"), (5e15, "5,000 TB")]
)
def test_bytes_read_well(quantity, text):
    assert plan_text.size(quantity) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.21, "0.21 s"), (119, "119 s"), (3600, "60 min"), (9e6, "2,500 h")])
def test_times_read_well(seconds, text):
    assert plan_text.time(seconds) == text


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture) -> Callable:
    """`python -m reproduce.plan` in an empty folder, in this process; returns (exit code, stdout, message)."""
    monkeypatch.chdir(tmp_path)
    hydra_config = HydraConfig.instance().cfg

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
        monkeypatch.setattr(sys, "argv", ["plan", *arguments])
        GlobalHydra.instance().clear()
        code, text = 0, ""
        try:
            from_command_line()
        except SystemExit as end:
            code, text = 1, str(end.code)
        return code, capfd.readouterr().out, text

    yield call
    HydraConfig.instance().cfg = hydra_config


def test_the_command_prints_one_plan_and_writes_nothing(command, tmp_path):
    code, out, _ = command("task=noisy_quadratic/mini", "plan.seconds=0.1", "hydra.launcher.n_jobs=3")
    assert code == 0
    assert "1 thread of this machine" in out
    assert "3 runs at once" in out
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["-m"], ["leave out -m"]),
        (["plan.throughput=0"], ["plan.throughput must be a finite number above 0, got 0"]),
        (["plan.throughput=fast"], ["plan.throughput must be a finite number", "'fast'"]),
        (["plan.seconds=0"], ["plan.seconds must be a finite number above 0"]),
        (["+plan.more=1"], ["plan.more is no setting: plan has throughput, seconds"]),
        (["comparison=linear_rule"], ["leave out comparison=linear_rule"]),
        (["sweep.batch_sizes=[3]", "trainer.ranks=2"], ["does not divide into whole samples"]),
        (["trainer.device=cuda"], ["torch sees no GPU", "plan.throughput="]),
        (["grid.budget.steps=-1"], ["grid.budget.steps must be a finite number of at least 0"]),
        (["trainer.batch_schedule=adaptive", "adaptive_batch.r=1"], ["leave out trainer.batch_schedule=adaptive"]),
        (["task=nope/mini"], ["no task/nope/mini.yaml"]),
    ],
)
def test_what_is_wrong_is_told_in_one_message(command, monkeypatch, arguments, parts):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, out, text = command("task=noisy_quadratic/mini", *arguments)
    assert (code, out) == (1, "")
    assert text.startswith("error: ")
    assert "Traceback" not in text
    for part in parts:
        assert part in text


def test_a_summary_that_cannot_be_read_is_named(config, tmp_path):
    folder = tmp_path / "outputs/results/noisy_quadratic/mini"
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps({"task": 3}))
    with pytest.raises(ConfigError, match=r"summary\.json"):
        planned(with_sizes(config))


def test_the_section_is_no_part_of_a_run(config):
    runs = [config("noisy_quadratic/mini", *more) for more in ((), ("plan.throughput=5",), ("~plan",))]
    identities = [settings_from_config(own, build_task(own)).identity() for own in runs]
    assert identities[0] == identities[1] == identities[2]
