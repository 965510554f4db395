"""One refused batch aborts the transaction of a whole slot; neighbours lose and repeat nothing.

On a target with transactions v1 an abort must be a new epoch: the same sequences again in the same
epoch are answered as duplicates of the aborted data, which is a silent loss
(the judge sees it here).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from services.local.region import RegionSpec
from tests.conftest import running
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import Fleet, wait_faults
from tests.integration.mirror.making import (
    ONE_BATCH,
    Made,
    abort,
    alter_topic,
    commit,
    create,
    numbered,
    put,
    transactional,
)
from tests.integration.mirror.stored import CODECS
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from services.local.region import Region

BUSY, LARGE, KEYLESS = "rt-busy", "rt-large", "rt-keyless"
PARTITIONS = 6
LIMIT = 20_000


def fill(east: Region) -> None:
    """Busy partitions of all codecs with transactions, one refused for size, one for its key."""
    create(east, BUSY, PARTITIONS)
    for number in range(PARTITIONS):
        codec = CODECS[number % len(CODECS)]
        one = transactional(east, f"rt-{number}", compression_type=codec)
        for begin in (0, 500):
            commit(one, BUSY, numbered(begin, begin + 500, size=200, partition=number))
            abort(one, BUSY, numbered(0, 50, partition=number))
    create(east, LARGE)
    put(east, LARGE, [Made(b"x" * size) for size in (10, LIMIT // 2, 3 * LIMIT, 30)], **ONE_BATCH)
    create(east, KEYLESS)
    put(east, KEYLESS, [Made(b"0"), Made(b"1"), Made(b"2", None), Made(b"3")], **ONE_BATCH)


@pytest.fixture(scope="module")
def targets(east: Region, west: Region) -> Iterator[dict[str, Region]]:
    """A target with transactions v2, and an old broker, which has v1."""
    fill(east)
    for (old,) in running(RegionSpec(name="old", kafka="3.9.1")):
        yield {"v2": west, "v1": old}


@pytest.mark.parametrize(("name", "version"), [("v2", 2), ("v1", 1)])
def test_a_refused_batch_costs_its_neighbours_nothing(
    east: Region, targets: dict[str, Region], tmp_path: Path, name: str, version: int
) -> None:
    target = targets[name]
    create(target, f"east.{KEYLESS}", cleanup_policy="compact")
    rules = [{"name": "all", "topics": ["rt-.*"]}]
    fleet = Fleet(name, east, target, tmp_path, rules=rules, slots=1)
    with fleet.sync() as sync:
        wait_until(
            lambda: sync.status()["partitions"] == PARTITIONS + 2, deadline_s=30, what="the catalog"
        )
    # Sync is gone: the catalog never learns of the new limit, so the whole batch is tried.
    alter_topic(target, f"east.{LARGE}", max_message_bytes=LIMIT)
    with fleet.mirror() as mirror:
        report = fleet.judged([BUSY])
        faults = wait_faults(mirror, (LARGE, 0), (KEYLESS, 0))
        seen_version = mirror.status()["transaction_version"]

    assert report.verdict is Verdict.PASS
    assert report.seen_twice > 0, "no transaction with busy partitions was aborted"
    assert seen_version == version
    assert faults[LARGE, 0].startswith("record-too-large at source offset 2: ")
    assert faults[KEYLESS, 0].startswith("key-missing at source offset 2: ")
