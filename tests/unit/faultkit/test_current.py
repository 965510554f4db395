"""A worker that knows nothing yet is neither current nor calm."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from tests.faultkit.calm import since_progress
from tests.faults.regions.drill import is_current

if TYPE_CHECKING:
    from tests.faultkit.process import ServiceProcess


def worker(text: str = "", *slots: tuple[int, int]) -> ServiceProcess:
    """Its metrics, and of each slot how many records wait and of how many partitions none knows."""
    told = [{"lag_records": waiting, "lag_unknown": unknown} for waiting, unknown in slots]
    made = SimpleNamespace(status=lambda: {"slots": told}, get=lambda _: SimpleNamespace(text=text))
    return cast("ServiceProcess", made)


@pytest.mark.parametrize(
    ("slots", "current"),
    [([], False), ([(0, 1)], False), ([(5, 0), (4, 0)], True), ([(5, 0), (5, 0)], False)],
    ids=["no slot yet", "not asked yet", "little waits", "too much waits"],
)
def test_current_is_who_knows_that_little_waits(
    slots: list[tuple[int, int]], *, current: bool
) -> None:
    assert is_current(worker("", *slots), 10) is current


def test_calm_is_who_has_slots_that_go_on() -> None:
    line = 'mirrorfleet_seconds_since_progress{link="e->w",slot="%d"} %s\n'
    assert since_progress(worker("")) == inf
    assert since_progress(worker(line % (1, "0.5") + line % (2, "2.5"))) == 2.5
