"""Several brokers of the target that add partitions to one transaction at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from services.local.region import RegionSpec
from tests.faultkit.far import far_pair
from tests.faultkit.hold import hold_sync
from tests.faults.regions.drill import RATE, SECONDS, drill
from tests.judge.render import render
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

REFUSED: Final = "CONCURRENT_TRANSACTIONS"
IMPATIENT: Final = {"add.partitions.to.txn.retry.backoff.max.ms": "0"}
"""A broker asks the coordinator once, and what that refuses is ours to send again; by default it
asks again for 0.1 s, which is too short only where the coordinator is slow."""
PARTITIONS: Final = 120


def test_brokers_that_add_partitions_at_the_same_time_abort_nothing(tmp_path: Path) -> None:
    sides = [RegionSpec(name="east"), RegionSpec(name="west", brokers=3, extra=IMPATIENT)]
    with (
        far_pair(*sides) as pair,
        drill("adding", pair, tmp_path, topics=[f"adding-orders:{PARTITIONS}"], gated=False) as it,
    ):
        it.start_load(RATE)
        hold_sync(SECONDS, reason="there is much to copy: partitions come into transactions later")
        mirror = it.mirror()
        it.wait_current(mirror)
        report = it.judged()
        refused = [line for line in mirror.text().splitlines() if REFUSED in line]

    assert report.verdict is Verdict.PASS, render(report)
    assert refused == []
