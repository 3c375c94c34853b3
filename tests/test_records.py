"""Records survive kills and refuse to mix runs."""

import json
import math
from pathlib import Path

import pytest

from reproduce.records import RecordError, RecordWriter, read_record, run_name

IDENTITY = {"task": "t", "run": {"batch_size": 64, "learning_rate": 0.1, "seed": 0}, "other": {"a": 1}}


def evaluation(step: int, **changes: object) -> dict:
    """What the trainer records of an evaluation at batch size 64; `changes` replace or add fields."""
    return {"step": step, "examples": 64 * step, "score": 1 / (1 + step), "loss": 0.5, "seconds": step / 8} | changes


def ended(step: int, **changes: object) -> dict:
    """The outcome of a run of two goals that was given up after so many steps, on its way to the second."""
    outcome = {"status": "given_up", "steps_to_goals": [1.5, None], "step": step, "examples": 64 * step}
    return outcome | {"probed_examples": 16, "limits": [None, 2.0], "seconds": 1.0} | changes


def write(folder: Path, steps=(1, 2), identity=IDENTITY, outcome: dict | None = None) -> Path:
    writer = RecordWriter(folder, identity, {"commit": None})
    for step in steps:
        writer.append("evaluation", **evaluation(step))
    if outcome:
        writer.append("outcome", **outcome)
    writer.close()
    return writer.path


def changed_line(path: Path, number: int, **changes: object) -> None:
    """Replaces fields of one line; None takes them out."""
    lines = path.read_text().splitlines()
    entry = {key: value for key, value in (json.loads(lines[number - 1]) | changes).items() if value is not None}
    lines[number - 1] = json.dumps(entry)
    path.write_text("".join(f"{line}\n" for line in lines))


def test_name_depends_on_content_alone(tmp_path):
    assert run_name(IDENTITY) == run_name(json.loads(json.dumps(IDENTITY)))
    assert run_name(IDENTITY) != run_name(IDENTITY | {"other": {"a": 2}})
    assert run_name(IDENTITY).startswith("b64_lr0.1_seed0_")


def test_lines_come_back(tmp_path):
    record = read_record(write(tmp_path))
    assert (record.batch_size, record.learning_rate, record.seed) == (64, 0.1, 0)
    assert [e["score"] for e in record.evaluations] == [1 / 2, 1 / 3]
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
    writer.append("evaluation", **evaluation(1, loss=math.nan, nested={"grad_sq": [math.inf, 1.0]}))
    writer.close()
    (entry,) = read_record(writer.path).evaluations
    assert entry["loss"] is None
    assert entry["nested"]["grad_sq"] == [None, 1.0]


def test_truncating_goes_back_to_a_checkpoint(tmp_path):
    writer = RecordWriter(tmp_path, IDENTITY, {})
    writer.append("evaluation", **evaluation(1))
    size = writer.file.tell()
    writer.append("evaluation", **evaluation(2))
    writer.truncate(size)
    writer.append("evaluation", **evaluation(3))
    writer.close()
    assert [e["step"] for e in read_record(writer.path).evaluations] == [1, 3]


def test_folder_that_cannot_be_written_is_named(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(RecordError, match="outputs=FOLDER"):
        RecordWriter(blocked / "runs", IDENTITY, {})


@pytest.mark.parametrize(
    ("number", "changes", "message"),
    [
        (1, {"commit": 7}, "line 1 is damaged .*commit is 7"),
        (1, {"identity": {"run": {"batch_size": 64, "learning_rate": "0.1", "seed": 0}}}, "learning_rate is '0.1'"),
        (1, {"identity": {"task": "t"}}, "identity.run is missing"),
        (2, {"score": None}, "line 2 is damaged .*score is missing"),
        (2, {"score": "0.5"}, "score is '0.5'"),
        (2, {"loss": True}, "loss is True"),
        (2, {"loss": 10**400}, "loss is 1000"),
        (2, {"loss": math.nan}, "it holds NaN"),
        (3, {"step": 2.0}, "line 3 is damaged .*step is 2.0"),
        (3, {"step": 1, "examples": 64}, "step 1 does not follow 1"),
        (3, {"step": 3}, "examples are 128, of 3 steps of 64"),
        (3, {"seconds": 0.01}, "seconds 0.01 do not follow"),
        (3, {"seconds": -1}, "seconds is -1"),
        (3, {"probe": 3}, "probe is 3"),
        (3, {"probe": {"grad_sq": 1.0, "examples": 16}}, "probe is "),
        (3, {"probe": {"grad_sq": 1.0, "trace": 2.0, "examples": -16}}, "probe is "),
        (4, {"status": "finished"}, "line 4 is damaged .*status is 'finished'"),
        (4, {"status": "reached"}, "status is reached, but a goal was not"),
        (4, {"step": 3}, "not where the last evaluation is"),
        (4, {"steps_to_goals": [1.5, 3.0]}, "steps_to_goals are"),
        (4, {"steps_to_goals": [1.5, 1.0]}, "steps_to_goals are"),
        (4, {"limits": None}, "limits is missing"),
        (4, {"seconds": math.inf}, "it holds Infinity"),
    ],
)
def test_line_with_a_wrong_field_is_refused_by_number_and_field(tmp_path, number, changes, message):
    path = write(tmp_path, outcome=ended(2))
    assert read_record(path).status == "given_up"
    changed_line(path, number, **changes)
    with pytest.raises(RecordError, match=message) as error:
        read_record(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (0, 1, 1, 2, 3), (0, 1, 3), (0, 1, 3, 2), (0, 1, 2, 3, 3), (0, 3)])
def test_lines_that_are_missing_doubled_or_out_of_order_are_refused(tmp_path, order):
    path = write(tmp_path, outcome=ended(2))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[number] for number in order))
    with pytest.raises(RecordError, match=r"damaged|in its middle"):
        read_record(path)


def test_evaluation_that_is_missing_from_a_runs_schedule_is_noticed(tmp_path):
    identity = IDENTITY | {"trainer": {"evaluation_spacing": 0.5}, "max_steps": 8}
    steps = (0, 1, 2, 3, 5, 8)
    assert len(read_record(write(tmp_path, steps, identity)).evaluations) == 6
    for missing in range(5):
        path = write(tmp_path / str(missing), steps[:missing] + steps[missing + 1 :], identity)
        with pytest.raises(RecordError, match=rf"step is {steps[missing + 1]} where {steps[missing]} is evaluated"):
            read_record(path)


def test_run_that_fails_again_before_it_trains_keeps_a_record_that_can_be_read(tmp_path):
    failed = {"status": "failed", "error": "RuntimeError: no data"}
    path = write(tmp_path, (), outcome=failed)
    write(tmp_path, (), outcome=failed)
    assert len(path.read_bytes().splitlines()) == 3
    assert read_record(path).status == "failed"
    path.unlink()
    write(tmp_path, outcome=ended(2))
    write(tmp_path, (), outcome=failed)  # begun anew, since it had been given up too early
    assert (read_record(path).status, read_record(path).last_step) == ("failed", 2)


def test_batch_size_that_adapts_counts_examples_of_its_own(tmp_path):
    path = write(tmp_path, identity=IDENTITY | {"adaptive_batch": {"r": 100}})
    changed_line(path, 3, examples=500)
    assert read_record(path).evaluations[-1]["examples"] == 500
