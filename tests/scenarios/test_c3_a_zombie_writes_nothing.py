"""C3: a worker is frozen, is replaced, and wakes.

MirrorMaker 2: may write what it had in hand a second time, without exactly-once. Here: its epoch is
fenced, so the brokers take nothing of it, and it gets slots again only from hand to hand.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from services.local.region import DEFAULT_KAFKA, RegionSpec
from tests.faultkit.bites import abort_evidence, freeze_in_transaction
from tests.faultkit.regions import access, address
from tests.faultkit.traffic import traffic
from tests.integration.mirror.stored import stored
from tests.integration.workers.timeline import timelines
from tests.judge.verdict import Verdict
from tests.versions.kit import CALM, Fleet, wait_all_copying

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region
    from tests.conftest import Regions
    from tests.integration.workers.timeline import Taking


def epochs_grow(fleet: Fleet) -> bool:
    """Whether no epoch is seen again after a later one: it would be the zombie's."""
    for at in fleet.watched:
        epochs: dict[int, list[int]] = {}
        for batch in stored(fleet.target, at.topic, at.partition):
            epochs.setdefault(batch.producer_id, []).append(batch.producer_epoch)
        if any(found != sorted(found) for found in epochs.values()):
            return False
    return True


def takings_of(fleet: Fleet, owner: object, since_ms: int) -> list[Taking]:
    """Slots that a worker took since then."""
    found = [taking for line in timelines(fleet.target, fleet.name) for taking in line.takings]
    return [taking for taking in found if taking.owner == owner and taking.time_ms >= since_ms]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("kafka", "transactions"), [(DEFAULT_KAFKA, 2), ("3.9.1", 1)])
def test_c3_who_wakes_after_being_replaced_writes_nothing(
    east: Region, west: Region, regions: Regions, tmp_path: Path, kafka: str, transactions: int
) -> None:
    target = west if kafka == DEFAULT_KAFKA else regions(RegionSpec(name="old", kafka=kafka))[0]
    fleet = Fleet(f"c3-v{transactions}", east, target, tmp_path, topics=["orders:12"])
    with (
        fleet.sync(),
        traffic(address(east), fleet.topics, rate=CALM) as load,
        fleet.mirror("zombie") as zombie,
    ):
        wait_all_copying(zombie)
        told = zombie.status()
        opened = freeze_in_transaction(zombie, access(target), fleet.watched, deadline_s=30)
        with fleet.mirror("heir") as heir:
            wait_all_copying(heir)
            thawed_ms = int(time.time() * 1000)
            zombie.thaw()
            wait_all_copying(zombie, heir)
            load.stop()
            evidence = abort_evidence("freeze", opened, fleet.data)
            report = fleet.judged([evidence], records=CALM)

    assert (report.verdict, told["transaction_version"]) == (Verdict.PASS, transactions)
    given = takings_of(fleet, told["owner"], thawed_ms)
    assert given != []
    # one that was never released was stolen back
    assert [taking for taking in given if taking.released_ms is None] == []
    assert epochs_grow(fleet)
