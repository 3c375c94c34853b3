"""What a user gets wrong is told in one short message that says what to do, before anything is written or lost."""

import fcntl
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SCREEN, Ended, reproduce

from reproduce.records import read_record

SUITE = Path(__file__).parents[1]
QUICK = ("task=noisy_quadratic/mini", "grid.budget={steps: 20, examples: 0}")
RUN = (*QUICK, "run.batch_size=4", "run.learning_rate=0.2857")
SWEEP = ("-m", *QUICK, "sweep.batch_sizes=[4,16]", "hydra.launcher.n_jobs=1")
RUNS = Path("outputs/noisy_quadratic/mini/runs")  # of both; the run above is the first that the sweep wants


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands are given from an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def in_a_process(*arguments: str) -> Ended:
    ended = subprocess.run([sys.executable, "-m", "reproduce", *arguments], capture_output=True, text=True, timeout=200)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


EVERYWHERE = [
    (["task=nope/mini"], ["no task/nope/mini.yaml", "mnist/mini, mnist/paper", "--config-dir"]),
    (["task=nope"], ["no task/nope.yaml", "noisy_quadratic/mini"]),
    (["task=mnist/nope"], ["no task/mnist/nope.yaml", "mnist/mini, mnist/paper"]),
    (["trainer=nope"], ["Could not find 'trainer/nope'", "Available options", "default"]),
    (["sweep=nope"], ["Available options", "full", "grid", "quick"]),
    (["trainer.rankz=2"], ["'trainer.rankz'", "not in struct"]),
    (["+trainer.rankz=2"], ["trainer.rankz is no setting", "ranks, device"]),
    (["~trainer.ranks"], ["trainer.ranks is missing"]),
    (["trainer.ranks"], ["'trainer.ranks'", "missing EQUAL"]),
    (["trainer.ranks=0"], ["trainer.ranks must be a whole number of at least 1, got 0"]),
    (["trainer.ranks=1.5"], ["trainer.ranks must be a whole number of at least 1, got 1.5"]),
    (["trainer.threads=none"], ["trainer.threads must be a whole number", "'none'"]),
    (["trainer.device=gpu"], ["trainer.device must be auto or cpu or cuda, got 'gpu'"]),
    (["trainer.precision=half"], ["trainer.precision must be float32 or bfloat16, got 'half'"]),
    (["trainer.compile=maybe"], ["trainer.compile must be true or false, got 'maybe'"]),
    (["trainer.clip_norm=-1"], ["trainer.clip_norm must be a finite number above 0, got -1"]),
    (["trainer.checkpoint_seconds=often"], ["trainer.checkpoint_seconds must be a finite number of at least 0"]),
    (["trainer.divergence_patience=0"], ["trainer.divergence_patience must be a whole number of at least 1"]),
    (["noise_scale.probe_groups=1"], ["noise_scale.probe_groups must be a whole number of at least 2, got 1"]),
    (["noise_scale.max_probe_samples=4"], ["max_probe_samples must be at least noise_scale.probe_groups"]),
    (["task.goals=[0.1,0.5]"], ["easy to hard", "falling", "expected [0.5, 0.1]"]),
    (["task.goals=[]"], ["no goals", "task.goals"]),
    (["task.goals=[hard,easy]"], ["task.goals[0] must be a finite number, got 'hard'"]),
    (["task.goals=[0.5,nan]"], ["task.goals[1] must be a finite number, got nan"]),
    (["~task._target_"], ["task._target_ is missing", "tasks.mnist.MNIST", "@package _global_"]),
    (["task._target_=nope.Nope"], ["nope.Nope cannot be built", "No module named 'nope'", "PYTHONPATH"]),
    (["task._target_=tasks.mnist.Nope"], ["tasks.mnist.Nope cannot be built", "Nope"]),
    (["task._target_=torch.nn.Identity"], ["torch.nn.Identity is not a tasks.task.Task"]),
    (["+task.extra=1"], ["NoisyQuadratic cannot be built", "unexpected keyword argument 'extra'"]),
    (["~task.noise"], ["NoisyQuadratic cannot be built", "missing 1 required", "'noise'"]),
    (["task.dimensions=-1"], ["NoisyQuadratic cannot be built", "RuntimeError", "non-negative"]),
    (["optimizer._target_=torch.optim.Nope"], ["torch.optim.Nope cannot be built", "torch.optim.SGD"]),
    (["optimizer._target_=torch.nn.Linear"], ["torch.nn.Linear cannot be used", "torch.optim.SGD"]),
    (["~optimizer._partial_"], ["torch.optim.SGD cannot be built", "_partial_: true"]),
    (["+optimizer.momentumm=0.9"], ["unexpected keyword argument 'momentumm'"]),
    (["~optimizer"], ["no section 'optimizer'", "@package _global_"]),
    (["~grid.budget"], ["no section 'grid.budget'"]),
    (["grid.budget.steps=many"], ["grid.budget.steps must be a finite number of at least 0, got 'many'"]),
    (["logger=nope"], ["Available options", "none", "wandb"]),
    (["logger=wandb", "logger.mode=nowhere"], ["logger.mode must be offline or online, got 'nowhere'"]),
    (["outputs=${nope}"], ["'nope' not found"]),
]


