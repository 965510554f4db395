"""The settings of lag."""

from __future__ import annotations

import pytest

from mirrorfleet.core.errors import ConfigError
from mirrorfleet.lagging.board import IDLE_TIMES
from mirrorfleet.records.samples import HOLDS_MS
from services.lag.settings import parse


def test_an_idle_partition_is_sampled_before_the_report_takes_it_for_unseen() -> None:
    most_s = 25
    assert parse({"sample_s": most_s}).sample_s * IDLE_TIMES * 1000 < HOLDS_MS

    with pytest.raises(ConfigError) as caught:
        parse({"sample_s": most_s + 1})
    assert "services.lag.sample_s: Input should be less than or equal to 25" in str(caught.value)
