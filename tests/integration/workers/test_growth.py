"""A hundred partitions are added to a busy topic: they are copied soon, and nobody waits for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.faultkit.hold import IS_LONG
from tests.faultkit.regions import access
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.making import Made, grow, put
from tests.integration.workers.fleet import (
    MOVE_S,
    PARTITIONS,
    STICKY,
    Workers,
    under_load,
)
from tests.judge.reading import At, ReadingError, ends_of
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region

ADDED: Final = 100
SEEN_S: Final = 10.0 if IS_LONG else 30.0


def grow_busy(fleet: Workers) -> None:
    """Add the partitions at the source, each with a record in it."""
    total = PARTITIONS + ADDED
    grow(fleet.east, fleet.topic, total)
    records = [Made(b"first of %d" % n, partition=n) for n in range(PARTITIONS, total)]
    put(fleet.east, fleet.topic, records)


@pytest.mark.timeout(600)
def test_a_hundred_partitions_added_to_a_busy_topic_are_copied_soon_and_no_other_waits(
    east: Region, west: Region, tmp_path: Path
) -> None:
    added = [At("east.grown-orders", PARTITIONS + number) for number in range(ADDED)]

    def all_copied() -> bool:
        return all(each.committed > 0 for each in ends_of(access(west), added).values())

    with under_load("grown", east, west, tmp_path) as fleet:
        fleet.start("a")
        fleet.start("b")
        fleet.wait_shared("a", "b")
        fleet.wait_current("a", "b")
        with fleet.fault(f"{ADDED} partitions added", moved_s=MOVE_S, moves=STICKY):
            began = time.monotonic()
            grow_busy(fleet)
            wait_until(
                all_copied,
                deadline_s=60,
                what="a record in each new partition's copy",
                ignoring=(ReadingError,),  # not there yet
            )
            took = time.monotonic() - began
        fleet.stop_load()
        report = fleet.judged_under_load()

    print(f"{ADDED} partitions added and copied in {took:.1f} s")
    assert (report.verdict, took < SEEN_S) == (Verdict.PASS, True)
    assert fleet.told() == []
