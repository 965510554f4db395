"""C6: the target is down, or full, or lacks replicas, while the source runs on.

MirrorMaker 2: its tasks fail and stay so. Here: back-pressure with bounded memory; it goes on by
itself when the target does. A target whose only broker is stopped in an orderly way also ends
transactions without telling its partitions (KAFKA-20734), which is looked for and mended.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest

from services.local.region import RegionSpec
from tests.faultkit.asked import REACHED
from tests.faultkit.hold import hold_sync
from tests.faultkit.process import resident_mb
from tests.faultkit.regions import address
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import wait_until
from tests.judge.verdict import Evidence, Verdict
from tests.versions.kit import CALM, Fleet, wait_all_copying

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region
    from tests.conftest import Regions

DOWN_S: Final = 15.0
MEMORY: Final = 16 << 20
BATCH: Final = 1 << 20
"""A broker answers with one whole batch more than it was asked for, if nothing else fits."""
RSS_MB: Final = 190
"""The interpreter and its packages take 80 MB before the first record."""
SLOW: Final = 2_000
RESTARTS: Final = 10
"""One or two of three bite."""
SKIPPED: Final = "Couldn't find leader endpoint for partitions"
"""What a coordinator says when it leaves out a marker."""


@pytest.mark.timeout(300)
def test_c6_memory_is_bounded_while_the_target_is_down_and_copying_resumes(
    east: Region, regions: Regions, tmp_path: Path
) -> None:
    (west,) = regions(RegionSpec(name="west"))  # not the shared one: it is killed
    tight = {"memory_bytes": MEMORY}
    fleet = Fleet("c6", east, west, tmp_path, topics=["orders:12"], mirror=tight)
    with (
        fleet.sync(),
        fleet.mirror() as mirror,
        traffic(address(east), fleet.topics, rate=CALM) as load,
    ):
        wait_all_copying(mirror)
        west.broker(1).kill()
        try:
            hold_sync(DOWN_S, reason="the target is down, the source is not")
            was_down, rss_mb = west.broker(1).pid is None, resident_mb(mirror.pid)
        finally:
            west.broker(1).restart()
        back = time.monotonic()
        wait_going_on(fleet)
        back_s = time.monotonic() - back
        load.stop()
        evidence = Evidence("target down", bit=was_down, detail=f"for {DOWN_S:g} s")
        report = fleet.judged([evidence], records=int(REACHED * CALM * DOWN_S))
        peak = mirror.status()["memory_peak_bytes"]

    print(f"resident {rss_mb:.0f} MB while down, copying again after {back_s:.1f} s")
    assert report.verdict is Verdict.PASS
    assert isinstance(peak, int)
    assert peak <= MEMORY + BATCH
    assert rss_mb < RSS_MB


@pytest.mark.timeout(300)
def test_c6_markers_that_a_restarted_target_left_out_are_written_before_anything_else(
    east: Region, regions: Regions, tmp_path: Path
) -> None:
    (west,) = regions(RegionSpec(name="west"))
    fleet = Fleet("c6-again", east, west, tmp_path, topics=["orders:12"])
    log = west.broker(1).directory / "server.log"
    with (
        fleet.sync(),
        traffic(address(east), fleet.topics, rate=SLOW) as load,
        fleet.mirror() as mirror,
    ):
        wait_all_copying(mirror)
        skipped = restarts = 0
        while skipped < 2 and restarts < RESTARTS:
            restarts += 1
            west.broker(1).stop()
            west.broker(1).restart()
            wait_going_on(fleet)
            skipped = log.read_text("utf-8").count(SKIPPED)
        load.stop()
        detail = f"markers left out {skipped} times in {restarts} restarts"
        evidence = Evidence("orderly restarts", bit=skipped > 0, detail=detail)
        report = fleet.judged([evidence], records=SLOW * restarts)

    print(detail)
    assert report.verdict is Verdict.PASS


def wait_going_on(fleet: Fleet) -> None:
    """Wait until the target answers, and then has more than it had."""
    stood = wait_until(fleet.copied, deadline_s=30, what="the target to answer")
    wait_until(lambda: fleet.copied() > stood + SLOW, deadline_s=30, what="copying again")