@pytest.mark.parametrize("base", [RUN, SWEEP], ids=["run", "sweep"])
@pytest.mark.parametrize(("arguments", "parts"), EVERYWHERE)
def test_wrong_field_is_told_before_anything_is_written(folder, base, arguments, parts):
    reproduce(*base, *arguments).told(*parts)
    assert files(folder) == {}


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["run.batch_size=0"], ["run.batch_size must be a whole number above 0, got 0"]),
        (["run.batch_size=-4"], ["run.batch_size must be a whole number above 0, got -4"]),
        (["run.batch_size=4.5"], ["run.batch_size must be a whole number above 0, got 4.5"]),
        (["run.batch_size=few"], ["run.batch_size must be a whole number above 0, got 'few'"]),
        (["run.batch_size=1,2"], ["Ambiguous value", "--multirun"]),
        (["run.batch_size=7", "trainer.ranks=2"], ["7 examples", "2 rank(s)", "multiple of 2", "trainer.ranks"]),
        (["run.learning_rate=0"], ["run.learning_rate must be a finite number above 0, got 0"]),
        (["run.learning_rate=-0.1"], ["run.learning_rate must be a finite number above 0, got -0.1"]),
        (["run.learning_rate=nan"], ["run.learning_rate must be a finite number above 0, got nan"]),
        (["run.learning_rate=fast"], ["run.learning_rate must be a finite number above 0, got 'fast'"]),
        (["run.seed=-1"], ["run.seed must be a whole number of at least 0, got -1"]),
        (["run.limits=[100]"], ["run.limits holds 1 steps for 6 goals"]),
        (["run.limits=[1,2,3,4,5,far]"], ["run.limits[5] must be a finite number of at least 0, got 'far'"]),
        (["run.limits=100"], ["run.limits must be a list"]),
    ],
)
def test_wrong_field_of_a_run_is_told_before_anything_is_written(folder, arguments, parts):
    reproduce(*RUN, *arguments).told(*parts)
    assert files(folder) == {}


