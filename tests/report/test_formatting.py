"""How numbers read."""

import pytest

from reproduce.published import AtLeast, Range
from reproduce.report import formatting
from reproduce.report.estimates import Estimate
from reproduce.report.ratios import Ratio


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not measured"),
        (0, "0"),
        (0.0427, "0.0427"),
        (0.00001234, "1.23e-05"),
        (1, "1"),
        (21.34, "21.3"),
        (99.96, "100"),
        (149.6, "150"),
        (15_000, "15,000"),
        (8_123_456, "8,120,000"),
        (2.5e12, "2.50e+12"),
    ],
)
def test_number_has_three_significant_digits(value, text):
    assert formatting.number(value) == text


def test_count_keeps_every_digit():
    assert formatting.count(4_096) == "4,096"
    assert formatting.count(None) == "not measured"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Estimate(21.0, 18.0, 25.0), "21 [18, 25]"),
        (Estimate(21.0), "21"),
        (Estimate(21.0, 18.0), "21 [18, no limit]"),
        (Estimate(low=300.0), "at least 300"),
        (Estimate(high=5.0), "at most 5"),
        (Estimate(low=5.0, high=300.0), "between 5 and 300"),
        (Estimate(), "not measured"),
    ],
)
def test_estimate(value, text):
    assert formatting.estimate(value) == text


def test_published_values():
    assert formatting.published_value(Range(400, 8_000)) == "400 to 8,000"
    assert formatting.published_value(AtLeast(8_000_000)) == "at least 8,000,000"
    assert formatting.published_value(15_000) == "15,000"
    assert formatting.published_value(None) == "not measured"


def test_ratios_with_their_logs():
    assert (formatting.ratio(Ratio(0.375)), formatting.log10_ratio(Ratio(0.375))) == ("0.375", "-0.43")
    bound = Ratio(2.0, "at least")
    assert (formatting.ratio(bound), formatting.log10_ratio(bound)) == ("at least 2", "at least +0.30")
    assert (formatting.ratio(None), formatting.log10_ratio(None)) == ("-", "-")
    assert formatting.log10_ratio(Ratio(None, "inside the range")) == "-"


def test_percent_off_and_duration():
    assert formatting.percent_off(102.0, 100.0) == "+2.0 %"
    assert formatting.percent_off(None, 100.0) == "-"
    assert [formatting.duration(s) for s in (90, 1_260, 9_000)] == ["90 s", "21 min", "2.5 h"]
