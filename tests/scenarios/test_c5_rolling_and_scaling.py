"""C5: graceful stops, a rolling upgrade, scaling 1 -> 5 -> 0 -> 3.

MirrorMaker 2: rebalance storms. Here: a worker leaves within 10 s with nothing open, and nothing is
repeated, not even for a read_uncommitted consumer. A planned move of a slot takes less than 2 s:
that is asserted in the long form (`MIRRORFLEET_FAULT_SECONDS=60`), 8 s in the short one, for any
machine, both of the rolling upgrade alone. Of 1 -> 5 -> 0 -> 3 no move is measured.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest

from tests.faultkit.hold import IS_LONG
from tests.faultkit.regions import address
from tests.faultkit.traffic import traffic
from tests.integration.workers.timeline import timelines
from tests.judge.verdict import Verdict
from tests.versions.kit import CALM, Fleet, wait_all_copying

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region
    from tests.faultkit.process import ServiceProcess

DRAIN_S: Final = 10.0
MOVE_S: Final = 2.0 if IS_LONG else 8.0


@pytest.mark.timeout(300)
def test_c5_workers_come_and_go_and_nothing_is_repeated(
    east: Region, west: Region, tmp_path: Path
) -> None:
    fleet = Fleet("c5", east, west, tmp_path, topics=["orders:24"])
    drains = []

    def leave(worker: ServiceProcess) -> None:
        asked = time.monotonic()
        worker.terminate()
        assert worker.wait_exit(DRAIN_S) == 0
        drains.append(time.monotonic() - asked)

    with fleet.sync(), traffic(address(east), fleet.topics, rate=CALM) as load, ExitStack() as all_:
        one = all_.enter_context(fleet.mirror("1"))
        wait_all_copying(one)
        five = [one, *(all_.enter_context(fleet.mirror(str(n))) for n in range(2, 6))]
        wait_all_copying(*five)
        rolled_ms = int(time.time() * 1000)
        leave(five.pop())  # a rolling upgrade of one of them
        five.append(all_.enter_context(fleet.mirror("6")))
        wait_all_copying(*five)
        takings = [one for line in timelines(west, "c5") for one in line.takings]
        moves = [(m.first_ms - m.last_ms) / 1000 for m in takings if m.time_ms > rolled_ms]
        for worker in five:
            leave(worker)
        three = [all_.enter_context(fleet.mirror(str(n))) for n in range(7, 10)]
        wait_all_copying(*three)
        load.stop()
        report = fleet.judged(records=CALM)

    print(f"drained within {max(drains):.2f} s, moved within {max(moves):.2f} s")
    assert (report.verdict, report.seen_twice) == (Verdict.PASS, 0)
    assert max(moves) < MOVE_S
