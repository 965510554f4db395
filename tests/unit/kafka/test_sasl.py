from __future__ import annotations

import pytest

from mirrorfleet.kafka.sasl import renewed_after


@pytest.mark.parametrize(
    ("lifetime_s", "after_s"),
    [(1.0, 0.85), (2.0, 1.5), (5.0, 2.5), (20.0, 10.0), (60.0, 50.0), (3_600.0, 3_060.0)],
)
def test_a_session_is_renewed_in_time_for_what_is_in_flight_also_when_it_is_short(
    lifetime_s: float, after_s: float
) -> None:
    assert renewed_after(lifetime_s) == pytest.approx(after_s)
