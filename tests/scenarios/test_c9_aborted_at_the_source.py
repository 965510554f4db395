"""C9: transactions that were aborted at the source.

MirrorMaker 2: copies them by default (its consumer reads uncommitted). Here: never copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from services.local.region import RegionSpec
from tests.faultkit.regions import address
from tests.faultkit.roles import Roles
from tests.integration.mirror.making import (
    abort,
    commit,
    create,
    create_on,
    numbered,
    put,
    transactional,
    values,
)
from tests.judge.reading import At, ClusterAccess, Isolation, Order, TimestampRule, read_logs
from tests.judge.verdict import Verdict
from tests.versions.kit import Fleet

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region
    from tests.conftest import Regions


@pytest.mark.timeout(300)
def test_c9_records_of_aborted_transactions_are_not_copied(
    east: Region, west: Region, tmp_path: Path
) -> None:
    fleet = Fleet("c9", east, west, tmp_path, topics=["payments:1"])
    create(east, "c9-payments", 1)
    producer = transactional(east, "c9")
    commit(producer, "c9-payments", numbered(0, 10))
    abort(producer, "c9-payments", numbered(500, 600))
    commit(producer, "c9-payments", numbered(10, 20))
    with fleet.sync(), fleet.mirror():
        report = fleet.judged(records=20)

    assert report.verdict is Verdict.PASS
    assert values(west, "east.c9-payments") == [b"%020d" % number for number in range(20)]


FORGETS = 3
A_SECOND = 64 << 10
"""Bytes that one answer brings of a throttled partition, with a second of pause behind it."""


def omitting(regions: Regions, topic: str, *, size: int = 20) -> Region:
    """A region whose leader of a topic leaves an aborted transaction out of what it tells.

    It was away, and appended two aborted transactions of one producer and the begin of another
    one's in one go (`mirrorfleet.wire.aborted`). The records of the second have `size` bytes.
    """
    (east,) = regions(RegionSpec(name="east", brokers=3))
    create_on(east, topic, [2, FORGETS], min_insync_replicas=1)
    east.broker(FORGETS).stop()
    one, other = transactional(east, "one"), transactional(east, "other")
    abort(one, topic, numbered(1_000, 1_003))
    abort(one, topic, numbered(1_003, 1_006, size=size))
    put(east, topic, numbered(0, 500, size=1_000))
    commit(other, topic, numbered(500, 501))
    east.broker(FORGETS).start()
    roles = Roles(east.settings())
    roles.wait_in_sync([topic], 2)
    roles.lead(topic, FORGETS)
    return east


def copied(fleet: Fleet) -> str:
    """All is copied that `omitting` has committed, and nothing else; what the worker logged."""
    with fleet.sync(), fleet.mirror() as mirror:
        report = fleet.judged(records=501)
        log = mirror.text()

    assert report.verdict is Verdict.PASS
    assert len(values(fleet.target, fleet.pairs[0].target)) == 501
    assert "the source's broker left aborted transactions out of its list" in log
    return log


@pytest.mark.timeout(300)
def test_c9_not_even_those_that_a_broker_of_the_source_does_not_tell_of(
    regions: Regions, west: Region, tmp_path: Path
) -> None:
    east = omitting(regions, "c9b-payments")
    naive = ClusterAccess(address(east), {"fetch.message.max.bytes": "100000"})
    at = At("c9b-payments", 0)
    order = Order(isolation=Isolation.COMMITTED, timestamps=TimestampRule.IGNORED)
    assert len(read_logs(naive, [at], order)[at].log) == 501 + 3  # so any other consumer reads

    fleet = Fleet("c9b", east, west, tmp_path, topics=["payments:1"])
    copied(fleet)


@pytest.mark.timeout(300)
def test_c9_nor_those_whose_marker_comes_long_after_them(
    regions: Regions, west: Region, tmp_path: Path
) -> None:
    """It is behind the end of an answer, and the next answer comes when all would be committed."""
    east = omitting(regions, "c9c-payments", size=A_SECOND)
    rules: list[dict[str, object]] = [
        {"name": "slow", "topics": ["c9c-.*"], "throttle": A_SECOND},
    ]
    fleet = Fleet("c9c", east, west, tmp_path, topics=["payments:1"], rules=rules)
    log = copied(fleet)
    assert "were copied before the source said so" not in log