def test_run_without_batch_size_and_learning_rate_is_told_both_ways_on(folder):
    reproduce(*QUICK).told("run.batch_size=...", "run.learning_rate=...", "-m")
    reproduce(*QUICK, "run.batch_size=4").told("needs run.learning_rate=....")
    assert files(folder) == {}


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["run.batch_size=4"], ["'run.batch_size=4'", "sweep.batch_sizes=[...]", "leave out -m"]),
        (["run.batch_size=4,8"], ["'run.batch_size=4,8'", "sweep.batch_sizes=[...]"]),
        (["run.learning_rate=0.1"], ["'run.learning_rate=0.1'", "leave out -m"]),
        (["trainer.ranks=1,2"], ["'trainer.ranks=1,2'"]),
        (["task=mnist/mini,noisy_quadratic/mini"], ["'task=mnist/mini,noisy_quadratic/mini'"]),
        (["sweep.batch_sizes=[]"], ["sweep.batch_sizes must be distinct and not empty, got []"]),
        (["sweep.batch_sizes=[4,4]"], ["sweep.batch_sizes must be distinct and not empty, got [4, 4]"]),
        (["sweep.batch_sizes=[4,0]"], ["sweep.batch_sizes[1] must be a whole number above 0, got 0"]),
        (["sweep.batch_sizes=4"], ["sweep.batch_sizes must be a list"]),
        (["sweep.batch_sizes=[4,7]", "trainer.ranks=2"], ["7 examples", "multiple of 2", "trainer.ranks"]),
        (["sweep.search=clever"], ["sweep.search must be pruned or grid, got 'clever'"]),
        (["sweep.spacings=[]"], ["sweep.spacings", "such as [1, 0.5]"]),
        (["sweep.spacings=[0.5,1]"], ["sweep.spacings", "from coarse to fine"]),
        (["sweep.spacings=[0.3]"], ["sweep.spacings", "multiples of 1/4", "got [0.3]"]),
        (["sweep.spacings=[wide]"], ["sweep.spacings[0] must be a finite number above 0, got 'wide'"]),
        (["sweep.seeds=0"], ["sweep.seeds must be a whole number of at least 1, got 0"]),
        (["sweep.curvature_samples=-1"], ["sweep.curvature_samples must be a whole number of at least 0, got -1"]),
        (["+sweep.nope=1"], ["sweep.nope is no setting"]),
        (["~grid"], ["no section 'grid", "@package _global_"]),
        (["grid.learning_rate.eps=0"], ["grid.learning_rate.eps must be a finite number above 0, got 0"]),
        (["~grid.learning_rate.knee"], ["grid.learning_rate.knee is missing"]),
        (["hydra.launcher.n_jobs=0"], ["hydra.launcher.n_jobs", "-1 for one a core"]),
        (["hydra.launcher.n_jobs=all"], ["hydra.launcher.n_jobs", "'all'"]),
    ],
)
def test_wrong_field_of_a_sweep_is_told_before_anything_is_written(folder, arguments, parts):
    base = [argument for argument in SWEEP if not ("~grid" in arguments and argument.startswith("grid."))]
    reproduce(*base, *arguments).told(*parts)
    assert files(folder) == {}


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["task=nope/mini"], ["no task/nope/mini.yaml", "mnist/mini"]),
        ([*RUN, "run.learning_rate=0"], ["run.learning_rate must be a finite number above 0"]),
        ([*SWEEP, "sweep.batch_sizes=[4,4]"], ["sweep.batch_sizes must be distinct"]),
    ],
)
def test_message_is_all_that_a_process_shows(folder, arguments, parts):
    in_a_process(*arguments).told(*parts)
    assert files(folder) == {}


