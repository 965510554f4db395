"""What has high priority is current before the backlog of the rest is done."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx
import pytest

from mirrorfleet.records import positions
from mirrorfleet.records.positions import Position
from tests.faultkit.bites import middle
from tests.faultkit.control_topics import read_to_end
from tests.faultkit.roles import Roles
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import FLOWING_S, Fleet, slots_of
from tests.integration.mirror.making import Made, create, put
from tests.integration.workers.fleet import now_ms
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from mirrorfleet.core.ids import PartitionIdentity, TopicId
    from services.local.region import Region
    from tests.faultkit.process import ServiceProcess

PARTITIONS: Final = 8
SLOTS: Final = 4
BLOBS: Final = 300
"""Of 100 KB to each partition of each topic: 480 MB in all. The first answers come before all slots
know of their backlogs (`copying.backlog`), and what is under way then comes as well."""
MORE_BLOBS: Final = 500
"""An heir has less left to copy, and the same few MB of each partition come first again."""
BEGUN: Final = 0.125
"""Of one topic: the first worker is killed when it has copied so much."""


class Copied(NamedTuple):
    """Records that were committed by a moment."""

    urgent: int
    rest: int


class Story:
    """What was committed when, by the target's clock: copying is quicker than looking at it."""

    def __init__(self, west: Region, fleet: str, urgent: TopicId) -> None:
        told = asyncio.run(read_to_end(west.settings(), f"__mirrorfleet.{fleet}.positions"))
        entries = [(each.timestamp, positions.decode(each.key, each.value)) for each in told]
        self._moves = [(at, entry) for at, entry in entries if isinstance(entry, Position)]
        self._urgent = urgent

    def done_ms(self, blobs: int) -> int:
        """When the last of all that is urgent was committed."""
        done: dict[PartitionIdentity, int] = {}
        for time_ms, entry in self._moves:
            if entry.identity.source_topic_id == self._urgent and entry.records >= blobs:
                done.setdefault(entry.identity, time_ms)
        assert len(done) == PARTITIONS
        return max(done.values())

    def copied_by(self, moment_ms: int) -> Copied:
        found: dict[PartitionIdentity, int] = {}
        for time_ms, entry in self._moves:
            if time_ms <= moment_ms:
                found[entry.identity] = entry.records
        urgent = sum(n for at, n in found.items() if at.source_topic_id == self._urgent)
        return Copied(urgent, sum(found.values()) - urgent)


def with_backlog(name: str, east: Region, west: Region, directory: Path, blobs: int) -> Fleet:
    """A fleet with two topics, `NAME-urgent` and `NAME-rest`, of which nothing is copied yet."""
    rules = [
        {"name": "urgent", "topics": [f"{name}-urgent"], "priority": "high"},
        {"name": "rest", "topics": [f"{name}-rest"]},
    ]
    blob = os.urandom(100_000)
    for topic in (f"{name}-rest", f"{name}-urgent"):
        create(east, topic, PARTITIONS)
        numbers = range(PARTITIONS * blobs)
        put(east, topic, (Made(b"%06d" % n + blob, partition=n % PARTITIONS) for n in numbers))
    return Fleet(name, east, west, directory, rules=rules, slots=SLOTS)


@pytest.mark.long
@pytest.mark.timeout(200)
def test_high_priority_is_copied_first_when_a_worker_starts_with_a_backlog(
    east: Region, west: Region, tmp_path: Path
) -> None:
    fleet = with_backlog("rank", east, west, tmp_path, BLOBS)
    with fleet.sync(), fleet.mirror():
        report = fleet.judged(["rank-urgent", "rank-rest"])

    story = Story(west, "rank", Roles(east.settings()).topic_id("rank-urgent"))
    rest = story.copied_by(story.done_ms(BLOBS)).rest
    everything = PARTITIONS * BLOBS
    print(f"when all that was urgent was copied, of the rest {rest} of {everything} records were")
    assert report.verdict is Verdict.PASS
    assert rest < everything / 2


@pytest.mark.long
@pytest.mark.timeout(300)
def test_high_priority_is_copied_first_by_the_heir_of_a_worker_that_died_with_a_backlog(
    east: Region, west: Region, tmp_path: Path
) -> None:
    fleet = with_backlog("heir", east, west, tmp_path, MORE_BLOBS)
    everything = PARTITIONS * MORE_BLOBS

    def has_begun(worker: ServiceProcess) -> bool:
        """By its own word: asking brokers takes about as long as all of it."""
        slots = slots_of(worker)
        told = ("partitions", "lag_unknown", "lag_records")
        there, unknown, waits = (sum(int(str(slot[name])) for slot in slots) for name in told)
        return (there, unknown) == (2 * PARTITIONS, 0) and waits < (2 - BEGUN) * everything

    with fleet.sync():
        with fleet.mirror("first") as first:
            wait_until(
                lambda: has_begun(first),
                deadline_s=FLOWING_S,
                what="a part of what is urgent",
                ignoring=(httpx.HTTPError,),
            )
            first.kill()  # at once: all of it takes two seconds
            killed_ms = now_ms()
        with fleet.mirror("heir"):
            report = fleet.judged(["heir-urgent", "heir-rest"])
    story = Story(west, "heir", Roles(east.settings()).topic_id("heir-urgent"))
    before, done = story.copied_by(killed_ms), story.copied_by(story.done_ms(MORE_BLOBS))
    urgent, rest = done.urgent - before.urgent, done.rest - before.rest
    print(f"of {everything} records each: {before} at the kill, {done} when all urgent ones were")
    killed = middle(before.urgent, everything)
    assert (report.verdict, killed.bit) == (Verdict.PASS, True), killed
    assert urgent > everything / 2
    assert rest < urgent / 2
