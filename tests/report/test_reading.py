"""summary.json, checked: what is wrong is named, with the file, the field and the remedy."""

import json

import pytest
from synthetic import (
    bounded_record,
    comparison_record,
    language_record,
    line_search_record,
    sweep_record,
    write_line_search,
    write_sweep,
)

from reproduce.report.estimates import Estimate
from reproduce.report.fields import FieldError
from reproduce.report.reading import (
    SummaryError,
    load_line_search,
    load_summary,
    parse_comparison,
    parse_line_search,
    parse_summary,
)


def test_a_record_becomes_values():
    summary = parse_summary(sweep_record())
    assert summary.b_crit.run == Estimate(75, 75 / 1.1, 75 * 1.1)
    assert (summary.goals[0].goal, summary.goals[-1].goal) == (0.5, 0.04)
    assert summary.sweep.seeds == 3
    assert summary.versions == (("numpy", "2.3.5"), ("torch", "2.9.0"))


def test_bounds_and_censored_points():
    summary = parse_summary(bounded_record())
    assert summary.b_crit.run.at_least == 300
    assert summary.b_crit.start.at_most == 12
    assert [point.batch_size for point in summary.goals[-1].censored] == [1, 2]
    assert summary.goals[-1].censored[0].steps_low == 20_000


def test_nulls_and_missing_optional_fields_are_not_measured():
    record = sweep_record(b_noise=None, learning_rate_fit=None, published=None) | {"b_simple": {}}
    for name in ("machine", "date", "command", "notes", "versions", "sweep", "sweep_name"):
        del record[name]
    summary = parse_summary(record)
    assert summary.b_simple.run == Estimate()
    assert summary.notes == ()
    assert summary.sweep.runs is None


def test_a_lower_bound_of_zero_says_nothing():
    record = sweep_record()
    record["goals"][0] |= {"b_simple": None, "b_simple_low": -3.0, "b_simple_high": None}
    assert parse_summary(record).goals[0].b_simple == Estimate()


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("task",), 3, r"task should be text, but is 3"),
        (("task",), None, r"task is missing"),
        (("goals",), [], r"goals should not be empty"),
        (("goals",), {}, r"goals should be a list"),
        (("goals", 1, "b_crit"), "75", r"goals\[1\]\.b_crit should be a finite number or null, but is '75'"),
        (("goals", 1, "b_crit"), True, r"goals\[1\]\.b_crit should be a finite number"),
        (("goals", 1, "b_crit"), -2, r"goals\[1\]\.b_crit should be above 0"),
        (("goals", 0, "identified"), None, r"goals\[0\]\.identified should be true or false"),
        (("goals", 0, "points", 2, "steps"), [1], r"goals\[0\]\.points\[2\]\.steps should be a finite number"),
        (("goals", 0, "points", 2, "batch_size"), None, r"goals\[0\]\.points\[2\]\.batch_size is missing"),
        (("published", "b_crit"), [20], r"published\.b_crit should be a list of two"),
        (("published", "b_crit"), [20, "many"], r"published\.b_crit: 'many' is not a number"),
        (("data", "embedded"), "yes", r"data\.embedded should be true or false"),
        (("sweep",), 7, r"sweep should be an object"),
        (("b_crit", "run"), float("nan"), r"b_crit\.run should be a finite number"),
        (("b_crit", "run"), 10**400, r"b_crit\.run should be a finite number"),
        (("b_crit", "run"), 1e300, r"b_crit\.run should be a finite number"),
        (("b_crit", "run_low"), 1e6, r"b_crit\.run_low should be at most b_crit\.run_high"),
        (("published", "b_crit"), [20, float("inf")], r"published\.b_crit: inf is not a number"),
        (("published", "b_crit"), [20, [1, 10**400]], r"published\.b_crit: 1000.* is not a number"),
        (("published", "b_crit"), [20, {"at_least": float("inf")}], r"published\.b_crit: inf is not a number"),
        (("sweep", "runs"), -90, r"sweep\.runs should be at least 0"),
        (("goals", 1, "fit_rms"), -0.1, r"goals\[1\]\.fit_rms should be at least 0"),
        (("goals", 1, "points", 0, "seeds"), 2.5, r"goals\[1\]\.points\[0\]\.seeds should be a whole number"),
        (("goals", 1, "points", 0, "seeds"), [], r"goals\[1\]\.points\[0\]\.seeds should be a finite number"),
        (("goals", 1, "points", 0, "batch_size"), 2, r"goals\[1\]\.points should rise in batch size"),
        (("goals", 1, "goal"), 0.5, r"goals should go from easy to hard, but are \[0\.5, 0\.5"),
        (("task",), "half a pair: \ud800", r"task should be text"),
        (("notes",), ["\ud800"], r"notes should be a list of texts"),
    ],
)
def test_a_wrong_field_is_named(place, value, message):
    record = sweep_record()
    *path, last = place
    target = record
    for step in path:
        target = target[step]
    target[last] = value
    with pytest.raises(FieldError, match=message):
        parse_summary(record)


