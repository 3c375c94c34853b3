"""The soak of `make soak`, with a few kills."""

import pytest
from soak import soak


@pytest.mark.slow
def test_killed_sweeps_lose_and_double_nothing(tmp_path):
    assert soak(tmp_path, kills=3, ranks=1, seed=5) == 3
