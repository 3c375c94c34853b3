"""Table 1 as typed values, and its way through summary.json and back."""

import json

import pytest

from reproduce.published import TABLE_1, AtLeast, Range, published, value_from_json


def test_a_task_has_its_row_of_table_1():
    row = published("mnist")
    assert (row.b_crit_start, row.b_crit_average, row.b_simple_start, row.b_simple_average) == (20, 200, 50, 900)
    assert published("svhn_autoencoder").b_simple_average == 2
    assert published("billion_word").unit == "token"


@pytest.mark.parametrize("game", ["alien", "beam_rider", "breakout", "pong", "qbert", "seaquest", "space_invaders"])
def test_all_seven_games_share_the_row_of_atari(game):
    assert published(f"atari_{game}") is TABLE_1["atari"]


@pytest.mark.parametrize("task", ["noisy_quadratic", "my_task", "atari_tetris", "mnist_large", ""])
def test_a_task_that_is_not_in_the_paper_has_no_row(task):
    assert published(task) is None


def test_ranges_and_bounds_stay_what_they_are():
    assert published("atari").b_crit_average == Range(400, 8_000)
    assert published("dota_5v5").b_crit_average == AtLeast(8_000_000)
    assert published("dota_5v5").b_crit_start is None


def test_the_summary_entry_is_start_and_average():
    assert published("svhn").to_summary() == {"b_crit": [50, 500], "b_simple": [300, 4_000]}
    assert published("atari_pong").to_summary()["b_crit"] == [[100, 1_000], [400, 8_000]]
    assert published("dota_5v5").to_summary()["b_crit"] == [None, {"at_least": 8_000_000}]


@pytest.mark.parametrize("task", TABLE_1)
def test_every_row_survives_json(task):
    row = TABLE_1[task]
    entry = json.loads(json.dumps(row.to_summary()))
    assert [value_from_json(value) for value in entry["b_crit"]] == [row.b_crit_start, row.b_crit_average]
    assert [value_from_json(value) for value in entry["b_simple"]] == [row.b_simple_start, row.b_simple_average]


@pytest.mark.parametrize("value", ["20", True, -1, 0, [1], [2, 1], [1, 2, 3], {"at_most": 3}, {"at_least": "x"}])
def test_anything_else_is_refused(value):
    with pytest.raises(ValueError, match="is not a number"):
        value_from_json(value)
