"""L4: the line between the regions is cut for a while, and records come on.

MirrorMaker 2: resumes by Connect's offsets, and may repeat. Here: nothing is lost or repeated, and
copying goes on by itself within seconds. `tests/faults/worker/test_cuts.py` cuts for longer,
looks at the backlog's estimate and at partitions that are live meanwhile.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest

from services.local.region import RegionSpec
from tests.faultkit.asked import REACHED
from tests.faultkit.far import far_pair
from tests.faultkit.hold import hold_sync
from tests.faultkit.proxy import BLACK_HOLE
from tests.faultkit.regions import UNFENCED, address
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import wait_until
from tests.judge.verdict import Evidence, Verdict
from tests.versions.kit import Fleet, wait_all_copying

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region

RATE: Final = 5_000
CUT_S: Final = 20.0
RESUMES_S: Final = 30.0
"""A black hole is noticed by a time-out, on both sides."""


@pytest.mark.timeout(180)
def test_l4_nothing_is_lost_or_repeated_by_a_cut(west: Region, tmp_path: Path) -> None:
    with far_pair(RegionSpec(name="east", extra=UNFENCED)) as pair:
        far = pair["east"]
        east, gate = far.region, far.gates[1]
        reached = {"east": {"bootstrap": far.bootstrap}}
        fleet = Fleet("l4", east, west, tmp_path, topics=["orders:12"], clusters=reached)
        with (
            fleet.sync(),
            fleet.mirror() as mirror,
            traffic(address(east), fleet.topics, rate=RATE) as load,
        ):
            wait_all_copying(mirror)
            gate.set(up=BLACK_HOLE, down=BLACK_HOLE)
            try:
                hold_sync(CUT_S, reason="the line is cut, records come on")
                stood, waiting = fleet.copied(), gate.seen().waiting
            finally:
                gate.heal()
            healed = time.monotonic()
            wait_until(lambda: fleet.copied() > stood, deadline_s=RESUMES_S, what="copying again")
            print(f"copying again {time.monotonic() - healed:.1f} s after the cut ended")
            load.stop()
            evidence = Evidence(
                "cut", bit=waiting > 0, detail=f"{waiting} bytes did not get through"
            )
            report = fleet.judged([evidence], records=int(REACHED * RATE * CUT_S))

    assert report.verdict is Verdict.PASS
