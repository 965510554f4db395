"""Numbers as people read them."""

from __future__ import annotations

import pytest

from mirrorfleet.views.format import count, moment, pairs, plural, short, size, span


def test_what_is_not_known_is_never_a_number() -> None:
    assert {count(None), short(None), size(None), span(None), moment(None)} == {"unknown"}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (2.25, "2.2"), (431.4, "431"), (9_999, "9,999"), (12_345, "12.3k"), (2e8, "200M")],
)
def test_a_short_number_has_three_digits(value: float, text: str) -> None:
    assert short(value) == text


def test_sizes_times_and_counts() -> None:
    assert (size(999), size(1_234_567), size(0)) == ("999 B", "1.2 MB", "0 B")
    assert (span(850), span(1_400), span(192_000)) == ("850ms", "1.4s", "3m12s")
    assert (count(1_234_567), plural(1, "topic"), plural(2, "stretch", "stretches")) == (
        "1,234,567",
        "1 topic",
        "2 stretches",
    )
    assert moment(1_700_000_000_000) == "2023-11-14 22:13:20"
    assert moment(10**20) == f"{10**20} ms"


def test_of_a_report_times_are_moments_lengths_stay_and_what_is_null_is_left_out() -> None:
    fields = {
        "time_ms": 1_700_000_000_000,
        "window_start_ms": 0,
        "window_end_ms": 3_600_000,
        "worst_lag_ms": 61_000,
        "time_lag_ms": 5,
        "first": 0,
        "end": None,
        "freshness": 0.5,
        "settled": True,
        "start_ms": "of a newer build",
    }

    assert pairs(fields) == [
        ("time", "2023-11-14 22:13:20"),
        ("window_start", "1970-01-01 00:00:00"),
        ("window_end", "1970-01-01 01:00:00"),
        ("worst_lag_ms", "61000"),
        ("time_lag_ms", "5"),
        ("first", "0"),
        ("freshness", "0.5"),
        ("settled", "yes"),
        ("start_ms", "of a newer build"),
    ]
    assert pairs({"settled": False, "time_ms": None}) == [("settled", "no")]
