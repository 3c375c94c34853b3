"""The rules for verdicts, at their thresholds, and what a sweep's record makes of them."""

import math
from dataclasses import replace

import pytest
from synthetic import bounded_line_search, bounded_record, line_search_record, quadratic_record, sweep_record

from reproduce.report.claims import CLAIMS
from reproduce.report.estimates import Estimate
from reproduce.report.reading import parse_line_search, parse_summary
from reproduce.report.verdicts import (
    CONTRADICTS,
    HOLDS,
    HOLDS_LOOSELY,
    NOT_SHOWN,
    LawCheck,
    above_all_verdict,
    below_verdict,
    fit_verdict,
    growth_verdict,
    learning_rate_verdict,
    line_search_verdict,
    noise_ratio_verdict,
    prediction_verdict,
)


def around(value: float, factor: float = 1.1) -> Estimate:
    return Estimate(value, value / factor, value * factor)


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([], NOT_SHOWN),
        ([2, 2, 2], HOLDS),
        ([1, 3], HOLDS),
        ([1, 3.01], HOLDS_LOOSELY),
        ([10, 4], HOLDS),
        ([10.1, 4], CONTRADICTS),
        ([0.099, 0.2], CONTRADICTS),
    ],
)
def test_claim_2_ratio_of_the_noise_scales(ratios, verdict):
    assert noise_ratio_verdict(ratios) == verdict


@pytest.mark.parametrize(
    ("rms", "verdict"),
    [
        ([], NOT_SHOWN),
        ([0.05, 0.199], HOLDS),
        ([0.05, 0.1, 0.2], HOLDS_LOOSELY),
        ([0.05, 0.2, 0.3], CONTRADICTS),
    ],
)
def test_claim_3_rms_of_the_fits(rms, verdict):
    assert fit_verdict(rms) == verdict


@pytest.mark.parametrize(
    ("b_crit", "b_simple", "verdict"),
    [
        (around(100), around(1_000), HOLDS),
        (around(100), around(1_001), CONTRADICTS),
        (around(100), around(10), HOLDS),
        (around(100), around(9.9), CONTRADICTS),
        (Estimate(low=100), around(100), NOT_SHOWN),
        (around(100), Estimate(), NOT_SHOWN),
    ],
)
def test_claim_4_prediction_within_a_decade(b_crit, b_simple, verdict):
    assert prediction_verdict(b_crit, b_simple) == verdict


@pytest.mark.parametrize(
    ("first", "last", "verdict"),
    [
        (around(20), around(200), HOLDS),
        (around(20), around(199), HOLDS_LOOSELY),
        (around(20), around(40), NOT_SHOWN),
        (around(20), around(40.1), HOLDS_LOOSELY),
        (around(20, 4), around(200, 4), NOT_SHOWN),  # tenfold, but the intervals overlap
        (around(20, 3), around(200, 3), HOLDS),
        (around(20), around(20), NOT_SHOWN),
        (around(20), around(15), CONTRADICTS),
        (around(20, 1.5), around(15, 1.5), NOT_SHOWN),
        (Estimate(20.0), Estimate(200.0), NOT_SHOWN),  # without intervals nothing is significant
        (Estimate(high=10.0), Estimate(low=100.0), HOLDS),
        (Estimate(high=10.0), around(50), HOLDS_LOOSELY),
        (Estimate(low=10.0), around(500), NOT_SHOWN),
        (around(10), Estimate(high=500.0), NOT_SHOWN),
        (Estimate(), around(500), NOT_SHOWN),
    ],
)
def test_claim_5_growth(first, last, verdict):
    assert growth_verdict(first, last) == verdict


@pytest.mark.parametrize(
    ("rms", "alpha", "verdict"),
    [
        (math.log(1.49), 1.0, HOLDS),
        (math.log(1.51), 1.0, HOLDS_LOOSELY),
        (math.log(2.01), 1.0, CONTRADICTS),
        (0.0, 0.74, CONTRADICTS),
        (0.0, 0.75, HOLDS),
        (None, 1.0, NOT_SHOWN),
    ],
)
def test_claim_7_learning_rate(rms, alpha, verdict):
    assert learning_rate_verdict(rms, alpha, (0.75, 1.25)) == verdict