def test_an_upper_bound_that_is_not_positive_is_refused():
    record = sweep_record()
    record["goals"][0] |= {"b_crit": None, "b_crit_low": None, "b_crit_high": 0}
    with pytest.raises(FieldError, match=r"goals\[0\]\.b_crit_high should be above 0"):
        parse_summary(record)


def test_a_loss_whose_perplexity_is_no_number_is_refused():
    record = language_record()
    record["goals"][0]["goal"] = 1e4
    with pytest.raises(FieldError, match="goals in nats should be at most 100"):
        parse_summary(record)


def test_a_comparison_whose_runs_have_other_goals_is_refused():
    record = comparison_record()
    del record["runs"][1]["goals"][0]
    with pytest.raises(FieldError, match=r"runs\[1\]\.goals should be the goals of spread"):
        parse_comparison(record)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"task": "mnist", "sca', "not complete JSON"),
        ("", "not complete JSON"),
        ('{"task": 1' + 5000 * "0" + "}", "not complete JSON .*digits"),
        (100_000 * "[", "not complete JSON"),
        ("[1, 2]", "should hold a JSON object, not list"),
        ('{"task": NaN}', "holds NaN; a missing number is null"),
        (json.dumps(sweep_record(scale=5)), "scale should be text"),
    ],
)
def test_a_bad_file_is_one_line_with_its_name_and_the_remedy(tmp_path, text, message):
    folder = write_sweep(tmp_path, sweep_record())
    (folder / "summary.json").write_text(text)
    with pytest.raises(SummaryError, match=message) as error:
        load_summary(folder)
    assert str(folder / "summary.json") in str(error.value)
    assert "run its sweep again" in str(error.value)
    assert "\n" not in str(error.value)


def test_bytes_that_are_not_text(tmp_path):
    folder = write_sweep(tmp_path, sweep_record())
    (folder / "summary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SummaryError, match=r"summary\.json"):
        load_summary(folder)


def test_a_line_search_becomes_values(tmp_path):
    folder = write_sweep(tmp_path, sweep_record(), curves=False)
    assert load_line_search(folder) is None
    write_line_search(folder, line_search_record((20, 110)))
    search = load_line_search(folder)
    assert (search.batch_size, search.seed, search.from_summary) == (64, 0, True)
    point = search.points[1]
    assert point.drops.b_noise == Estimate(110, 110 / 1.15, 110 * 1.15)
    assert point.drops.limit.value == 0.2
    assert point.learning_rates.limit.value == 0.3
    assert (point.drops.rms, point.drops.rms_noise) == (0.05, 0.1)
    assert point.best_steps[3].drop.value == pytest.approx(0.2 / (1 + 110 / 8))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("run",), None, r"run is missing"),
        (("run", "batch_size"), 0, r"run\.batch_size should be above 0"),
        (("run", "from_summary"), 1, r"run\.from_summary should be true or false"),
        (("not_reached",), [0.1, "x"], r"not_reached\[1\] should be a finite number"),
        (("points", 1, "drop_law"), None, r"points\[1\]\.drop_law is missing"),
        (("points", 1, "drop_law", "b_noise"), -1, r"points\[1\]\.drop_law\.b_noise should be above 0"),
        (("points", 0, "batch_sizes", 2, "batches"), None, r"points\[0\]\.batch_sizes\[2\]\.batches is missing"),
    ],
)
def test_a_wrong_field_of_a_line_search_is_named(place, value, message):
    record = line_search_record()
    target = record
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    with pytest.raises(FieldError, match=message):
        parse_line_search(record)


def test_a_torn_line_search_is_named_with_the_remedy(tmp_path):
    (tmp_path / "line_search.json").write_text("{")
    with pytest.raises(SummaryError, match=r"line_search\.json: not complete JSON .*run its line search again"):
        load_line_search(tmp_path)
