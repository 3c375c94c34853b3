"""Language modelling with an LSTM on the One Billion Word Benchmark (App. A.4), at any size."""

from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from tasks.data.billion_word import benchmark
from tasks.data.sources import checked_split
from tasks.data.speeches import speeches
from tasks.data.tokens import TokenFile, TokenFolder
from tasks.networks.language_model import LSTMLanguageModel, cross_entropy
from tasks.task import Batch, Sampler, Task, TaskError, random_generator, rank_share

LENGTH = 20  # tokens that a sequence predicts (App. A.4)
SOURCES = {"speeches": "State of the Union addresses", "benchmark": "One Billion Word Benchmark"}
EVALUATED_AT_ONCE = 250  # sequences


class TokenSequences(Sampler):
    """Batch: token numbers (n, LENGTH + 1) int64, of which all but the first are predicted.

    Sequences begin anywhere in the text, independently and with replacement, and may run from one of its texts into
    the next, over the token that ends it.
    """

    def __init__(self, file: TokenFile, key: tuple, rank: int, world_size: int, device: torch.device) -> None:
        self.file, self.key, self.rank, self.world_size, self.device = file, key, rank, world_size, device

    def draw(self, step: int, samples: int, model: nn.Module) -> Batch:
        share = rank_share(samples, self.rank, self.world_size)
        starts = torch.randint(len(self.file) - LENGTH, (samples,), generator=random_generator(*self.key, step))
        return (self.file.windows(starts[share], LENGTH + 1).to(self.device),)


class BillionWord(Task):
    """Args:
    source: "speeches" (ships with a package) or "benchmark" (in `data_dir`).
    vocabulary: byte pairs. embedding, hidden, tied: see LSTMLanguageModel.
    goals: losses in nats per token, from easy to hard.
    score: "train" (as in the paper: a fixed sample of the training text) or "test" (of the held-out text).
    evaluation_sequences: how many sequences of 20 tokens the score is taken on.
    data_dir: where the benchmark is, and where tokens are written.
    """

    unit = "token"
    units_per_sample = LENGTH
    score_unit = "nats"
    higher_is_better = False

    def __init__(
        self,
        source: str,
        vocabulary: int,
        embedding: int,
        hidden: int,
        tied: bool,
        goals: list[float],
        score: str = "train",
        evaluation_sequences: int = 500,
        data_dir: str = "data",
    ) -> None:
        if source not in SOURCES:
            raise TaskError(f"task.source must be one of {', '.join(SOURCES)}, got '{source}'.")
        self.source, self.data, self.embedded = source, SOURCES[source], source == "speeches"
        self.vocabulary, self.embedding, self.hidden, self.tied = vocabulary, embedding, hidden, tied
        self.goals = tuple(goals)
        self.part = "train" if checked_split(score) == "train" else "heldout"
        self.score = f"{score} loss"
        self.evaluation_sequences = evaluation_sequences
        self.data_dir = Path(data_dir)

    @cached_property
    def tokens(self) -> TokenFolder:
        corpus = speeches() if self.source == "speeches" else benchmark(str(self.data_dir))
        return TokenFolder(corpus, self.vocabulary, self.data_dir / "tokens")

    def prepare(self) -> None:
        self.tokens.prepare()

    def build_model(self) -> nn.Module:
        return LSTMLanguageModel(self.vocabulary, self.embedding, self.hidden, self.tied)

    def sampler(self, seed: int, rank: int, world_size: int, device: torch.device) -> Sampler:
        return TokenSequences(self.tokens.open("train"), ("billion word", seed), rank, world_size, device)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        (tokens,) = batch
        return cross_entropy(model(tokens[:, :-1]), tokens[:, 1:])

    @cached_property
    def evaluated(self) -> Tensor:
        """The fixed sample that the score is taken on, (evaluation_sequences, LENGTH + 1)."""
        key = ("billion word, evaluation", self.part)
        sampler = TokenSequences(self.tokens.open(self.part), key, 0, 1, torch.device("cpu"))
        (tokens,) = sampler.draw(0, self.evaluation_sequences, None)
        return tokens

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> float:
        device = next(model.parameters()).device
        total = 0.0
        for tokens in self.evaluated.split(EVALUATED_AT_ONCE):
            total += float(self.loss(model, (tokens.to(device),))) * len(tokens)
        return total / len(self.evaluated)

    def fake_batch(self, samples: int) -> Batch:
        return (torch.arange(samples * (LENGTH + 1)).view(samples, -1) % self.vocabulary,)