@pytest.mark.parametrize(
    ("checks", "verdict"),
    [
        ([], NOT_SHOWN),
        ([LawCheck(0.1, 0.2, 2.0), LawCheck(0.199, 0.1, 0.5)], HOLDS),
        ([LawCheck(0.1, 0.2, 2.01)], HOLDS_LOOSELY),
        ([LawCheck(0.1, 0.2, 0.49)], HOLDS_LOOSELY),
        ([LawCheck(0.1, 0.2, 10.1)], CONTRADICTS),
        ([LawCheck(0.1, 0.2, 0.09)], CONTRADICTS),
        ([LawCheck(0.2, 0.19, 1.0)], CONTRADICTS),
        ([LawCheck(0.2, None, 1.0)], CONTRADICTS),
        ([LawCheck(0.2, 0.2, 1.0)], NOT_SHOWN),  # no further off than noise would be
        ([LawCheck(0.2, 0.2, 30.0), LawCheck(0.1, 0.2, 1.0)], HOLDS),
        ([LawCheck(0.3, 0.1, 1.0), LawCheck(0.1, 0.2, 1.0), LawCheck(0.1, 0.2, 1.0)], HOLDS_LOOSELY),
        ([LawCheck(0.1, 0.2, None)], NOT_SHOWN),  # nothing to hold the fitted B_noise against
    ],
)
def test_claim_1_laws_of_the_line_search(checks, verdict):
    assert line_search_verdict(checks) == verdict


@pytest.mark.parametrize(
    ("lower", "upper", "verdict"),
    [
        (around(10), around(12.2), HOLDS),
        (around(10), around(12), NOT_SHOWN),
        (around(12.2), around(10), CONTRADICTS),
        (around(12), around(10), NOT_SHOWN),
        (Estimate(high=9.0), around(10), HOLDS),
        (Estimate(low=9.0), around(10), NOT_SHOWN),
        (around(10), Estimate(low=12.0), HOLDS),
        (Estimate(low=12.0), around(10), CONTRADICTS),
        (Estimate(10.0), Estimate(100.0), NOT_SHOWN),  # without intervals nothing is significant
        (Estimate(), around(10), NOT_SHOWN),
    ],
)
def test_claim_8_one_below_the_other(lower, upper, verdict):
    assert below_verdict(lower, upper) == verdict


def findings(*records: dict, line_search: dict | None = None) -> dict[int, list]:
    """The findings for each claim; `line_search` goes with all records."""
    search = parse_line_search(line_search) if line_search else None
    summaries = [replace(parse_summary(record), line_search=search) for record in records]
    result: dict[int, list] = {}
    for claim in CLAIMS:
        result.setdefault(claim.number, []).extend(it.finding for it in claim.judge(summaries))
    return result


def judged(number: int, *records: dict) -> list[tuple[str, str, str, str]]:
    summaries = [parse_summary(record) for record in records]
    judges = [claim.judge for claim in CLAIMS if claim.number == number]
    judgements = [it for judge in judges for it in judge(summaries)]
    return [(it.task, it.scale, it.finding.measurement, it.finding.verdict) for it in judgements]


def test_claim_1_is_judged_from_the_line_search():
    (finding,) = findings(sweep_record(), line_search=line_search_record())[1]
    assert finding.verdict == HOLDS
    assert "worst 0.05" in finding.measurement
    assert "0.833 to 0.833" in finding.measurement  # 1 / 1.2
    assert findings(sweep_record())[1][0].verdict == NOT_SHOWN
    far = line_search_record(hessian=3)
    assert findings(sweep_record(), line_search=far)[1][0].verdict == HOLDS_LOOSELY