def test_make_names_the_task_that_it_does_not_know(folder):
    command = ["make", "-C", str(SUITE), "reproduce-nope", f"ARGS=outputs={folder}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert ended.returncode != 0
    assert "reproduce-nope" in ended.stderr
    assert len(ended.stderr.splitlines()) <= SCREEN
    assert files(folder) == {}


# A user's own task.

SECTIONS = {
    "task": "task: {_target_: %s, dimensions: 16, condition_number: 10, noise: 20, goals: [0.6, 0.4]}",
    "optimizer": "optimizer: {_target_: torch.optim.SGD, _partial_: true}",
    "grid": "grid: {batch_sizes: [4, 16, 64, 256], learning_rate: {eps: 1.0, knee: 10, alpha: 1},"
    " budget: {steps: 200, examples: 4000}}",
}
PACKAGE_LINE = "# @package _global_\n"


def own_task(folder: Path, *sections: str, target: str = "tasks.noisy_quadratic.NoisyQuadratic", top=PACKAGE_LINE):
    """Writes conf/task/own/mini.yaml with some of the sections."""
    path = folder / "conf/task/own/mini.yaml"
    path.parent.mkdir(parents=True)
    text = top + "\n".join(SECTIONS[name] for name in sections) + "\n"
    path.write_text(text.replace("%s", target))


def own_module(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, body: str) -> None:
    """Writes <name>.py with a class Own, a NoisyQuadratic with this body."""
    text = f"from tasks.noisy_quadratic import NoisyQuadratic\n\n\nclass Own(NoisyQuadratic):\n{body}\n"
    (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, name, raising=False)


RUN_OWN = ("--config-dir", "conf", "task=own/mini", "run.batch_size=4", "run.learning_rate=0.1")
SWEEP_OWN = ("-m", "--config-dir", "conf", "task=own/mini", "hydra.launcher.n_jobs=1")


@pytest.mark.parametrize("base", [RUN_OWN, SWEEP_OWN], ids=["run", "sweep"])
@pytest.mark.parametrize("missing", ["task", "optimizer", "grid"])
def test_own_task_file_without_a_section_is_told_which(folder, base, missing):
    own_task(folder, *(name for name in SECTIONS if name != missing))
    before = files(folder)
    reproduce(*base).told(f"no section '{missing}", "task, optimizer and grid", "README")
    assert files(folder) == before


@pytest.mark.parametrize("base", [RUN_OWN, SWEEP_OWN], ids=["run", "sweep"])
def test_own_task_file_without_the_package_line_is_told_so(folder, base):
    own_task(folder, *SECTIONS, top="")
    before = files(folder)
    reproduce(*base).told("task._target_ is missing", "# @package _global_", "README")
    assert files(folder) == before


def test_config_dir_that_does_not_exist_is_named(folder):
    reproduce(*RUN_OWN).told(str(folder / "conf"), "not found")


@pytest.mark.parametrize("base", [RUN_OWN, SWEEP_OWN], ids=["run", "sweep"])
@pytest.mark.parametrize(
    ("name", "body", "parts"),
    [
        ("own_raising", "    def __init__(self, **_):\n        raise KeyError('words')", ["KeyError", "words"]),
        ("own_silent", "    def __init__(self, **_):\n        pass", ["does not set goals", "tasks.task.Task"]),
        ("own_broken", "    def", ["own_broken", "SyntaxError"]),
    ],
    ids=["raising", "without goals", "with a syntax error"],
)
def test_own_task_that_cannot_be_built_is_told_why(folder, monkeypatch, base, name, body, parts):
    own_module(folder, monkeypatch, name, body)
    own_task(folder, *SECTIONS, target=f"{name}.Own")
    before = files(folder)
    reproduce(*base).told(f"{name}.Own", *parts)
    assert {path: content for path, content in files(folder).items() if "__pycache__" not in path} == before


@pytest.mark.parametrize(
    "base",
    [(*RUN_OWN, "run.batch_size=50"), (*SWEEP_OWN, "sweep.batch_sizes=[40,50]")],
    ids=["run", "sweep"],
)
def test_batch_size_that_cuts_a_sample_is_told_what_divides(folder, monkeypatch, base):
    own_module(folder, monkeypatch, "own_sequences", "    unit = 'token'\n    units_per_sample = 20")
    own_task(folder, *SECTIONS, target="own_sequences.Own")
    reproduce(*base).told("50 tokens", "samples of 20 token(s)", "multiple of 20")
    reproduce(*base, "trainer.ranks=2").told("2 rank(s)", "multiple of 40")
    assert not (folder / "outputs").exists()


# Folders and data.


@pytest.mark.parametrize("base", [RUN, SWEEP], ids=["run", "sweep"])
def test_outputs_that_cannot_be_written_are_told_with_the_way_out(folder, base):
    (folder / "file").write_text("kept")
    reproduce(*base, "outputs=file/outputs").told(str(folder / "file/outputs"), "cannot be written", "outputs=FOLDER")
    assert files(folder) == {"file": b"kept"}


def test_results_that_cannot_be_written_are_told_before_the_sweep(folder):
    (folder / "file").write_text("kept")
    reproduce(*SWEEP, "results=file/results").told(str(folder / "file/results"), "cannot be written", "results=FOLDER")
    assert files(folder) == {"file": b"kept"}


PAPER = ["task=mnist/paper", "task.data_dir=elsewhere"]
PAPER_RUN, PAPER_SWEEP = [*PAPER, "run.batch_size=4", "run.learning_rate=0.1"], ["-m", *PAPER]
MNIST_FILES = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]


