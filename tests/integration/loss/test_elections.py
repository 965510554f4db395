"""A replica that was behind is made leader: the source, or the target, forgets its last records.

brokers 2 and 3 have the topic   3 stops   more is written to 2   2 dies, 3 leads: it is gone

The new log ends below our position, or behind it: then only its lineage tells that it is another.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from services.local.region import Region, RegionSpec
from tests.faultkit.process import service
from tests.faultkit.regions import QUICK_TO_NOTICE, access, address
from tests.faultkit.waiting import wait_until
from tests.integration.loss.conftest import Drill, frozen
from tests.integration.loss.neighbours import Neighbours, neighbours_of
from tests.integration.mirror.fleet import Fleet
from tests.integration.mirror.making import create, create_on, numbered, put, read
from tests.judge.reading import At, ReadingError, ends_of
from tests.judge.verdict import Evidence, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Regions

UNCLEAN: Final[dict[str, str | int]] = {
    "unclean_leader_election_enable": "true",
    "min_insync_replicas": 1,
}
APART, LEADER, BEHIND = 1, 2, 3
"""The first has what loses nothing."""
KEPT, LOST = range(100), range(100, 150)
SHORTER, LONGER = range(1_000, 1_030), range(1_000, 1_080)
"""What comes instead of the lost ones: less, or more than those."""
PORTIONS: Final = [range(first, first + 5) for first in LOST[::5]]
"""Copied one by one: the lost part of the copy has a marker for each, so what replaces it lies
elsewhere; how far depends on what is tried while leaders come back."""
GROUP: Final = "el-readers"
NEXT: Final = 140
"""The record that the group reads next."""
SOURCE, TARGET = "source-truncated", "target-truncated"
RULES: Final[list[dict[str, object]]] = [
    {"name": policy, "topics": [f"el-{policy}-.*"], "on_source_loss": policy, "groups": [GROUP]}
    for policy in ("fail", "record-gap", "recopy")
]
READ: Final = (
    "el-fail-read",
    "el-fail-read-sought",
    "el-record-gap-read",
    "el-recopy-read",
)
GROWN: Final = tuple(topic.replace("read", "grown") for topic in READ)
WRITTEN: Final = ("el-fail-written", "el-record-gap-written", "el-recopy-written")
FROM_NEW, FROM_LOST = 110, 130
"""Where somebody goes on who seeks: in what came instead at the source, in what the target lost."""
SLOTS: Final = 2
BUSY_RATE: Final = 100


def copy_through(drill: Drill, topics: tuple[str, ...], numbers: list[range]) -> None:
    """Write the last of the ranges, and wait until the copies hold all."""
    for topic in topics:
        drill.fill(topic, numbers[-1].start, numbers[-1].stop)
    for topic in topics:
        drill.wait_copied(topic, numbers)


def place_of(region: Region, topic: str, *, put_at: int | None = None) -> int:
    """Where the group goes on in partition 0, after it was put there."""
    consumer = Consumer({"bootstrap.servers": address(region), "group.id": GROUP})
    try:
        if put_at is not None:
            consumer.commit(offsets=[TopicPartition(topic, 0, put_at)], asynchronous=False)
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=5)
        return int(found.offset)
    finally:
        consumer.close()


def wait_placed(drill: Drill, topic: str) -> int:
    """Wait until the group goes on at the copy of the record that it reads next; where that is."""
    there = f"east.{topic}"
    (log,) = read(drill.fleet.west, there, 1)
    wanted = next(one.offset for one in log if one.value == b"%020d" % NEXT)
    wait_until(
        lambda: place_of(drill.fleet.west, there) == wanted,
        deadline_s=60,
        what=f"the group at {wanted} of {there}",
        ignoring=(KafkaException,),
    )
    return wanted


def forget(trio: Region) -> None:
    """The last records of the topics on brokers 2 and 3 are gone when this returns."""
    trio.broker(LEADER).kill()
    trio.broker(BEHIND).restart()


def ends(region: Region, *topics: str) -> list[int]:
    """Where partition 0 of each topic ends."""
    at = [At(topic, 0) for topic in topics]
    found = ends_of(access(region), at)
    return [found[each].uncommitted for each in at]


def wait_forgotten(trio: Region, topics: tuple[str, ...], before: list[int]) -> Evidence:
    """Wait until a leader answers for all topics, and say whether their ends went back."""
    began = time.monotonic()
    now = wait_until(
        lambda: ends(trio, *topics),
        deadline_s=90,
        what="a leader of the topics",
        ignoring=(ReadingError,),
    )
    print(f"unclean leaders after {time.monotonic() - began:.1f} s: {before} -> {now}")
    bit = all(one < other for one, other in zip(now, before, strict=True))
    return Evidence("unclean election", bit, f"{before} -> {now}")


def lose(trio: Region, topics: tuple[str, ...]) -> None:
    """The last records of these topics are gone, and that is proved."""
    before = ends(trio, *topics)
    forget(trio)
    evidence = wait_forgotten(trio, topics, before)
    assert evidence.bit, evidence


def busy(fleet: str) -> list[str]:
    """Topics of a fleet that lose nothing, one for each slot."""
    return [f"el-fail-busy-{fleet}-{slot}" for slot in range(SLOTS)]


def make_topics(trio: Region, lossy: tuple[str, ...], whole: list[str]) -> None:
    """Those that lose something, and neighbours of them that do not."""
    for topic in lossy:
        create_on(trio, topic, [LEADER, BEHIND], **UNCLEAN)
    for topic in whole:
        create_on(trio, topic, [APART])


def at_work(running: ExitStack, fleet: Fleet) -> tuple[Drill, Neighbours]:
    """A worker of the fleet, and traffic through its neighbours."""
    beside = neighbours_of(fleet, busy(fleet.name), rate=BUSY_RATE)
    neighbours = running.enter_context(beside)
    running.enter_context(fleet.sync())
    return Drill(fleet, running.enter_context(fleet.mirror())), neighbours


def copy_all(trio: Region, reads: Drill, writes: Drill) -> None:
    """All is copied; for the last of it broker 3 was not there."""
    for drill, topics in ((reads, READ), (writes, WRITTEN)):
        copy_through(drill, topics, [KEPT])
    trio.broker(BEHIND).stop()
    copy_through(reads, READ, [KEPT, LOST])
    for count in range(len(PORTIONS)):
        copy_through(writes, WRITTEN, [KEPT, *PORTIONS[: count + 1]])
    reads.remember(*READ)


@pytest.mark.timeout(600)
def test_what_an_unclean_election_took_from_the_source_or_the_target_is_told_and_resolved(
    east: Region,
    west: Region,
    regions: Regions,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (trio,) = regions(RegionSpec(name="trio", brokers=3, extra=QUICK_TO_NOTICE))
    written = tuple(f"east.{topic}" for topic in WRITTEN)
    whole = [*busy("unread"), *(f"east.{topic}" for topic in busy("unwritten"))]
    make_topics(trio, (*READ, *written), whole)
    for topic in WRITTEN:
        create(east, topic)
    reading = Fleet("unread", trio, west, tmp_path / "read", rules=RULES, slots=SLOTS)
    writing = Fleet("unwritten", east, trio, tmp_path / "written", rules=RULES, slots=SLOTS)
    with ExitStack() as running:
        reads, beside_reads = at_work(running, reading)
        writes, beside_writes = at_work(running, writing)
        estate, logs = writing.estate, writing.directory / "logs"
        running.enter_context(service("checkpoint", estate=estate, target="west", logs=logs))
        copy_all(trio, reads, writes)
        place_of(east, WRITTEN[-1], put_at=NEXT)
        place = wait_placed(writes, WRITTEN[-1])
        with beside_reads.undisturbed("the source was truncated"):
            lose(trio, (*READ, *written))
            fill_again(trio, east)
            trio.broker(LEADER).restart()
            beside_writes.wait_flowing()  # without two brokers a target takes nothing
            with beside_writes.undisturbed("the target was truncated"):
                check_source(reads, READ, SHORTER, capsys)
                check_target(writes, capsys)
        print(f"the group went from {place} to {wait_placed(writes, WRITTEN[-1])}")
        beside_reads.judge()
        beside_writes.judge()


def fill_again(trio: Region, east: Region) -> None:
    """More comes, so that what is gone is noticed on both sides."""
    for topic in READ:
        put(trio, topic, numbered(SHORTER.start, SHORTER.stop))
    for topic in WRITTEN:
        put(east, topic, numbered(150, 170))


@pytest.mark.timeout(600)
def test_what_an_unclean_election_took_is_told_also_when_the_new_log_has_grown_past_our_position(
    west: Region, regions: Regions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (trio,) = regions(RegionSpec(name="trio", brokers=3, extra=QUICK_TO_NOTICE))
    make_topics(trio, GROWN, busy("regrown"))
    fleet = Fleet("regrown", trio, west, tmp_path / "regrown", rules=RULES, slots=SLOTS)
    with ExitStack() as running:
        drill, neighbours = at_work(running, fleet)
        copy_through(drill, GROWN, [KEPT])
        trio.broker(BEHIND).stop()
        copy_through(drill, GROWN, [KEPT, LOST])
        drill.remember(*GROWN)
        with frozen(drill.mirror):  # a look at the short log would tell
            lose(trio, GROWN)
            for topic in GROWN:
                put(trio, topic, numbered(LONGER.start, LONGER.stop))
            assert ends(trio, *GROWN) == [len(KEPT) + len(LONGER)] * len(GROWN)
        neighbours.wait_flowing()  # it slept longer than a session of the group
        with neighbours.undisturbed("a source was truncated that has grown"):
            trio.broker(LEADER).restart()
            check_source(drill, GROWN, LONGER, capsys)
        neighbours.judge()


def check_source(
    drill: Drill, topics: tuple[str, ...], new: range, capsys: pytest.CaptureFixture[str]
) -> None:
    """The copy keeps the lost records, and goes on with the new ones, by rule or by request."""
    fail, sought, *by_rule = topics
    for topic in by_rule:
        drill.wait_copied(topic, [KEPT, LOST, new])
        assert drill.wait_ledger(topic) == [("gap", 0, 100, 150, SOURCE)]
    begin = f"{SOURCE} at source offset 150: the source log was truncated to 100;"
    for topic in (fail, sought):
        fault = drill.fault(topic)
        assert fault.startswith(begin)
        assert "50 target records [" in fault
        drill.wait_told(topic, 150)
    drill.refuse_skip(fail, capsys)
    assert drill.run("resolve", f"{fail}-0", "--accept-gap", "100..150") == 0
    assert drill.run("resolve", f"{sought}-0", "--seek", str(FROM_NEW)) == 0
    drill.wait_copied(fail, [KEPT, LOST, new])
    drill.wait_copied(sought, [KEPT, LOST, new[FROM_NEW - 100 :]])
    for topic in (fail, sought):
        assert drill.ledger(topic) == [("gap", 0, 100, 150, SOURCE)]
    starts = {At(topic, 0): 100 for topic in topics}
    gaps = {At(sought, 0): [(100, FROM_NEW)]}
    report = drill.fleet.judged(topics, earlier=drill.before, starts=starts, gaps=gaps)
    assert report.verdict is Verdict.PASS


def check_target(drill: Drill, capsys: pytest.CaptureFixture[str]) -> None:
    """Exactly the missing range is copied again, or a part of it, or it is accepted as a gap."""
    fail, gap, copy = WRITTEN
    rest = range(150, 170)
    drill.wait_copied(copy, [KEPT, LOST, rest])
    assert drill.wait_ledger(copy) == [("rewound", 0, 100, 150, TARGET)]
    for topic in (fail, gap):  # `record-gap` has no word for what the target lost
        drill.fault(topic, saying="50 records of source [100, 150) are gone")
        drill.wait_told(topic, 150)
    drill.refuse_skip(fail, capsys)
    assert drill.run("resolve", f"{fail}-0", "--accept-gap", "100..150") == 0
    assert drill.run("resolve", f"{gap}-0", "--seek", str(FROM_LOST)) == 0
    drill.wait_copied(fail, [KEPT, rest])
    drill.wait_copied(gap, [KEPT, range(FROM_LOST, 150), rest])
    assert drill.ledger(fail) == [("gap", 0, 100, 150, TARGET)]
    assert drill.ledger(gap) == [("gap", 0, 100, FROM_LOST, TARGET)]
    gaps = {At(fail, 0): [(100, 150)], At(gap, 0): [(100, FROM_LOST)]}
    assert drill.fleet.judged(WRITTEN, gaps=gaps).verdict is Verdict.PASS
