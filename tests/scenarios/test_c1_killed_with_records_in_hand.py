"""C1: the worker is killed with records fetched and not yet written.

MirrorMaker 2: at-least-once, or exactly-once where it was chosen. Here: exactly once by default,
because positions are in the transaction of what they stand for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faultkit.bites import abort_evidence, kill_in_transaction
from tests.faultkit.regions import access, address
from tests.faultkit.traffic import traffic
from tests.judge.verdict import Verdict
from tests.versions.kit import CALM, Fleet

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region


@pytest.mark.timeout(300)
def test_c1_what_was_in_hand_arrives_once(east: Region, west: Region, tmp_path: Path) -> None:
    fleet = Fleet("c1", east, west, tmp_path, topics=["orders:12"])
    with fleet.sync(), traffic(address(east), fleet.topics, rate=CALM) as load:
        with fleet.mirror() as worker:
            opened = kill_in_transaction(worker, access(west), fleet.watched, deadline_s=60)
        with fleet.mirror():
            load.stop()
            evidence = abort_evidence("kill -9", opened, fleet.data)
            report = fleet.judged([evidence], records=CALM)

    assert report.verdict is Verdict.PASS
    assert report.seen_twice > 0  # by a read_uncommitted consumer, for which nothing is promised