def test_claim_1_counts_what_noise_drowned():
    drowned = line_search_record()
    for point in drowned["points"]:
        point["drop_law"] |= {"rms": 0.4, "rms_noise": 0.5}
    (finding,) = findings(sweep_record(), line_search=drowned)[1]
    assert (finding.verdict, "2 of 4 laws drowned in noise" in finding.measurement) == (HOLDS, True)
    wrong = line_search_record()
    for point in wrong["points"]:
        point["drop_law"] |= {"rms": 0.5, "rms_noise": 0.1}
        point["learning_rate_law"] |= {"rms": 0.5, "rms_noise": 0.1}
    assert findings(sweep_record(), line_search=wrong)[1][0].verdict == CONTRADICTS


def test_claim_1_uses_the_points_with_a_number():
    (finding,) = findings(sweep_record(), line_search=bounded_line_search())[1]
    assert (finding.verdict, "0.833 to 0.833" in finding.measurement) == (HOLDS, True)


def test_claim_8_sets_each_generative_model_beside_the_classifier_of_its_scale():
    svhn = sweep_record("svhn", b_crit=(50, 400), b_simple_run=3_000)
    autoencoder = sweep_record("svhn_autoencoder", b_crit=(5, 40), b_simple_run=30)
    vae = sweep_record("svhn_vae", b_crit=(50, 420), b_simple_run=4_000)
    paper = sweep_record("svhn", "paper", b_crit=(50, 1), b_simple_run=1)  # of another scale: never beside
    found = judged(8, autoencoder, svhn, vae, paper)
    assert [(task, scale, verdict) for task, scale, _, verdict in found] == [
        ("svhn_autoencoder / svhn", "mini", HOLDS),
        ("svhn_autoencoder / svhn", "mini", HOLDS),
        ("svhn_vae / svhn", "mini", CONTRADICTS),
        ("svhn_vae / svhn", "mini", NOT_SHOWN),
        *[("svhn_autoencoder / svhn", "paper", NOT_SHOWN)] * 2,
        *[("svhn_vae / svhn", "paper", NOT_SHOWN)] * 2,
    ]
    measurements = [measurement for _, _, measurement, _ in found]
    assert measurements[:5] == [
        "B_simple 30 [27.3, 33] against 3,000 [2,730, 3,300]: ratio 0.01 [0.00826, 0.0121]",
        "B_crit 40 [36.4, 44] against 400 [364, 440]: ratio 0.1 [0.0826, 0.121]",
        "B_simple 4,000 [3,640, 4,400] against 3,000 [2,730, 3,300]: ratio 1.33 [1.1, 1.61]",
        "B_crit 420 [382, 462] against 400 [364, 440]: ratio 1.05 [0.868, 1.27]",
        "B_simple not measured against 1 [0.909, 1.1]",
    ]


def test_claim_8_says_nothing_without_its_tasks_and_takes_bounds_for_what_they_are():
    assert judged(8, sweep_record(), quadratic_record()) == []
    autoencoder = sweep_record("svhn_autoencoder", b_crit=(5, 40), b_simple_run=30)
    simple, crit, *_ = judged(8, autoencoder, bounded_record())  # its B_crit is at least 300
    assert (simple[3], crit[3]) == (HOLDS, HOLDS)
    assert "against at least 300: ratio at most 0.147" in crit[2]


def test_a_sweep_is_judged_on_its_own_numbers():
    found = findings(sweep_record())
    assert found[2][0].verdict == NOT_SHOWN
    assert (found[3][0].verdict, "worst 0.06" in found[3][0].measurement) == (HOLDS, True)
    assert (found[4][0].verdict, "4.13" in found[4][0].measurement) == (HOLDS, True)  # 310 / 75
    assert (found[5][0].verdict, "x 3.75" in found[5][0].measurement) == (HOLDS_LOOSELY, True)  # 75 / 20
    assert (found[5][1].verdict, "x 16" in found[5][1].measurement) == (HOLDS, True)  # 800 / 50
    assert found[7][0].verdict == HOLDS


