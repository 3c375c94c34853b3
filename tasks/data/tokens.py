"""A corpus as tokens on disk: a byte-pair vocabulary learnt once, every shard encoded once, the rest is memory-mapped.

    <folder>/vocabulary.json   the tokenizer, as the tokenizers package saves it
    <folder>/train.u16         token numbers, uint16, one text after the other, each ended by END
    <folder>/heldout.u16
    <folder>/index.json        for each of them, which shards it holds so far, and how many tokens of each

An interrupted preparation goes on with the first shard that the index does not have.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tasks.data.cache import alone_in, progress_bar, write_whole
from tasks.data.text import Corpus, TextShard
from tasks.task import TaskError

END = "</s>"
FORMAT = 1  # of the files; part of the folder's name
LARGEST_VOCABULARY = 1 << 16
SHARDS_FOR_VOCABULARY = 4  # of the benchmark: 1.2 million sentences; four times as many change few of the 40,000 pairs
TEXTS_AT_ONCE = 10_000
PARTS = ("train", "heldout")


@dataclass(frozen=True)
class TokenFile:
    """Token numbers on disk, mapped into memory, so that all processes of a machine share one copy."""

    path: Path
    tokens: np.ndarray  # uint16

    @classmethod
    def open(cls, path: Path, tokens: int) -> "TokenFile":
        """Raises TaskError unless the file holds so many tokens."""
        size = path.stat().st_size if path.exists() else 0
        if size != 2 * tokens or tokens == 0:
            raise TaskError(f"{path} holds {size // 2:,} tokens where {tokens:,} were written: delete {path.parent}.")
        return cls(path, np.memmap(path, dtype=np.uint16, mode="r"))

    def __len__(self) -> int:
        return len(self.tokens)

    def windows(self, starts: Tensor, length: int) -> Tensor:
        """The `length` tokens from each of `starts` (n,) on, (n, length) int64."""
        places = starts.numpy()[:, None] + np.arange(length)
        return torch.from_numpy(self.tokens[places].astype(np.int64))


class TokenFolder:
    """The tokens of `corpus` under a vocabulary of `vocabulary` byte pairs, in a folder of their own below `folder`."""

    def __init__(self, corpus: Corpus, vocabulary: int, folder: Path) -> None:
        self.corpus, self.vocabulary = corpus, vocabulary
        self.folder = folder / f"{corpus.key}-{vocabulary}-v{FORMAT}"

    def shards(self, part: str) -> tuple[TextShard, ...]:
        return self.corpus.train if part == "train" else self.corpus.heldout

    def missing(self, part: str) -> list[TextShard]:
        """The shards of a part that are still to be encoded."""
        return list(self.shards(part)[len(self._index()[part]) :])

    def prepare(self) -> None:
        """Learns the vocabulary and encodes what is missing, in one process at a time.

        Raises:
            TaskError: if a text or the folder is unusable.
        """
        if not any(self.missing(part) for part in PARTS):
            return
        try:
            with alone_in(self.folder):
                self._encode(self._tokenizer())
        except OSError as error:
            raise TaskError(
                f"Tokens cannot be written to {self.folder}: {error.strerror or error}. "
                "Make room there or name another folder with task.data_dir; what is written already is kept."
            ) from error

    def open(self, part: str) -> TokenFile:
        """Raises TaskError if the part was not prepared, or is not as it was written."""
        if self.missing(part):
            raise TaskError(f"{self.folder} is incomplete: Task.prepare() encodes what is missing.")
        return TokenFile.open(self.folder / f"{part}.u16", sum(count for _, count in self._index()[part]))

    def _tokenizer(self):
        from tokenizers import Tokenizer

        path = self.folder / "vocabulary.json"
        if not path.exists():
            shards = self.corpus.train[:SHARDS_FOR_VOCABULARY]
            print(f"Learning {self.vocabulary:,} byte pairs of {self.corpus.name}.", file=sys.stderr)
            trained = train_tokenizer((text for shard in shards for text in shard.read()), self.vocabulary)
            write_whole(path, trained.to_str().encode())
        return Tokenizer.from_file(str(path))

    def _encode(self, tokenizer) -> None:
        left = [(part, shard) for part in PARTS for shard in self.missing(part)]
        end = tokenizer.token_to_id(END)
        total = sum(shard.size for _, shard in left)
        with progress_bar(total, f"Tokens of {self.corpus.name}", "B") as progress:
            for part, shard in left:
                numbers = encode(tokenizer, shard.read(), end)
                index = self._index()
                with open(self.folder / f"{part}.u16", "ab") as file:
                    # Cut off what a process wrote that ended before it could say so in the index.
                    file.truncate(2 * sum(count for _, count in index[part]))
                    file.write(numbers.tobytes())
                    file.flush()
                    os.fsync(file.fileno())
                index[part].append([shard.name, len(numbers)])
                write_whole(self.folder / "index.json", json.dumps(index, indent=1).encode())
                progress.update(shard.size)

    def _index(self) -> dict[str, list]:
        """By part, [shard, tokens] in the order of the file; TaskError if the index is damaged."""
        path = self.folder / "index.json"
        if not path.exists():
            return {part: [] for part in PARTS}
        try:
            index = json.loads(path.read_text())
            return {part: [[str(shard), int(tokens)] for shard, tokens in index[part]] for part in PARTS}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TaskError(f"{path} cannot be read ({error}): delete {self.folder}.") from error


def train_tokenizer(texts: Iterator[str], vocabulary: int):
    """Byte-level byte-pair encoding (Sennrich et al. 2016, arXiv 1508.07909) learnt on `texts`.

    Raises:
        TaskError: if a vocabulary of that size cannot be had.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    if not 257 <= vocabulary <= LARGEST_VOCABULARY:
        raise TaskError(f"task.vocabulary must lie between 257 and {LARGEST_VOCABULARY:,}, got {vocabulary:,}.")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() != vocabulary:
        raise TaskError(
            f"The text yields {tokenizer.get_vocab_size():,} byte pairs, fewer than task.vocabulary={vocabulary:,}: "
            "choose a smaller vocabulary."
        )
    return tokenizer


def encode(tokenizer, texts: Sequence[str], end: int) -> np.ndarray:
    """All texts' tokens, each text ended by `end`, uint16. The package encodes texts in parallel, on all cores."""
    parts = []
    for first in range(0, len(texts), TEXTS_AT_ONCE):
        for encoding in tokenizer.encode_batch_fast(texts[first : first + TEXTS_AT_ONCE], add_special_tokens=False):
            parts.append(np.array([*encoding.ids, end], dtype=np.uint16))
    return np.concatenate(parts)
