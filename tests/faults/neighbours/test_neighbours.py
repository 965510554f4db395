"""What one partition in trouble costs its neighbours: the time that they stand still, bounded.

As few brokers as each fault needs. Six of them with a load of a thousand partitions are, on two
cores, late by seconds themselves; then nobody could tell who held up whom.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from services.local.region import RegionSpec, Tuning
from tests.faultkit.calm import wait_calm
from tests.faultkit.far import far_pair
from tests.faultkit.hold import IS_LONG, hold_sync
from tests.faultkit.markers import commit_times
from tests.faultkit.regions import access, data_directories
from tests.faultkit.waiting import wait_until
from tests.faults.regions.breaking import started
from tests.faults.regions.drill import FLOWING_S, RATE, SECONDS, STEADY_S, Drill, Fault, drill
from tests.integration.mirror.making import alter_topic, create, numbered, send, transactional
from tests.integration.mirror.stored import stored
from tests.judge.reading import At, ends_of
from tests.judge.render import render
from tests.judge.stalls import Line, Span, stalls, told
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.faultkit.process import ServiceProcess

HOLD_S: Final = max(SECONDS, 15.0)
OPEN_S: Final = max(SECONDS, 20.0)
MANY: Final = 999 if IS_LONG else 119
LOAD: Final = RATE if IS_LONG else min(RATE, 1_000)
"""On two cores with three target brokers slots stand for 2 s at 5,000 a second without a fault."""
REFUSED_S: Final = 2.0
"""Longest stall of the neighbours of a partition that takes nothing."""
IN_A_ROW: Final = 32 if IS_LONG else 1
"""Records for one partition in turn, one batch: the 16 KB that a producer fills by default before
it goes on to the next partition (KIP-480)."""
LEFT: Final = "goes on without"
OPEN_STALL_S: Final = 1.0
"""And of one whose source holds a transaction open."""
RULES: Final = [
    {"name": "one", "topics": ["isr-one"], "configs": "ignore", "replication_factor": 3},
    {"name": "many", "topics": ["isr-many"], "configs": "ignore", "replication_factor": 1},
]
"""Two cores do not replicate what a thousand partitions get: batches, and a marker at each commit.
With three copies of each, slots stand for more than 1.5 s without any fault at 21,000 records/s."""
TUNING: Final = Tuning.STEADY if IS_LONG else Tuning.QUICK


def sides(target_brokers: int) -> list[RegionSpec]:
    """A source of one broker, and a target."""
    numbers = {"east": 1, "west": target_brokers}
    return [RegionSpec(name=side, brokers=n, tuning=TUNING) for side, n in numbers.items()]


def refused(it: Drill, mirror: ServiceProcess, at: At) -> tuple[bool, str]:
    """Have a copy take nothing for a while; whether it did not."""
    alter_topic(it.west, at.topic, **{"min.insync.replicas": "3"})
    try:
        wait_until(
            lambda: LEFT in mirror.text(), deadline_s=HOLD_S, what="the slot to go on without it"
        )
        before = ends_of(access(it.west), [at])[at]
        hold_sync(HOLD_S, reason="a partition is refused")
        after = ends_of(access(it.west), [at])[at]
        return after.committed == before.committed, f"{before} -> {after}"
    finally:
        alter_topic(it.west, at.topic, **{"min.insync.replicas": "2"})


def taken_back(it: Drill, at: At) -> None:
    """Wait until it is copied again: its neighbours may stand once more for that."""
    before = ends_of(access(it.west), [at])[at].committed
    wait_until(
        lambda: ends_of(access(it.west), [at])[at].committed > before,
        deadline_s=FLOWING_S,
        what="the partition to be copied again",
    )
    hold_sync(REFUSED_S, reason="what stands for it is seen")


def dated_by_brokers(it: Drill) -> None:
    """Make the many with dates that brokers give: those of the source are when it showed a batch.

    So have the copies, or each batch would be made anew; the judge compares none of their dates.
    """
    by_broker: dict[str, str | int] = {"message_timestamp_type": "LogAppendTime"}
    create(it.west, "east.isr-many", MANY, **by_broker)
    create(it.east, "isr-many", MANY, **by_broker)


def moments(it: Drill, number: int) -> Line:
    """When the source showed more of one of the many, with each batch, and when its copy did."""
    copy = At("east.isr-many", number)
    batches = stored(it.east, "isr-many", number)
    shown = [batch.max_timestamp for batch in batches if batch.append_time]
    return Line(copy, shown, commit_times(data_directories(it.west), *copy))


def stalled_s(it: Drill, fault: Fault) -> float:
    """The longest stall of the many during a fault; printed, also of as long a time before it.

    From when the source showed what the copy lacked: between two batches it has nothing to copy.
    """
    lines = [moments(it, number) for number in range(MANY)]
    span = Span(fault.began_ms, fault.ended_ms)
    fed = [one for one in lines if any(span.begin_ms < at < span.end_ms for at in one.source_ms)]
    assert len(fed) == MANY
    before = Span(2 * span.begin_ms - span.end_ms, span.begin_ms)
    print(told("the others just before", stalls(lines, before), REFUSED_S))
    found = stalls(lines, span)
    print(told("the others meanwhile", found, REFUSED_S))
    return found[0].seconds


@contextmanager
def one_of_many(directory: Path) -> Iterator[Drill]:
    """The drill; its `sync` looks seldom: a look at a thousand partitions takes time."""
    with (
        far_pair(*sides(3)) as pair,
        drill(
            "isr",
            pair,
            directory,
            services={"sync": {"period_s": 5}},
            topics=[f"isr-many:{MANY}", "isr-one:1"],
            link={"rules": RULES},
            gated=False,
        ) as it,
    ):
        it.sync.wait_ready(FLOWING_S)
        yield it


@pytest.mark.timeout(900)
def test_a_partition_under_min_isr_holds_up_no_other(tmp_path: Path) -> None:
    even = ["--whole-batches", "--sticky", str(IN_A_ROW)]
    with one_of_many(tmp_path) as it:
        missing = it.west.broker(3)
        missing.stop()  # no neighbour is to have its copy there
        dated_by_brokers(it)
        it.start_load(LOAD * MANY / (MANY + 1), it.topics[:1], even)
        mirror = it.mirror()
        it.roles("west").wait_in_sync(["east.isr-many"], 1)
        started([missing])
        it.start_load(LOAD / (MANY + 1), it.topics[1:], even)
        it.roles("west").wait_in_sync(["east.isr-one"], 3)
        wait_calm(mirror, calm_s=0.75 * REFUSED_S)
        missing.stop()
        try:
            it.roles("west").wait_in_sync(["east.isr-one"], 2)
            it.settle(mirror, HOLD_S + STEADY_S)  # as long as the fault: to compare with
            with it.fault(f"one of {MANY + 1} partitions under min ISR") as fault:
                fault.bit(*refused(it, mirror, At("east.isr-one", 0)))
                taken_back(it, At("east.isr-one", 0))
            it.settle(mirror)
        finally:
            started([missing])
        it.others_stall_s(fault, "isr-one")  # printed slot by slot; that nothing came counts, too
        report = it.judged()
        stall_s = stalled_s(it, fault)
        left = [line for line in mirror.text().splitlines() if LEFT in line]
        print(*left, sep="\n")

    assert report.verdict is Verdict.PASS, render(report)
    assert len(left) == 1
    assert "east.isr-one-0" in left[0]
    assert stall_s < REFUSED_S


def held_open(it: Drill, topic: str) -> tuple[bool, str]:
    """Hold a transaction open in partition 0, then commit it; whether it held readers back.

    All that waited is shown at once, and its neighbours may stand for that, too: ends when the copy
    has grown by as much. Markers of its own are in that, so it may lack the last few records.
    """
    at, copy = At(topic, 0), At(f"east.{topic}", 0)
    maker = transactional(it.east, f"{it.name}-open")
    maker.begin_transaction()
    send(maker, topic, numbered(0, 500))
    before = ends_of(access(it.east), [at])[at]
    hold_sync(OPEN_S, reason="a transaction is open")
    after = ends_of(access(it.east), [at])[at]
    copied = ends_of(access(it.west), [copy])[copy].committed
    maker.commit_transaction(30)
    waited = ends_of(access(it.east), [at])[at].uncommitted - after.committed
    wait_until(
        lambda: ends_of(access(it.west), [copy])[copy].committed >= copied + waited,
        deadline_s=FLOWING_S,
        what=f"{waited} records to be copied that a transaction withheld",
    )
    hold_sync(REFUSED_S, reason="what stands for it is seen")
    held = before.committed == after.committed < before.uncommitted < after.uncommitted
    return held, f"readers held at {after.committed} while the log went to {after.uncommitted}"


@pytest.mark.timeout(600)
def test_a_transaction_left_open_at_the_source_holds_up_its_partition_alone(
    tmp_path: Path,
) -> None:
    topics = ["open-one:1", "open-others:23"]
    with (
        far_pair(*sides(1)) as pair,
        drill("open", pair, tmp_path, topics=topics) as it,
    ):
        it.shared.add("open-one")
        it.start_load(LOAD, more=["--steady"])  # no other transaction withholds anything
        mirror = it.mirror()
        wait_calm(mirror)
        with it.fault(f"a transaction open for {OPEN_S:.0f} s") as fault:
            fault.bit(*held_open(it, "open-one"))
        it.settle(mirror)
        stall = it.others_stall_s(fault, "open-one")
        report = it.judged()
        mirror.check_alive()

    assert report.verdict is Verdict.PASS, render(report)
    assert stall < OPEN_STALL_S
