"""Damaged files: whatever befalls a record or a result, it reads as it was, or is refused by name; never otherwise.

Damage is drawn by hypothesis, the same at every run. "Reads as it was" is meant to the digit: a number that another
one has taken the place of must not come through, unless it is one that a run could have written.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import pytest

pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report.synthetic import (
    adaptive_batch_record,
    bounded_record,
    comparison_record,
    language_record,
    line_search_record,
    linear_rule_record,
    quadratic_record,
    sweep_record,
)

from reproduce.records import Record, RecordError, RecordWriter, read_record
from reproduce.report.html import render_html
from reproduce.report.markdown import render_markdown
from reproduce.report.reading import SummaryError, load_summary, with_further_files
from reproduce.report.sections import build_report
from reproduce.run import is_complete

IDENTITY = {"task": "t", "run": {"batch_size": 64, "learning_rate": 0.1, "seed": 0}}
IDENTITY |= {"trainer": {"evaluation_spacing": 0.5}, "max_steps": 100}
NO_NUMBERS = (None, True, "x", [], {}, [1], {"a": 1}, math.nan, math.inf, -math.inf, 10**400, "\ud800")
FAR_OFF = (-1, -1e300, 1e300)
DETERMINISTIC = {"derandomize": True, "deadline": None, "database": None}
# The folder of a test is written anew for every example.
ONE_FOLDER = {"suppress_health_check": [HealthCheck.function_scoped_fixture]}
QUICK = settings(max_examples=150, **DETERMINISTIC, **ONE_FOLDER)
SLOW = settings(max_examples=25, **DETERMINISTIC, **ONE_FOLDER)

Place = tuple[str | int, ...]


def places(value: object, where: Place = ()) -> Iterator[Place]:
    """The place of every entry in nested dicts and lists."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield (*where, key)
        yield from places(entry, (*where, key))


def at(record: object, place: Place) -> object:
    for key in place:
        record = record[key]
    return record


def replaced(record: dict, place: Place, value: object) -> dict:
    record = deepcopy(record)
    at(record, place[:-1])[place[-1]] = value
    return record


def without(record: dict, place: Place) -> dict:
    record = deepcopy(record)
    del at(record, place[:-1])[place[-1]]
    return record


def number_places(record: dict) -> list[Place]:
    """Places of numbers: damage to these could change a result in silence."""
    numbers = (place for place in places(record) if isinstance(at(record, place), int | float))
    return [place for place in numbers if not isinstance(at(record, place), bool)]


# Records of runs


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, Record]:
    """A complete record: its file, its bytes, and what they read as."""
    writer = RecordWriter(
        tmp_path_factory.mktemp("records"), IDENTITY, {"commit": "0123abc", "versions": {"torch": "2"}}
    )
    for step in (0, 1, 2, 3, 5):
        noise = {"probe": {"grad_sq": 0.5, "trace": 40.0 + step, "examples": 8}} if step > 1 else {}
        loss = 1 / step if step else None
        seconds = round(step / 7, 3)
        entry = {"step": step, "examples": 64 * step, "score": 0.9 / (1 + step), "loss": loss, "seconds": seconds}
        writer.append("evaluation", **entry, **noise)
    writer.append(
        "outcome",
        **{"status": "given_up", "steps_to_goals": [1.5, 3.25, None], "step": 5, "examples": 320, "seconds": 0.75},
        **{"probed_examples": 24, "limits": [None, None, 4.5], "weights_sha256": "ab"},
    )
    writer.close()
    return writer.path, writer.path.read_bytes(), read_record(writer.path)


def read_damaged(whole: tuple, damaged: bytes) -> Record | None:
    """The record that these bytes read as in its place. A refusal has to name the file, and reads as None."""
    path = whole[0]
    path.write_bytes(damaged)
    try:
        return read_record(path, IDENTITY)
    except RecordError as error:
        message = str(error)
    assert str(path) in message
    return None


def test_record_cut_anywhere_reads_as_far_as_it_goes_and_is_not_complete(whole):
    _, content, record = whole
    ends = [match.end() for match in re.finditer(b"\n", content)]
    for cut in range(len(content)):
        lines = sum(end <= cut for end in ends)
        found = read_damaged(whole, content[:cut])
        if lines == 0:
            assert found is None
            continue
        assert (found.header, found.evaluations) == (record.header, record.evaluations[: lines - 1])
        assert found.outcome is None
        assert not is_complete(found.outcome, (None, None, 4.5))


@QUICK
@given(data=st.data())
def test_record_with_lines_out_of_order_is_as_it_was_or_refused(whole, data):
    _, content, record = whole
    lines = content.splitlines(keepends=True)
    order = data.draw(st.lists(st.integers(0, len(lines) - 1), min_size=1, max_size=len(lines) + 2))
    found = read_damaged(whole, b"".join(lines[number] for number in order))
    if found:
        assert found.header == record.header
        assert found.evaluations == record.evaluations[: len(found.evaluations)]
        assert found.outcome in (None, record.outcome)
        assert found.outcome is None or found.evaluations == record.evaluations


@QUICK
@given(data=st.data())
def test_record_with_a_wrong_value_is_refused(whole, data):
    _, content, _ = whole
    entries = [json.loads(line) for line in content.splitlines()]
    number = data.draw(st.integers(0, len(entries) - 1))
    place = data.draw(st.sampled_from(number_places(entries[number])))
    value = data.draw(st.sampled_from(NO_NUMBERS))
    entries[number] = replaced(entries[number], place, value)
    found = read_damaged(whole, lines_of(entries))
    if found:  # null is what the writer makes of a measurement that is not finite, and of steps to a goal not reached
        assert value is None
        assert (number, *place) in {(2, "loss"), *NULLABLE}, (number, place)


