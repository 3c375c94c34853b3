"""The tables of one sweep."""

import re

from synthetic import bounded_record, quadratic_record, sweep_record

from reproduce.report import format_table
from reproduce.report.goal_tables import exact_rows, goal_rows, point_rows, published_rows
from reproduce.report.reading import parse_summary


def cells(line: str) -> list[str]:
    return re.split(r" {2,}", line)


def test_goals_with_intervals_in_the_terminal():
    lines = format_table(sweep_record()).splitlines()
    hardest = next(line for line in lines if line.startswith("train error 0.04"))
    assert cells(hardest) == [
        "train error 0.04",
        "75 [68.2, 82.5]",
        "200",
        "15,000",
        "800 [696, 920]",
        "not measured",
        "0.06",
        "10",
    ]


def test_published_values_stand_beneath_with_the_ratio():
    lines = format_table(sweep_record()).splitlines()
    run = next(line for line in lines if line.startswith("B_crit, run"))
    assert cells(run) == ["B_crit, run", "75 [68.2, 82.5]", "200", "0.375", "-0.43"]
    assert next(i for i, line in enumerate(lines) if line == run) > next(
        i for i, line in enumerate(lines) if line.startswith("train error 0.04")
    )


def test_a_record_and_its_summary_give_the_same_table():
    assert format_table(sweep_record()) == format_table(parse_summary(sweep_record()))


def test_stand_in_data_is_said_to_be_such():
    assert "(embedded data)" in format_table(sweep_record())
    assert "stand-in" not in format_table(quadratic_record())


def test_bounds_reasons_and_notes():
    table = format_table(bounded_record())
    assert "at least 300" in table
    assert "at most 12" in table
    assert "train error 0.04: all batch sizes lie below B_crit" in table
    assert "note: Two batch sizes never reached" in table
    assert "8 of 10" in table
    assert "nan" not in table.lower()
    assert "None" not in table


def test_exact_values_with_the_difference_in_percent():
    first = exact_rows(parse_summary(quadratic_record()))[0]
    assert first == (
        "loss 0.3",
        *("29.4", "+2.0 %"),  # B_crit
        *("15", "+0.0 %"),  # S_min
        *("441", "+2.0 %"),  # E_min
        *("30", "+0.0 %"),  # B_simple
        *("14.3", "+5.0 %"),  # B_noise
    )
    assert "closed form" in format_table(quadratic_record())
    assert "closed form" not in format_table(sweep_record())


def test_an_exact_value_without_a_measurement_has_no_difference():
    record = quadratic_record()
    record["goals"][0] |= {"b_noise": None, "b_noise_low": None, "b_noise_high": None}
    assert exact_rows(parse_summary(record))[0][-2:] == ("14.3", "-")


def test_a_task_outside_the_paper_says_so():
    rows = published_rows(parse_summary(sweep_record("my_task")))
    assert {row[2] for row in rows[:4]} == {"not in the paper"}
    assert {row[3] for row in rows} == {"-"}


def test_a_published_range_and_a_published_bound():
    atari = published_rows(parse_summary(sweep_record("atari_pong", b_crit=(50, 900))))
    assert atari[0][2:] == ("100 to 1,000", "0.5", "-0.30")
    assert atari[1][2:] == ("400 to 8,000", "inside the range", "-")
    dota = published_rows(parse_summary(sweep_record("dota_5v5")))
    assert dota[0][2:] == ("not measured", "-", "-")
    assert dota[1][2] == "at least 8,000,000"


def test_a_censored_point_says_how_far_its_runs_went():
    rows = {row[:2]: row for row in point_rows(parse_summary(bounded_record()))}
    assert rows["train error 0.04", "1"][3:6] == ("more than 20,000", "-", "-")
    assert rows["train error 0.5", "512"][6] == "3"


def test_one_row_for_each_goal():
    assert len(goal_rows(parse_summary(sweep_record()))) == 6
