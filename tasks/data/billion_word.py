"""The One Billion Word Benchmark (Chelba et al. 2013, arXiv 1312.3005) in the layout in which it is released.

    <data_dir>/1-billion-word-language-modeling-benchmark-r13output/
        training-monolingual.tokenized.shuffled/news.en-00001-of-00100 ... news.en-00099-of-00100
        heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-00050 ...

Shard 00000 is held out, cut into 50 parts; unpacking scripts leave the whole of it beside them, where it is not read.
One sentence a line, shuffled, with punctuation set apart.
"""

import hashlib
import re
from functools import partial
from pathlib import Path

from tasks.data.text import Corpus, TextShard
from tasks.task import TaskError

RELEASE = "1-billion-word-language-modeling-benchmark-r13output"
TRAIN = "training-monolingual.tokenized.shuffled"
HELDOUT = "heldout-monolingual.tokenized.shuffled"
ADDRESS = f"http://www.statmt.org/lm-benchmark/{RELEASE}.tar.gz"


def read_sentences(path: Path) -> list[str]:
    """A shard's sentences.

    Raises:
        TaskError: naming the file, if it cannot be read or its end is missing.
    """
    mend = f"Unpack {RELEASE}.tar.gz again (1.8 GB, from {ADDRESS})."
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror}. {mend}") from error
    if not content.endswith(b"\n"):
        state = "ends in the middle of a sentence" if content else "is empty"
        raise TaskError(f"{path} {state}: it was not copied whole. {mend}")
    try:
        return content.decode().splitlines()
    except UnicodeDecodeError as error:
        raise TaskError(f"{path} is damaged at byte {error.start:,}: it is no UTF-8 text there. {mend}") from error


def shard_paths(folder: Path, stem: str, first: int) -> list[Path]:
    """The shards `stem`-0000k-of-n of `folder`, all of them from k = `first` to n - 1.

    Raises:
        TaskError: if there are none, or some are missing.
    """
    named = {
        (int(match[1]), int(match[2])): path
        for path in (folder.iterdir() if folder.is_dir() else ())
        if (match := re.fullmatch(rf"{re.escape(stem)}-(\d{{5}})-of-(\d{{5}})", path.name))
    }
    totals = {total for _, total in named}
    if len(totals) != 1:
        found = f"shards of {len(totals)} different counts" if totals else f"no files {stem}-*"
        raise TaskError(
            f"{folder} holds {found}. The benchmark is one file: fetch {ADDRESS} (1.8 GB) and unpack it with "
            f"`tar -xzf {RELEASE}.tar.gz -C {folder.parent.parent}`, or point task.data_dir at the folder that "
            f"holds {RELEASE}."
        )
    (total,) = totals
    missing = [f"{stem}-{k:05}-of-{total:05}" for k in range(first, total) if (k, total) not in named]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise TaskError(
            f"{folder} lacks {', '.join(missing[:3])}{more} of {total - first} shards: "
            f"unpack {RELEASE}.tar.gz again, all of it."
        )
    return [named[k, total] for k in range(first, total)]


def benchmark(data_dir: str) -> Corpus:
    """The benchmark in `data_dir`, every shard in its place; contents are checked as they are read.

    Raises:
        TaskError: if it is not there as a whole.
    """
    root = Path(data_dir) / RELEASE
    paths = {
        "train": shard_paths(root / TRAIN, "news.en", 1),
        "heldout": shard_paths(root / HELDOUT, "news.en.heldout", 0),
    }
    sizes = [(path.name, path.stat().st_size) for part in paths.values() for path in part]
    key = hashlib.blake2b(repr(sizes).encode(), digest_size=4).hexdigest()
    train, heldout = (
        tuple(TextShard(str(path), partial(read_sentences, path), path.stat().st_size) for path in part)
        for part in paths.values()
    )
    return Corpus("One Billion Word Benchmark", f"billion-word-{key}", train, heldout)
