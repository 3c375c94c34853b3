"""logger=wandb: a finished offline W&B run beside each record, which stays as it would be without it."""

import json
import os
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from reproduce.mirror import flatten
from reproduce.records import Record, read_record
from reproduce.run import run

wandb = pytest.importorskip("wandb")

RUN = ("run.batch_size=8", "run.learning_rate=0.1", "grid.budget={steps: 30, examples: 0}")
BLOCK, FILE_HEADER = 32768, 7
WHOLE, LAST = 1, 4  # kinds of fragments that end a record


@dataclass
class WandbRun:
    """What a .wandb file holds, a LevelDB log of protobuf records."""

    config: dict
    history: list[dict]
    exit_codes: list[int]


def read_wandb(path: Path) -> WandbRun:
    from wandb.proto.wandb_internal_pb2 import Record as WandbRecord

    content, at, parts = path.read_bytes(), FILE_HEADER, b""
    found = WandbRun({}, [], [])
    while at + 7 <= len(content):
        left = BLOCK - at % BLOCK
        if left < 7:  # too little for a header: padding
            at += left
            continue
        _, size, kind = struct.unpack("<IHB", content[at : at + 7])
        parts += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind not in (WHOLE, LAST):
            continue
        record, parts = WandbRecord.FromString(parts), b""
        name = record.WhichOneof("record_type")
        if name == "run":
            found.config |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        elif name == "history":
            found.history.append({"/".join(i.nested_key): json.loads(i.value_json) for i in record.history.item})
        elif name == "exit":
            found.exit_codes.append(record.exit.exit_code)
    return found


def finished_wandb(path: Path) -> WandbRun:
    """The file once its last record is there: W&B's own process writes it, a while after the run on a busy machine."""
    until = time.monotonic() + 60
    while not (found := read_wandb(path)).exit_codes and time.monotonic() < until:
        time.sleep(0.1)
    return found


def wandb_files(outputs: Path) -> list[Path]:
    return sorted(outputs.glob("wandb/offline-run-*/run-*.wandb"))


def record_in(outputs: Path) -> Record:
    (path,) = outputs.glob("noisy_quadratic/mini/runs/*.jsonl")
    return read_record(path)


def measured(entry: dict) -> dict:
    """An evaluation or a history row without what differs from run to run."""
    return {k: v for k, v in entry.items() if k not in ("kind", "seconds") and not k.startswith("_")}


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory) -> tuple[Path, socket.socket]:
    """Outputs of one run through the command line, and the proxy that all its connections would have gone to."""
    folder = tmp_path_factory.mktemp("mirrored")
    proxy = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
    kept = {k: v for k, v in os.environ.items() if not k.startswith("WANDB_") and "proxy" not in k.lower()}
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), address)
    command = [sys.executable, "-m", "reproduce", "task=noisy_quadratic/mini", "logger=wandb", *RUN]
    environment = kept | proxies | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("exhausted after 30 steps")
    assert ended.stderr == ""
    yield folder / "outputs", proxy
    proxy.close()


@pytest.mark.slow
def test_one_offline_run_holds_the_config_and_every_evaluation(mirrored):
    outputs, _ = mirrored
    (path,) = wandb_files(outputs)
    record, mirror = record_in(outputs), finished_wandb(path)
    assert path.name == f"run-{record.path.stem}.wandb"
    assert {key: mirror.config[key] for key in record.header["identity"]} == record.header["identity"]
    assert [row["_step"] for row in mirror.history] == [e["step"] for e in record.evaluations]
    assert len(record.evaluations) > 20
    for row, entry in zip(mirror.history, record.evaluations, strict=True):
        assert measured(row) == pytest.approx(measured(flatten(entry)), nan_ok=True)
    assert mirror.exit_codes == [0]


@pytest.mark.slow
def test_nothing_reaches_the_network(mirrored):
    _, proxy = mirrored
    proxy.setblocking(False)
    with pytest.raises(BlockingIOError):
        proxy.accept()


@pytest.mark.slow
def test_record_is_the_one_of_a_run_without_the_mirror(mirrored, config):
    outputs, _ = mirrored
    cfg = config("noisy_quadratic/mini", *RUN)
    plain_outcome = run(cfg)
    mirror, plain = record_in(outputs), record_in(Path(cfg.outputs))
    assert mirror.path.name == plain.path.name
    assert mirror.header["identity"] == plain.header["identity"]
    assert [measured(e) for e in mirror.evaluations] == [measured(e) for e in plain.evaluations]
    assert measured(mirror.outcome) == measured(plain.outcome) == measured(plain_outcome)
    assert not (Path(cfg.outputs) / "wandb").exists()


@pytest.mark.slow
def test_mirror_is_finished_with_a_failure_when_training_raises_and_again_when_it_ends(config, monkeypatch):
    from tasks.noisy_quadratic import NoisyQuadratic

    cfg = config("noisy_quadratic/mini", "logger=wandb", *RUN)
    outputs, evaluate = Path(cfg.outputs), NoisyQuadratic.evaluate
    scores = []

    def evaluate_five_times(self, model):
        if len(scores) == 5:
            raise RuntimeError("the sixth evaluation")
        scores.append(evaluate(self, model))
        return scores[-1]

    with monkeypatch.context() as patch:
        patch.setattr(NoisyQuadratic, "evaluate", evaluate_five_times)
        with pytest.raises(RuntimeError, match="the sixth evaluation"):
            run(cfg)
    assert wandb.run is None
    (failed_path,) = wandb_files(outputs)
    failed, record = finished_wandb(failed_path), record_in(outputs)
    assert failed.exit_codes == [1]
    assert [row["score"] for row in failed.history] == scores == [e["score"] for e in record.evaluations]
    assert record.outcome["error"] == "RuntimeError: the sixth evaluation"

    assert run(cfg)["status"] == "exhausted"
    assert wandb.run is None
    (path,) = set(wandb_files(outputs)) - {failed_path}
    assert finished_wandb(path).exit_codes == [0]
    assert len(read_wandb(path).history) == len(record_in(outputs).evaluations)

    run(cfg)  # complete: told from its record, without another W&B run
    assert len(wandb_files(outputs)) == 2


def test_moments_are_flattened_and_their_ratio_is_left_out_where_the_gradient_is_lost():
    entry = {
        "step": 4,
        "loss": None,
        "probe": {"grad_sq": 2.0, "trace": 6.0, "examples": 8},
        "training": {"grad_sq": -0.5, "trace": 3.0, "updates": 2},
    }
    assert flatten(entry) == {
        "step": 4,
        "loss": None,
        "probe/grad_sq": 2.0,
        "probe/trace": 6.0,
        "probe/examples": 8,
        "probe/noise_scale": 3.0,
        "training/grad_sq": -0.5,
        "training/trace": 3.0,
        "training/updates": 2,
    }
