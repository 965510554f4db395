"""The settings of the mirror: each bound is what something else can bear."""

from __future__ import annotations

import pytest

from mirrorfleet.core.errors import ConfigError
from mirrorfleet.kafka.frames import MAX_FRAME
from mirrorfleet.records.overview import STALE_MS
from mirrorfleet.slots.fetching import LEAST_FETCH
from services.mirror.settings import parse


def test_a_worker_is_heard_three_times_before_it_is_taken_for_gone() -> None:
    longest_s = 3.0
    assert 3 * parse({"progress_s": longest_s}).progress_s * 1000 < STALE_MS

    with pytest.raises(ConfigError, match=r"services\.mirror\.progress_s: Input should be less"):
        parse({"progress_s": longest_s + 0.1})


@pytest.mark.parametrize(
    ("key", "most"),
    [
        ("fetch_max_bytes", 256 << 20),
        ("partition_fetch_bytes", 256 << 20),
        ("request_bytes", 64 << 20),
    ],
)
def test_a_request_and_its_answer_have_no_size_that_a_side_cannot_take(key: str, most: int) -> None:
    assert getattr(parse({key: most}), key) == most

    with pytest.raises(ConfigError, match=rf"services\.mirror\.{key}: Input should be less"):
        parse({key: most + 1})


def test_a_budget_is_a_finite_number() -> None:
    with pytest.raises(ConfigError, match="markers_per_second: Input should be a finite number"):
        parse({"markers_per_second": float("inf")})


def test_an_answer_of_the_largest_fetch_is_a_frame_with_a_large_batch_over_it() -> None:
    assert parse({"fetch_max_bytes": 256 << 20}).fetch_max_bytes + (32 << 20) < MAX_FRAME


@pytest.mark.parametrize(
    ("tuning", "said"),
    [
        (
            {"fetch_max_bytes": LEAST_FETCH - 1},
            r"services\.mirror\.fetch_max_bytes: Input should be greater than or equal to 262144",
        ),
        (
            {"commit_shortest_ms": 2_000},
            r"services\.mirror: commit_longest_ms \(1000\) must be at least commit_shortest_ms",
        ),
        (
            {"commit_longest_ms": -5},
            r"services\.mirror: commit_longest_ms \(-5\) must be at least commit_shortest_ms",
        ),
        (
            {"keep_alive_s": 1e9},
            r"services\.mirror\.keep_alive_s: Input should be less than or equal to 259200",
        ),
    ],
)
def test_a_setting_that_would_count_for_something_else_is_refused(
    tuning: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        parse(tuning)


def test_bounds_that_are_right_are_taken() -> None:
    parse({"fetch_max_bytes": LEAST_FETCH, "keep_alive_s": 3 * 86_400})
    parse({"commit_shortest_ms": 5_000, "commit_longest_ms": 5_000})
