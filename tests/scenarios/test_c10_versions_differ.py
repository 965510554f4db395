"""C10: the clusters are of different versions.

MirrorMaker 2: hope. Here: versions are agreed on for each connection, transactions by what the
target has in force. `tests/versions` has the whole table; this is the widest step of it, both ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from services.local.region import RegionSpec
from tests.conftest import running
from tests.faultkit.hold import hold_sync
from tests.faultkit.regions import address
from tests.faultkit.traffic import traffic
from tests.judge.verdict import Verdict
from tests.versions.kit import CALM, Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from services.local.region import Region


@pytest.fixture(scope="module")
def old() -> Iterator[Region]:
    for (started,) in running(RegionSpec(name="old", kafka="3.9.1")):
        yield started


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("way", "transactions"), [("to the old", 1), ("to the new", 2)])
def test_c10_the_newest_that_both_speak_is_spoken(
    west: Region, old: Region, tmp_path: Path, way: str, transactions: int
) -> None:
    source, target = (west, old) if way == "to the old" else (old, west)
    fleet = Fleet(f"c10-{transactions}", source, target, tmp_path, topics=["orders:12"])
    with (
        fleet.sync(),
        traffic(address(source), fleet.topics, rate=CALM) as load,
        fleet.mirror() as mirror,
    ):
        version = mirror.status()["transaction_version"]
        hold_sync(2.0, reason="load between two versions")
        load.stop()
        report = fleet.judged(records=CALM)

    assert report.verdict is Verdict.PASS
    assert version == transactions
