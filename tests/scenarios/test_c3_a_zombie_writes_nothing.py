"""C3: a worker is frozen, is replaced, and wakes.

MirrorMaker 2: may write what it had in hand a second time, without exactly-once. Here: its epoch is
fenced, so the brokers take nothing of it, and it gets slots again only from hand to hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faultkit.bites import abort_evidence, freeze_in_transaction
from tests.faultkit.regions import access, address
from tests.faultkit.traffic import traffic
from tests.integration.mirror.stored import stored
from tests.judge.verdict import Verdict
from tests.versions.kit import CALM, Fleet, wait_shared

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region


@pytest.mark.timeout(300)
def test_c3_who_wakes_after_being_replaced_writes_nothing(
    east: Region, west: Region, tmp_path: Path
) -> None:
    fleet = Fleet("c3", east, west, tmp_path, topics=["orders:12"])
    with (
        fleet.sync(),
        traffic(address(east), fleet.topics, rate=CALM) as load,
        fleet.mirror("zombie") as zombie,
    ):
        wait_shared(zombie)
        opened = freeze_in_transaction(zombie, access(west), fleet.watched, deadline_s=30)
        with fleet.mirror("heir") as heir:
            wait_shared(heir)
            zombie.thaw()
            wait_shared(zombie, heir)
            load.stop()
            evidence = abort_evidence("freeze", opened, fleet.data)
            report = fleet.judged([evidence], records=CALM)

    assert report.verdict is Verdict.PASS
    for at in fleet.watched:
        epochs: dict[int, list[int]] = {}
        for batch in stored(west, at.topic, at.partition):
            epochs.setdefault(batch.producer_id, []).append(batch.producer_epoch)
        # an epoch that is seen again after a later one would be the zombie's
        assert all(found == sorted(found) for found in epochs.values())