@pytest.mark.parametrize("base", [PAPER_RUN, PAPER_SWEEP], ids=["run", "sweep"])
def test_missing_data_is_told_with_its_folder_files_and_command(folder, base):
    raw = folder / "elsewhere/MNIST/raw"
    reproduce(*base).told(str(raw), *MNIST_FILES, "task.download=true", "task.data_dir=FOLDER")
    assert files(folder) == {}


@pytest.mark.parametrize("base", [PAPER_RUN, PAPER_SWEEP], ids=["run", "sweep"])
def test_damaged_data_is_told_and_kept(folder, base):
    raw = folder / "elsewhere/MNIST/raw"
    raw.mkdir(parents=True)
    for name in MNIST_FILES:
        (raw / name).write_bytes(b"torn")
    before = files(folder)
    reproduce(*base).told(str(raw), *MNIST_FILES, "damaged", "task.download=true")
    assert files(folder) == before


@pytest.mark.parametrize("base", [RUN, SWEEP], ids=["run", "sweep"])
def test_wandb_that_is_not_installed_is_told_before_a_run_is_recorded(folder, monkeypatch, base):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None if name == "wandb" else find(name, *_))
    reproduce(*base, "logger=wandb").told("logger=wandb", "pip install 'critical-batch[wandb]'")
    assert files(folder) == {}


@pytest.mark.parametrize("base", [RUN, SWEEP], ids=["run", "sweep"])
def test_gpu_that_is_not_there_is_told(folder, monkeypatch, base):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    reproduce(*base, "trainer.device=cuda").told("trainer.device=cuda", "no GPU", "trainer.device=auto")
    assert not list(folder.rglob("*.jsonl"))


# Records.


@pytest.fixture
def record(folder) -> Path:
    """The record of the run that RUN names, complete."""
    assert reproduce(*RUN).code == 0
    (path,) = (folder / RUNS).glob("*.jsonl")
    return path


@pytest.mark.parametrize("base", [RUN, SWEEP], ids=["run", "sweep"])
def test_record_damaged_in_the_middle_is_told_by_line_and_kept(folder, record, base):
    lines = record.read_bytes().splitlines(keepends=True)
    record.write_bytes(b"".join([*lines[:4], lines[4][:30] + b"\n", *lines[5:]]))
    before = files(folder)
    reproduce(*base).told(str(record), "line 5 is damaged", "Nothing was changed", "Delete the file")
    assert {path: content for path, content in files(folder).items() if not path.endswith(".lock")} == before


@pytest.mark.parametrize("base", [RUN, SWEEP], ids=["run", "sweep"])
def test_record_of_another_configuration_under_the_name_is_told_and_kept(folder, record, base):
    reproduce(*RUN, "task.noise=21")
    (other,) = set((folder / RUNS).glob("*.jsonl")) - {record}
    other.rename(record)
    before = files(folder)
    reproduce(*base).told(str(record), "another configuration", "outputs=FOLDER")
    assert {path: content for path, content in files(folder).items() if not path.endswith(".lock")} == before


