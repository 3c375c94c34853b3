"""The rules for verdicts, at their thresholds, and what a sweep's record makes of them."""

import math

import pytest
from synthetic import bounded_record, quadratic_record, sweep_record

from reproduce.report.claims import (
    CLAIMS,
    CONTRADICTS,
    HOLDS,
    HOLDS_LOOSELY,
    NOT_SHOWN,
    fit_verdict,
    growth_verdict,
    learning_rate_verdict,
    noise_ratio_verdict,
    prediction_verdict,
)
from reproduce.report.reading import parse_summary
from reproduce.report.summaries import Estimate


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


def findings(record: dict) -> dict[int, list]:
    summary = parse_summary(record)
    result: dict[int, list] = {}
    for claim in CLAIMS:
        if claim.judge:
            result.setdefault(claim.number, []).append(claim.judge(summary))
    return result


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
