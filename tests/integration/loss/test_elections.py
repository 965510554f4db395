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
from tests.faultkit.regions import access, address
from tests.faultkit.waiting import wait_until
from tests.integration.loss.conftest import Drill
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
LEADER, BEHIND = 2, 3
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
READ: Final = ("el-fail-read", "el-record-gap-read")
GROWN: Final = ("el-fail-grown", "el-record-gap-grown")
WRITTEN: Final = ("el-fail-written", "el-recopy-written")


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


@pytest.mark.timeout(600)
def test_what_an_unclean_election_took_from_the_source_or_the_target_is_told_and_resolved(
    east: Region, west: Region, regions: Regions, tmp_path: Path
) -> None:
    (trio,) = regions(RegionSpec(name="trio", brokers=3))
    written = [f"east.{topic}" for topic in WRITTEN]
    for topic in (*READ, *written):
        create_on(trio, topic, [LEADER, BEHIND], **UNCLEAN)
    for topic in WRITTEN:
        create(east, topic)
    with ExitStack() as running:
        reading = Fleet("unread", trio, west, tmp_path / "read", rules=RULES, slots=2)
        writing = Fleet("unwritten", east, trio, tmp_path / "written", rules=RULES, slots=2)
        drills = []
        for fleet in (reading, writing):
            running.enter_context(fleet.sync())
            drills.append(Drill(fleet, running.enter_context(fleet.mirror())))
        estate, logs = writing.estate, writing.directory / "logs"
        running.enter_context(service("checkpoint", estate=estate, target="west", logs=logs))
        reads, writes = drills
        for drill, topics in ((reads, READ), (writes, WRITTEN)):
            copy_through(drill, topics, [KEPT])
        trio.broker(BEHIND).stop()
        copy_through(reads, READ, [KEPT, LOST])
        for count in range(len(PORTIONS)):
            copy_through(writes, WRITTEN, [KEPT, *PORTIONS[: count + 1]])
        place_of(east, WRITTEN[1], put_at=NEXT)
        place = wait_placed(writes, WRITTEN[1])
        reads.remember(*READ)
        before = ends(trio, *READ, *written)
        forget(trio)
        evidence = wait_forgotten(trio, (*READ, *written), before)
        assert evidence.bit, evidence
        for topic in READ:
            put(trio, topic, numbered(SHORTER.start, SHORTER.stop))
        for topic in WRITTEN:
            put(east, topic, numbered(150, 170))
        trio.broker(LEADER).restart()
        check_source(reads, READ, SHORTER)
        check_target(writes)
        print(f"the group went from {place} to {wait_placed(writes, WRITTEN[1])}")


@pytest.mark.timeout(600)
def test_what_an_unclean_election_took_is_told_also_when_the_new_log_has_grown_past_our_position(
    west: Region, regions: Regions, tmp_path: Path
) -> None:
    (trio,) = regions(RegionSpec(name="trio", brokers=3))
    for topic in GROWN:
        create_on(trio, topic, [LEADER, BEHIND], **UNCLEAN)
    fleet = Fleet("regrown", trio, west, tmp_path / "regrown", rules=RULES, slots=2)
    with fleet.sync(), fleet.mirror() as mirror:
        drill = Drill(fleet, mirror)
        copy_through(drill, GROWN, [KEPT])
        trio.broker(BEHIND).stop()
        copy_through(drill, GROWN, [KEPT, LOST])
        drill.remember(*GROWN)
        before = ends(trio, *GROWN)
        drill.freeze()  # a look at the short log would tell
        forget(trio)
        evidence = wait_forgotten(trio, GROWN, before)
        assert evidence.bit, evidence
        for topic in GROWN:
            put(trio, topic, numbered(LONGER.start, LONGER.stop))
        assert ends(trio, *GROWN) == [len(KEPT) + len(LONGER)] * len(GROWN)
        drill.mirror.thaw()
        trio.broker(LEADER).restart()
        check_source(drill, GROWN, LONGER)


def check_source(drill: Drill, topics: tuple[str, str], new: range) -> None:
    """The copy keeps the lost records, and goes on with the new ones, by rule or by request."""
    fail, gap = topics
    drill.wait_copied(gap, [KEPT, LOST, new])
    assert drill.wait_ledger(gap) == [("gap", 0, 100, 150, SOURCE)]
    fault = drill.fault(fail)
    assert fault.startswith(f"{SOURCE} at source offset 150: the source log was truncated to 100;")
    assert "50 target records [" in fault
    assert drill.run("resolve", f"{fail}-0", "--accept-gap", "100..150") == 0
    drill.wait_copied(fail, [KEPT, LOST, new])
    assert drill.ledger(fail) == [("gap", 0, 100, 150, SOURCE)]
    starts = {At(topic, 0): 100 for topic in topics}
    report = drill.fleet.judged(topics, earlier=drill.before, starts=starts)
    assert report.verdict is Verdict.PASS


def check_target(drill: Drill) -> None:
    """Exactly the missing range is copied again, or accepted as a gap."""
    fail, copy = WRITTEN
    rest = range(150, 170)
    drill.wait_copied(copy, [KEPT, LOST, rest])
    assert drill.wait_ledger(copy) == [("rewound", 0, 100, 150, TARGET)]
    wait_until(
        lambda: "50 records of source [100, 150) are gone" in drill.fault(fail),
        deadline_s=60,
        what="what is missing",
    )
    assert drill.run("resolve", f"{fail}-0", "--accept-gap", "100..150") == 0
    drill.wait_copied(fail, [KEPT, rest])
    assert drill.ledger(fail) == [("gap", 0, 100, 150, TARGET)]
    report = drill.fleet.judged(WRITTEN, gaps={At(fail, 0): [(100, 150)]})
    assert report.verdict is Verdict.PASS