def test_second_sweep_in_one_folder_is_told_of_the_first(folder):
    (folder / RUNS).mkdir(parents=True)
    with open(folder / RUNS / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("4242\n")
        lock.flush()
        reproduce(*SWEEP).told("Another sweep", str(folder / RUNS), "process 4242", "outputs=FOLDER")
    assert files(folder) == {str(RUNS / ".lock"): b"4242\n"}


# Runs that fail.

TOO_MANY = """    def loss(self, model, batch):
        if len(batch[0]) == 16:
            raise RuntimeError("sixteen is too many")
        return super().loss(model, batch)"""


def test_run_that_fails_is_recorded_and_told_with_its_place(folder, monkeypatch):
    own_module(folder, monkeypatch, "own_failing", TOO_MANY)
    own_task(folder, *SECTIONS, target="own_failing.Own")
    ended = reproduce(*RUN_OWN, "run.batch_size=16")
    assert ended.code == 1
    assert ended.stderr.startswith("error: ")
    assert 'own_failing.py", line 7, in loss' in ended.stderr
    assert ended.stderr.endswith("RuntimeError: sixteen is too many\n")
    assert len(ended.stderr.splitlines()) <= SCREEN
    (path,) = folder.glob("outputs/own/mini/runs/*.jsonl")
    assert read_record(path).outcome["error"] == "RuntimeError: sixteen is too many"


def test_sweep_in_which_a_batch_size_fails_goes_on_and_tells_it_at_the_end(folder, monkeypatch):
    own_module(folder, monkeypatch, "own_frail", TOO_MANY)
    own_task(folder, *SECTIONS, target="own_frail.Own")
    sweep = (*SWEEP_OWN, "sweep.curvature_samples=0")
    ended = reproduce(*sweep)
    assert ended.code == 1  # all the rest is measured, but a script that calls it is to know
    assert "B_crit" in ended.stdout
    assert "results/own/mini/summary.json" in ended.stdout
    assert ended.stderr.count("RuntimeError: sixteen is too many") == 1
    assert "failed: Traceback" in ended.stderr
    assert "run.batch_size=16 run.learning_rate=0.6154 run.seed=0" in ended.stderr
    records = [read_record(path) for path in folder.glob("outputs/own/mini/runs/*.jsonl")]
    failed = [record for record in records if record.status == "failed"]
    assert {record.batch_size for record in failed} == {16}
    assert {record.outcome["error"] for record in failed} == {"RuntimeError: sixteen is too many"}
    assert {record.batch_size for record in records if record.status == "reached"} == {4, 64, 256}
    assert len(records) == len(failed) + sum(record.batch_size != 16 for record in records)

    kept = {path: content for path, content in files(folder).items() if path.endswith(".jsonl")}
    own_module(folder, monkeypatch, "own_frail", "    mended = True")
    mended = reproduce(*sweep)
    assert (mended.code, mended.stderr) == (0, "")
    for path, content in kept.items():  # what had ended well was not run again
        assert "b16_" in path or (folder / path).read_bytes() == content
    records = [read_record(path) for path in folder.glob("outputs/own/mini/runs/b16_*.jsonl")]
    assert "reached" in {record.status for record in records}


def test_sweep_in_which_all_fails_tells_the_first_and_writes_no_results(folder, monkeypatch):
    own_module(folder, monkeypatch, "own_hopeless", TOO_MANY)
    own_task(folder, *SECTIONS, target="own_hopeless.Own")
    ended = reproduce(*SWEEP_OWN, "sweep.batch_sizes=[16]")
    assert ended.code == 1
    assert ended.stderr.startswith("error: Every run failed. The first one: ")
    assert ended.stderr.endswith("RuntimeError: sixteen is too many\n")
    assert len(ended.stderr.splitlines()) <= SCREEN
    assert not list((folder / "results").rglob("*.*"))
