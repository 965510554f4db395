"""The settings of the mirror: each bound is what something else can bear."""

from __future__ import annotations

import pytest

from mirrorfleet.core.errors import ConfigError
from mirrorfleet.records.overview import STALE_MS
from services.mirror.settings import parse


def test_a_worker_is_heard_three_times_before_it_is_taken_for_gone() -> None:
    longest_s = 3.0
    assert 3 * parse({"progress_s": longest_s}).progress_s * 1000 < STALE_MS

    with pytest.raises(ConfigError, match=r"services\.mirror\.progress_s: Input should be less"):
        parse({"progress_s": longest_s + 0.1})


@pytest.mark.parametrize(
    ("key", "most"),
    [
        ("fetch_max_bytes", 1 << 30),
        ("partition_fetch_bytes", 1 << 30),
        ("request_bytes", 64 << 20),
    ],
)
def test_a_request_has_no_number_that_kafka_cannot_take(key: str, most: int) -> None:
    assert getattr(parse({key: most}), key) == most

    with pytest.raises(ConfigError, match=rf"services\.mirror\.{key}: Input should be less"):
        parse({key: most + 1})


def test_a_budget_is_a_finite_number() -> None:
    with pytest.raises(ConfigError, match="markers_per_second: Input should be a finite number"):
        parse({"markers_per_second": float("inf")})