NULLABLE = {(n, name) for n in range(1, 6) for name in ("score", "loss")}
NULLABLE |= {(n, "probe", name) for n in range(1, 6) for name in ("grad_sq", "trace")}
NULLABLE |= {(6, "steps_to_goals", 1), (6, "limits", 2)}


@QUICK
@given(data=st.data())
def test_record_with_a_number_far_off_is_refused_where_it_counts(whole, data):
    _, content, _ = whole
    entries = [json.loads(line) for line in content.splitlines()]
    number = data.draw(st.integers(0, len(entries) - 1))
    place = data.draw(st.sampled_from(number_places(entries[number])))
    entries[number] = replaced(entries[number], place, data.draw(st.sampled_from(FAR_OFF)))
    found = read_damaged(whole, lines_of(entries))
    # A score may be anything, a limit and a time any number that is not negative: nothing else tells what they were.
    free = ("score", "loss", "grad_sq", "trace", "limits", "seconds")
    assert found is None or set(free) & set(place), (number, place)


@QUICK
@given(data=st.data())
def test_record_without_a_field_is_as_it_was_or_refused(whole, data):
    _, content, _ = whole
    entries = [json.loads(line) for line in content.splitlines()]
    number = data.draw(st.integers(0, len(entries) - 1))
    place = data.draw(st.sampled_from([place for place in places(entries[number]) if len(place) == 1]))
    entries[number] = without(entries[number], place)
    found = read_damaged(whole, lines_of(entries))
    assert found is None or place[0] in ("commit", "versions", "probe", "weights_sha256"), place


@QUICK
@given(position=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_record_with_a_byte_changed_never_ends_in_another_error(whole, position, byte):
    content = bytearray(whole[1])
    content[int(position * len(content))] = byte
    read_damaged(whole, bytes(content))


def lines_of(entries: list[dict]) -> bytes:
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)


# Results of sweeps and of what is measured beside them

RESULTS: dict[str, Callable[[], dict]] = {
    "summary.json": sweep_record,
    "line_search.json": line_search_record,
    "comparison_model_size.json": comparison_record,
    "linear_rule.json": linear_rule_record,
    "adaptive_batch.json": adaptive_batch_record,
}


def write(folder: Path, name: str, text: str) -> None:
    """A folder of results in which the file `name` holds `text`, and all others are whole."""
    for other, record in RESULTS.items():
        (folder / other).write_text(json.dumps(record()))
    (folder / "fig4.svg").write_text("<svg/>")
    (folder / name).write_text(text)


def load(folder: Path, name: str):
    """All results of the folder; None if the file `name` is refused by its name."""
    try:
        return with_further_files(load_summary(folder), folder)
    except SummaryError as error:
        message = str(error)
    assert str(folder / name) in message
    assert "\n" not in message
    return None


def report(summary, folder: Path) -> str:
    """The report on these results, without figures."""
    blocks = build_report([(summary, Path("t/mini"), frozenset())], [])
    return render_markdown(blocks) + render_html(blocks, folder)


@pytest.mark.parametrize("name", RESULTS)
def test_results_cut_anywhere_are_refused(tmp_path, name):
    text = json.dumps(RESULTS[name]())
    write(tmp_path, name, text)
    assert load(tmp_path, name) is not None
    for cut in range(0, len(text), 1 + len(text) // 200):
        (tmp_path / name).write_text(text[:cut])
        assert load(tmp_path, name) is None


@pytest.mark.parametrize("name", RESULTS)
@settings(QUICK, max_examples=60)
@given(data=st.data())
def test_results_with_a_wrong_value_are_as_they_were_or_refused(tmp_path, name, data):
    record = RESULTS[name]()
    write(tmp_path, name, json.dumps(record))
    before = load(tmp_path, name)
    place = data.draw(st.sampled_from(number_places(record)))
    value = data.draw(st.sampled_from([value for value in NO_NUMBERS if value is not None]))
    (tmp_path / name).write_text(json.dumps(replaced(record, place, value)))
    after = load(tmp_path, name)
    assert after in (None, before), place  # as it was: of a field that no report shows


@pytest.mark.parametrize("name", RESULTS)
@SLOW
@given(data=st.data())
def test_whatever_is_read_is_reported(tmp_path, name, data):
    record = RESULTS[name]()
    place = data.draw(st.sampled_from(list(places(record))))
    damage = data.draw(st.sampled_from(["replaced", "missing", "doubled"]))
    holder = at(record, place[:-1])
    if damage == "replaced":
        record = replaced(record, place, data.draw(st.sampled_from([*NO_NUMBERS, *FAR_OFF, 0, 1e99, 1e-99])))
    elif damage == "missing":
        record = without(record, place)
    elif isinstance(holder, list):
        holder.append(holder[place[-1]])
    write(tmp_path, name, json.dumps(record))
    summary = load(tmp_path, name)
    if summary:
        text = report(summary, tmp_path)
        assert not re.search(r"\b(nan|inf)\b", text), place


@pytest.mark.parametrize("record", [bounded_record, quadratic_record, language_record])
@SLOW
@given(data=st.data())
def test_summaries_of_every_kind_are_reported_or_refused(tmp_path, record, data):
    content = record()
    place = data.draw(st.sampled_from(list(places(content))))
    value = data.draw(st.sampled_from([*NO_NUMBERS, *FAR_OFF, 0, 1e99, 1e-99]))
    write(tmp_path, "summary.json", json.dumps(replaced(content, place, value)))
    summary = load(tmp_path, "summary.json")
    if summary:
        assert not re.search(r"\b(nan|inf)\b", report(summary, tmp_path)), place
