"""Old backlog from far away over many connections, and a worker that dies in the middle of it.

Plain records of a source 50 ms away with 200 KB under way on a connection (one of them brings
4 MB/s); and transactions, every third one aborted, each of 2 MB in one partition: pieces are of
1 MB at most, so that each transaction lies across seams and comes over several connections.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import Producer

from services.local.region import RegionSpec
from tests.bench.measure import Ends
from tests.bench.workloads import Workload, create, fill
from tests.faultkit.bites import abort_evidence, freeze_in_transaction, middle
from tests.faultkit.estate import write_estate
from tests.faultkit.far import far_pair
from tests.faultkit.process import service
from tests.faultkit.proxy import Line
from tests.faultkit.regions import access, address, data_directories
from tests.faultkit.waiting import wait_until
from tests.judge.judging import Copy, Pair, judge
from tests.judge.reading import At
from tests.judge.render import render
from tests.judge.verdict import Demands, Evidence, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faultkit.bites import OpenAt
    from tests.faultkit.far import FarRegion
    from tests.faultkit.process import ServiceProcess
    from tests.judge.reading import ClusterAccess
    from tests.judge.verdict import Report

SLOTS: Final = 2
STRIPED: Final = 3
"""Connections of a slot: without stripes one has all of its backlog."""
BROUGHT: Final = 1_000_000
"""Bytes that a connection must have brought to count: it is there for backlog and nothing else."""
A_TRANSACTION: Final = 2_000
"""Records of 1 KB."""
ABORTED: Final = 3
"""Every so many."""
BRIEFLY_S: Final = 0.2
"""Between two tries to freeze it in a transaction: in a second it copies a quarter of a GB."""
SHORT: Final = ((20, None, 40), (100, 200_000, 1))
"""Each round trip, window and number of partitions once."""
CASES: Final = [
    pytest.param(*case, marks=() if case in SHORT else pytest.mark.long)
    for case in product((20, 100), (None, 200_000), (1, 40))
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What lies in a source before it is copied, and how far away; `visible` records of it."""

    line: Line
    partitions: int
    visible: int

    @property
    def copied(self) -> list[At]:
        """Partitions of the copy."""
        return [At("east.far", number) for number in range(self.partitions)]

    @property
    def connections(self) -> int:
        """With so many that fetch it there are stripes beyond doubt."""
        return STRIPED * min(self.partitions, SLOTS)


def workload(partitions: int, megabytes: int = 500) -> Workload:
    return Workload(name="far", partitions=partitions, record_bytes=1_000, megabytes=megabytes)


def fill_in_transactions(source: ClusterAccess, partitions: int, megabytes: int) -> int:
    """One after the other, each in one partition; how many records are visible."""
    settings = {"transactional.id": "far", "linger.ms": 50, "batch.size": 65_536}
    producer = Producer({**source.client, **settings})
    producer.init_transactions(30)
    padding = b"x" * 990
    records = workload(partitions, megabytes).records
    transactions, visible = records // A_TRANSACTION, 0
    for number in range(transactions):
        producer.begin_transaction()
        for record in range(A_TRANSACTION):
            value = b"%10d" % (number * A_TRANSACTION + record) + padding
            producer.produce("far", value, partition=number % partitions)
        assert producer.flush(60) == 0  # what is aborted must be in the log
        if number % ABORTED == ABORTED - 1:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            visible += A_TRANSACTION
    marked = records + transactions
    there = Ends(source, "far", partitions)
    wait_until(lambda: there.total() == marked, deadline_s=30, what=f"{marked} offsets")
    return visible


def striped(region: FarRegion) -> int:
    """Connections that are open now and have brought backlog."""
    return sum(gate.brought(BROUGHT) for gate in region.gates.values())


def kill_striped(
    east: FarRegion, west: FarRegion, mirror: ServiceProcess, backlog: Backlog
) -> tuple[list[OpenAt], list[Evidence]]:
    """Kill it in a transaction while it fetches over many connections: what it left, and when."""
    target = access(west.region)
    ends = Ends(target, "east.far", backlog.partitions)

    def is_at_it() -> bool:
        mirror.check_alive()
        return striped(east) >= backlog.connections and ends.total() > 0

    wait_until(is_at_it, deadline_s=60, what="a fetch over many connections")
    left_open = freeze_in_transaction(
        mirror, target, backlog.copied, deadline_s=30, awake_s=BRIEFLY_S
    )
    connections = striped(east)  # frozen, it keeps what it has
    mirror.kill()
    at_kill = ends.total()
    in_use = Evidence(
        "stripes in use",
        bit=connections >= backlog.connections,
        detail=f"{connections} connections with backlog at the kill",
    )
    return left_open, [middle(at_kill, backlog.visible), in_use]


def copy_with_a_kill(east: FarRegion, west: FarRegion, backlog: Backlog, at: Path) -> Report:
    """Copy the backlog from far away, with two workers one after the other, and judge."""
    for gate in east.gates.values():
        gate.set(up=backlog.line, down=backlog.line)
    source, target = access(east.region), access(west.region)
    estate = write_estate(
        at,
        source=east.bootstrap,
        target=address(west.region),
        fleet="far",
        topics=["far"],
        slots=SLOTS,
    )
    with service("sync", estate=estate, target="west", logs=at):
        with service("mirror", estate=estate, target="west", logs=at) as mirror:
            left_open, evidence = kill_striped(east, west, mirror, backlog)
        ends = Ends(target, "east.far", backlog.partitions)
        with service("mirror", estate=estate, target="west", logs=at):
            # Markers count as well: the judge waits for the last records, which still come.
            wait_until(
                lambda: ends.total() >= backlog.visible, deadline_s=120, what="the whole copy"
            )
            killed = abort_evidence("kill -9", left_open, data_directories(west.region))
            return judge(
                Copy(source=source, target=target, pairs=[Pair("far", "east.far")]),
                demands=Demands(records=backlog.visible),
                evidence=[killed, *evidence],
            )


@pytest.mark.timeout(300)
def test_a_worker_killed_in_the_middle_of_a_striped_fetch_loses_and_repeats_nothing(
    tmp_path: Path,
) -> None:
    plain = workload(2)
    with far_pair(*(RegionSpec(name=name) for name in ("east", "west"))) as pair:
        source = access(pair["east"].region)
        create(source, "far", plain.partitions)
        fill(source, "far", plain)
        line = Line(delay_s=0.025, window=200_000)
        backlog = Backlog(line=line, partitions=plain.partitions, visible=plain.records)
        report = copy_with_a_kill(pair["east"], pair["west"], backlog, tmp_path)

    print(render(report))
    assert report.verdict is Verdict.PASS, render(report)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("rtt_ms", "window", "partitions"), CASES)
def test_transactions_across_the_seams_of_stripes_are_copied_as_they_ended_though_the_worker_dies(
    tmp_path: Path, rtt_ms: int, window: int | None, partitions: int
) -> None:
    with far_pair(*(RegionSpec(name=name) for name in ("east", "west"))) as pair:
        source = access(pair["east"].region)
        create(source, "far", partitions)
        # without a window 1,000 MB may be copied before an open transaction was seen and frozen
        visible = fill_in_transactions(source, partitions, 500 if window else 2_000)
        line = Line(delay_s=rtt_ms / 2_000, window=window)
        backlog = Backlog(line=line, partitions=partitions, visible=visible)
        report = copy_with_a_kill(pair["east"], pair["west"], backlog, tmp_path)

    print(render(report))
    assert report.verdict is Verdict.PASS, render(report)
    assert report.source_records == visible
