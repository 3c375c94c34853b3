"""The language model and its task: closed forms, what a batch holds, and runs on both scales' data."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import composed
from test_tokens import write_benchmark
from torch import Tensor

from reproduce.probe import gradient, hessian_vector_product
from reproduce.records import read_record
from reproduce.run import run
from reproduce.settings import ConfigError, build_task
from tasks.billion_word import LENGTH, BillionWord, TokenSequences
from tasks.data.tokens import TokenFile
from tasks.networks.language_model import LSTMLanguageModel
from tasks.task import TaskError

CPU = torch.device("cpu")


@pytest.fixture
def file(tmp_path) -> TokenFile:
    """Tokens 0, 1, 2, ..., so that a window tells where it begins."""
    path = tmp_path / "train.u16"
    np.arange(1000, dtype=np.uint16).tofile(path)
    return TokenFile.open(path, 1000)


def sequences(file: TokenFile, seed: int = 0, rank: int = 0, world_size: int = 1) -> TokenSequences:
    return TokenSequences(file, ("test", seed), rank, world_size, CPU)


def benchmark_task(folder, **settings) -> BillionWord:
    write_benchmark(folder)
    task = BillionWord(
        **{
            "source": "benchmark",
            "vocabulary": 280,
            "embedding": 6,
            "hidden": 8,
            "tied": True,
            "goals": [5.0],
            "evaluation_sequences": 30,
            "data_dir": str(folder),
        }
        | settings
    )
    task.prepare()
    return task


def by_hand(model: LSTMLanguageModel, tokens: Tensor) -> Tensor:
    """Logits from the equations of an LSTM (Hochreiter and Schmidhuber 1997), one token after the other."""
    lstm = model.lstm
    h = c = torch.zeros(len(tokens), lstm.hidden_size, dtype=torch.float64)
    logits = []
    for t in range(tokens.shape[1]):
        x = model.embedding.weight[tokens[:, t]]
        gates = x @ lstm.weight_ih_l0.T + lstm.bias_ih_l0 + h @ lstm.weight_hh_l0.T + lstm.bias_hh_l0
        i, f, g, o = gates.chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        logits.append(model.output.weight @ (model.projection(h))[:, :, None] + model.output.bias[:, None])
    return torch.stack(logits, 1)[..., 0]


@pytest.mark.parametrize("tied", [True, False])
def test_model_follows_the_equations_of_an_lstm_from_a_zero_state(tied):
    model = LSTMLanguageModel(11, 3, 5, tied).double()
    tokens = torch.randint(11, (4, 7), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(tokens), by_hand(model, tokens))


def test_later_tokens_change_nothing_before_them():
    model = LSTMLanguageModel(11, 3, 5, True)
    tokens = torch.zeros(1, 6, dtype=torch.long)
    other = tokens.clone()
    other[0, 4] = 7
    changed = (model(tokens) - model(other)).abs().amax(2)[0] > 1e-6
    assert changed.tolist() == [False] * 4 + [True] * 2


def test_sizes_are_those_of_the_papers_and_of_the_small_model():
    def weights(scale: str, *overrides: str) -> int:
        config = composed(f"billion_word/{scale}", "outputs", *overrides, batch_size=1280)
        with torch.device("meta"):
            return sum(p.numel() for p in build_task(config).build_model().parameters())

    assert weights("mini") == 2048 * 64 + 4 * 128 * (64 + 128 + 2) + 128 * 64 + 2048
    lstm = 4 * 2048 * (512 + 2048 + 2)
    assert weights("paper") == 40_000 * 512 + lstm + 40_000 * 2049
    small = 40_000 * 256 + 4 * 512 * (256 + 512 + 2) + 40_000 * 513
    assert weights("paper", "task.hidden=512", "task.embedding=256") == small


def test_fresh_model_guesses_evenly():
    torch.manual_seed(0)
    task = BillionWord("speeches", 2048, 64, 128, True, [5.0])
    assert task.loss(task.build_model(), task.fake_batch(8)).item() == pytest.approx(math.log(2048), abs=0.02)


def test_batch_is_windows_of_the_text_anywhere_in_it(file):
    (tokens,) = sequences(file).draw(3, 5000, None)
    assert tokens.shape == (5000, LENGTH + 1)
    assert torch.equal(tokens - tokens[:, :1], torch.arange(LENGTH + 1).expand(5000, -1))
    starts = tokens[:, 0]
    assert (int(starts.min()), int(starts.max())) == (0, 1000 - LENGTH - 1)
    assert float(starts.float().mean()) == pytest.approx((1000 - LENGTH - 1) / 2, abs=4 * 283 / 5000**0.5)


def test_batch_depends_on_seed_and_step_alone(file):
    (tokens,) = sequences(file).draw(2, 64, None)
    again = sequences(file)
    again.draw(7, 8, None)
    assert torch.equal(again.draw(2, 64, None)[0], tokens)
    assert torch.equal(sequences(file).draw(2, 16, None)[0], tokens[:16])
    assert not torch.equal(sequences(file).draw(3, 64, None)[0], tokens)
    assert not torch.equal(sequences(file, seed=1).draw(2, 64, None)[0], tokens)
    shares = [sequences(file, 0, rank, 4).draw(2, 64, None)[0] for rank in range(4)]
    assert torch.equal(torch.cat(shares), tokens)


def test_loss_is_the_mean_surprise_in_nats_at_each_token_but_the_first(tmp_path):
    task = benchmark_task(tmp_path)
    model = task.build_model().double()
    (tokens,) = task.sampler(0, 0, 1, CPU).draw(1, 3, model)
    log_shares = model(tokens[:, :-1]).log_softmax(2).detach()
    surprise = [-float(log_shares[n, t, tokens[n, t + 1]]) for n in range(3) for t in range(LENGTH)]
    assert task.loss(model, (tokens,)).item() == pytest.approx(np.mean(surprise), rel=1e-9)


@pytest.mark.parametrize("score", ["train", "test"])
def test_score_is_the_loss_on_a_fixed_sample_of_its_part_of_the_text(tmp_path, score, monkeypatch):
    task = benchmark_task(tmp_path, score=score)
    model = task.build_model()
    part = task.tokens.open("train" if score == "train" else "heldout").tokens.tolist()
    text = " ".join(map(str, part))
    assert len(task.evaluated) == 30
    assert all(" ".join(map(str, window.tolist())) in text for window in task.evaluated)
    with torch.no_grad():
        whole = float(task.loss(model, (task.evaluated,)))
    monkeypatch.setattr("tasks.billion_word.EVALUATED_AT_ONCE", 7)
    torch.manual_seed(5)
    assert task.evaluate(model) == pytest.approx(whole, rel=1e-6)
    other = benchmark_task(tmp_path, score=score)
    assert torch.equal(other.evaluated, task.evaluated)


def test_products_with_the_hessian_go_through_the_lstm():
    torch.manual_seed(0)
    task = BillionWord("speeches", 40, 4, 5, True, [5.0])
    model = task.build_model().double()
    tokens = torch.randint(40, (6, LENGTH + 1))
    parameters = list(model.parameters())
    vector = [torch.randn_like(p) for p in parameters]
    (product,) = hessian_vector_product(model, task.loss, (tokens,), [vector])
    ends = []
    for sign in (1, -1):
        with torch.no_grad():
            for p, v in zip(parameters, vector, strict=True):
                p += sign * 1e-5 * v
        ends.append(gradient(task.loss(model, (tokens,)), parameters))
        with torch.no_grad():
            for p, v in zip(parameters, vector, strict=True):
                p -= sign * 1e-5 * v
    for h, a, b in zip(product, *ends, strict=True):
        torch.testing.assert_close(h, (a - b) / 2e-5, rtol=1e-4, atol=1e-7)


def test_run_on_the_addresses_learns_and_counts_tokens(config):
    cfg = config(
        "billion_word/mini",
        "grid.budget={steps: 40, examples: 0}",
        "task.goals=[6.8]",
        "task.evaluation_sequences=50",
        batch_size=320,
        learning_rate=0.01,
    )
    outcome = run(cfg)
    assert (outcome["status"], outcome["examples"]) == ("reached", 320 * outcome["step"])
    (path,) = Path(cfg.outputs).rglob("*.jsonl")
    evaluations = read_record(path).evaluations
    scores = [e["score"] for e in evaluations]
    assert scores[0] == pytest.approx(math.log(2048), abs=0.05)
    assert scores[-1] < 6.9
    assert all(e["probe"]["examples"] % (8 * LENGTH) == 0 for e in evaluations if "probe" in e)


def test_batch_that_would_cut_a_sequence_is_refused(config):
    with pytest.raises(ConfigError, match=r"multiple of 20"):
        run(config("billion_word/mini", batch_size=64, learning_rate=0.01))


def test_unknown_sources_and_scores_are_refused():
    with pytest.raises(TaskError, match="one of speeches, benchmark, got 'news'"):
        BillionWord("news", 300, 4, 4, True, [5.0])
    with pytest.raises(TaskError, match="'train' or 'test'"):
        BillionWord("speeches", 300, 4, 4, True, [5.0], score="valid")


def test_paper_scale_without_its_data_builds_and_says_what_is_missing(config, tmp_path):
    cfg = config("billion_word/paper", f"task.data_dir={tmp_path}", "task.vocabulary=300", batch_size=320)
    task = build_task(cfg)
    assert task.fake_batch(3)[0].shape == (3, LENGTH + 1)
    with pytest.raises(TaskError, match=r"lm-benchmark.*tar -xzf"):
        run(cfg)
