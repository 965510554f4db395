"""The settings of lag."""

from __future__ import annotations

import pytest

from mirrorfleet.core.errors import ConfigError
from mirrorfleet.lagging.board import IDLE_TIMES
from mirrorfleet.records.samples import HOLDS_MS
from services.lag.settings import parse


@pytest.mark.parametrize("key", ["allowed_s", "stuck_s", "silent_s", "idle_s", "held_s"])
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_time_is_a_finite_number(key: str, value: float) -> None:
    with pytest.raises(
        ConfigError, match=rf"services\.lag\.{key}: Input should be a finite number"
    ):
        parse({key: value})


def test_an_idle_partition_is_sampled_before_the_report_takes_it_for_unseen() -> None:
    most_s = 25
    assert parse({"sample_s": most_s}).sample_s * IDLE_TIMES * 1000 < HOLDS_MS

    with pytest.raises(ConfigError) as caught:
        parse({"sample_s": most_s + 1})
    assert "services.lag.sample_s: Input should be less than or equal to 25" in str(caught.value)


def test_a_healthy_source_is_looked_at_three_times_before_it_counts_as_unseen() -> None:
    with pytest.raises(ConfigError) as caught:
        parse({"ends_s": 60})
    assert "services.lag: unseen_s (15) must be at least 3 times ends_s (60)" in str(caught.value)

    assert parse({"ends_s": 60, "unseen_s": 180}).limits.unseen_ms == 180_000
    assert parse({"ends_s": 1.1, "unseen_s": 3.3}).limits.unseen_ms == 3_300  # as decimals are


def test_the_slowest_healthy_worker_is_not_silent() -> None:
    least_s, slowest_report_s = 4, 3  # services.mirror.progress_s is at most that
    assert parse({"silent_s": least_s}).silent_s > slowest_report_s

    with pytest.raises(ConfigError, match=r"services\.lag\.silent_s: Input should be greater"):
        parse({"silent_s": slowest_report_s})