def test_bounds_are_reported_as_bounds():
    found = findings(bounded_record())
    assert "over 4 of 6 goals" in found[3][0].measurement
    assert (found[4][0].verdict, "at least 300" in found[4][0].measurement) == (NOT_SHOWN, True)
    assert (found[5][0].verdict, "at least x 25" in found[5][0].measurement) == (HOLDS, True)  # 300 / 12
    assert found[5][1].verdict == NOT_SHOWN
    assert found[7][0].verdict == NOT_SHOWN


def test_both_noise_scales_measured():
    (finding,) = findings(quadratic_record())[2]
    assert (finding.verdict, "2 to 2 over 4 of 4" in finding.measurement) == (HOLDS, True)


def test_two_batch_sizes_say_nothing_about_the_law():
    (finding,) = findings(sweep_record(batch_sizes=(8, 64)))[3]
    assert finding.verdict == NOT_SHOWN


def test_the_claim_on_learning_rates_knows_its_optimisers():
    adam = {"eps": 0.4, "knee": 30.0, "alpha": 0.6}
    assert findings(sweep_record(optimizer="Adam", learning_rate_fit=adam))[7][0].verdict != NOT_SHOWN
    assert findings(sweep_record(optimizer="Muon"))[7][0].verdict == NOT_SHOWN


def test_every_claim_has_a_rule_or_a_reason():
    assert sorted({claim.number for claim in CLAIMS}) == list(range(1, 11))
    assert all(claim.rule for claim in CLAIMS)


@pytest.mark.parametrize(
    ("others", "verdict"),
    [
        ([], NOT_SHOWN),
        ([10, 20, 80], HOLDS),
        ([10, 20, 95], HOLDS_LOOSELY),  # the last one's interval overlaps
        ([10, 20, 300], HOLDS_LOOSELY),
        ([10, 300], NOT_SHOWN),
        ([10, 200, 300], NOT_SHOWN),
        ([200, 300], CONTRADICTS),
        ([95, 300], NOT_SHOWN),
    ],
)
def test_claim_8_one_number_above_several(others, verdict):
    assert above_all_verdict(around(100), [around(other) for other in others]) == verdict


def test_claim_8_sets_each_game_beside_all_classifiers_of_its_scale():
    classifiers = [
        sweep_record("mnist", b_crit=(5, 100), b_simple_run=200),
        sweep_record("cifar10", b_crit=(5, 400), b_simple_run=300),
        sweep_record("imagenet", "paper", b_crit=(5, 1e6), b_simple_run=1e6),  # of another scale: never beside
    ]
    vae = sweep_record("svhn_vae", b_crit=(5, 9_000), b_simple_run=9_000)  # not a classifier
    dota = sweep_record("dota_1v1", b_crit=(100, 250), b_simple_run=5_000)
    found = [row for row in judged(8, *classifiers, vae, dota) if row[0] == "dota_1v1"]
    assert [row[2:] for row in found] == [
        ("B_simple 5,000 [4,550, 5,500] against mnist 200 [182, 220], cifar10 300 [273, 330]", HOLDS),
        ("B_crit 250 [227, 275] against mnist 100 [90.9, 110], cifar10 400 [364, 440]", NOT_SHOWN),
    ]


def test_claim_8_takes_a_bound_of_a_game_for_what_it_is_and_says_nothing_without_classifiers():
    game = bounded_record() | {"task": "atari_pong", "unit": "frame"}  # its B_crit is at least 300
    mnist = sweep_record("mnist", b_crit=(5, 200), b_simple_run=30)
    alone = judged(8, game)
    assert [row[3] for row in alone] == [NOT_SHOWN, NOT_SHOWN]
    assert "no classifier of this scale" in alone[0][2]
    assert [row[3] for row in judged(8, game, mnist) if row[0] == "atari_pong"][1] == HOLDS
