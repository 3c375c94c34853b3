"""Records survive kills and refuse to mix runs."""

import json
import math
from pathlib import Path

import pytest

from reproduce.records import RecordError, RecordWriter, read_record, run_name

IDENTITY = {"task": "t", "run": {"batch_size": 64, "learning_rate": 0.1, "seed": 0}, "other": {"a": 1}}


def write(folder: Path, steps=(1, 2), identity=IDENTITY) -> Path:
    writer = RecordWriter(folder, identity, {"commit": None})
    for step in steps:
        writer.append("evaluation", step=step, score=1 / step)
    writer.close()
    return writer.path


def test_name_depends_on_content_alone(tmp_path):
    assert run_name(IDENTITY) == run_name(json.loads(json.dumps(IDENTITY)))
    assert run_name(IDENTITY) != run_name(IDENTITY | {"other": {"a": 2}})
    assert run_name(IDENTITY).startswith("b64_lr0.1_seed0_")


def test_lines_come_back(tmp_path):
    record = read_record(write(tmp_path))
    assert (record.batch_size, record.learning_rate, record.seed) == (64, 0.1, 0)
    assert [e["score"] for e in record.evaluations] == [1.0, 0.5]
    assert record.outcome is None


def test_torn_last_line_is_ignored_at_every_length(tmp_path):
    path = write(tmp_path)
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    for cut in range(len(lines[-1])):
        path.write_bytes(content[: len(content) - len(lines[-1]) + cut])
        assert len(read_record(path).evaluations) == 1


def test_damaged_line_in_the_middle_is_refused_by_name_and_number(tmp_path):
    path = write(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = lines[0] + b'{"kind": "evalu\n' + lines[2]
    path.write_bytes(damaged)
    with pytest.raises(RecordError, match=r"line 2 is damaged.*Delete the file"):
        read_record(path)
    assert path.read_bytes() == damaged


def test_file_of_another_configuration_under_the_same_name_is_refused_and_kept(tmp_path):
    path = write(tmp_path)
    other = IDENTITY | {"other": {"a": 2}}
    foreign = tmp_path / f"{run_name(other)}.jsonl"
    path.rename(foreign)
    before = foreign.read_bytes()
    with pytest.raises(RecordError, match="another configuration under the same name"):
        RecordWriter(tmp_path, other, {})
    assert foreign.read_bytes() == before


def test_second_writer_is_refused_while_the_first_lives(tmp_path):
    first = RecordWriter(tmp_path, IDENTITY, {})
    with pytest.raises(RecordError, match="Another process is writing"):
        RecordWriter(tmp_path, IDENTITY, {})
    first.close()
    RecordWriter(tmp_path, IDENTITY, {}).close()


def test_numbers_that_are_not_finite_become_null(tmp_path):
    writer = RecordWriter(tmp_path, IDENTITY, {})
    writer.append("evaluation", step=1, loss=math.nan, nested={"grad_sq": [math.inf, 1.0]})
    writer.close()
    (entry,) = read_record(writer.path).evaluations
    assert entry["loss"] is None
    assert entry["nested"]["grad_sq"] == [None, 1.0]


def test_truncating_goes_back_to_a_checkpoint(tmp_path):
    writer = RecordWriter(tmp_path, IDENTITY, {})
    writer.append("evaluation", step=1)
    size = writer.file.tell()
    writer.append("evaluation", step=2)
    writer.truncate(size)
    writer.append("evaluation", step=3)
    writer.close()
    assert [e["step"] for e in read_record(writer.path).evaluations] == [1, 3]


def test_folder_that_cannot_be_written_is_named(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(RecordError, match="outputs=FOLDER"):
        RecordWriter(blocked / "runs", IDENTITY, {})
