"""What a process holds may go up and down with each fault, and must not go up for hours."""

from __future__ import annotations

import pytest

from tests.faults.regions.trend import HOUR_S, LEAST_SAMPLES, Holding, Trend

WARM_S = 600.0
END_S = WARM_S + 1.5 * HOUR_S
EVERY_S = 20


def trend(*, rss: float = 0.0, descriptors: float = 0.0, tasks: float = 0.0) -> Trend:
    """Samples of a process that grows by so much an hour, and swings with each fault."""
    made = Trend("a")
    for at in range(0, int(END_S), EVERY_S):
        hours, swing = at / HOUR_S, 12 if at // EVERY_S % 2 else -12
        made.samples.append(
            Holding(
                at,
                100 + 400 * min(at / WARM_S, 1.0) + rss * hours + swing,
                int(50 + descriptors * hours + swing),
                int(45 + tasks * hours + swing),
            )
        )
    return made


def test_what_swings_or_grew_while_it_got_warm_does_not_leak() -> None:
    assert trend(rss=20, descriptors=10, tasks=10).growth(WARM_S, END_S) == []


@pytest.mark.parametrize(
    ("leak", "what"),
    [
        ({"rss": 40}, "rss_mb"),
        ({"descriptors": 40}, "descriptors"),
        ({"tasks": 40}, "tasks"),
    ],
)
def test_what_grows_for_hours_leaks(leak: dict[str, float], what: str) -> None:
    (told,) = trend(**leak).growth(WARM_S, END_S)
    assert told.startswith(f"a: {what} +")
    assert told.endswith("/h at most")


def test_a_run_that_is_too_short_tells_nothing() -> None:
    assert trend(rss=400).growth(WARM_S, WARM_S + HOUR_S - 1) == []


def test_a_long_run_without_samples_is_no_proof() -> None:
    made = trend()
    del made.samples[LEAST_SAMPLES - 1 :]
    assert made.growth(0.0, END_S) == [f"a: {LEAST_SAMPLES - 1} samples in an hour, 10 wanted"]
