"""What has high priority is current before the backlog of the rest is done."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

import pytest

from mirrorfleet.kafka.control import read_to_end
from mirrorfleet.records import positions
from mirrorfleet.records.positions import Position
from tests.faultkit.roles import Roles
from tests.integration.mirror.fleet import Fleet
from tests.integration.mirror.making import Made, create, put
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from mirrorfleet.core.ids import PartitionIdentity, TopicId
    from services.local.region import Region

PARTITIONS: Final = 8
BLOBS: Final = 300
"""Of 100 KB to each partition of each topic: 480 MB in all. Of each partition 5 to 11 MB (measured)
come before all slots know of their backlogs (`copying.partition.CATCH_UP_AFTER`)."""
FLEET, URGENT, REST = "rank", "rank-urgent", "rank-rest"


def rest_when_urgent_was_done(west: Region, urgent: TopicId) -> int:
    """How many records of the rest were committed with the last of all that is urgent.

    From the positions, by the target's clock: copying takes less time than looking at it.
    """
    topic = f"__mirrorfleet.{FLEET}.positions"
    told = asyncio.run(read_to_end(west.settings(), topic))
    entries = [(record.timestamp, positions.decode(record.key, record.value)) for record in told]
    moves = [(time_ms, entry) for time_ms, entry in entries if isinstance(entry, Position)]
    done: dict[PartitionIdentity, int] = {}
    rest: dict[PartitionIdentity, int] = {}
    for time_ms, entry in moves:
        if entry.identity.source_topic_id == urgent and entry.records >= BLOBS:
            done.setdefault(entry.identity, time_ms)
    assert len(done) == PARTITIONS
    for time_ms, entry in moves:
        if entry.identity.source_topic_id != urgent and time_ms <= max(done.values()):
            rest[entry.identity] = entry.records
    return sum(rest.values())


@pytest.mark.long
@pytest.mark.timeout(200)
def test_high_priority_is_copied_first_when_a_worker_starts_with_a_backlog(
    east: Region, west: Region, tmp_path: Path
) -> None:
    rules = [
        {"name": "urgent", "topics": [URGENT], "priority": "high"},
        {"name": "rest", "topics": [REST]},
    ]
    fleet = Fleet(FLEET, east, west, tmp_path, rules=rules, slots=4)
    blob = os.urandom(100_000)
    for topic in (REST, URGENT):
        create(east, topic, PARTITIONS)
        numbers = range(PARTITIONS * BLOBS)
        put(east, topic, [Made(b"%06d" % n + blob, partition=n % PARTITIONS) for n in numbers])

    with fleet.sync(), fleet.mirror():
        report = fleet.judged([URGENT, REST])

    rest = rest_when_urgent_was_done(west, Roles(east.settings()).topic_id(URGENT))
    everything = PARTITIONS * BLOBS
    print(f"when all that was urgent was copied, of the rest {rest} of {everything} records were")
    assert report.verdict is Verdict.PASS
    assert rest < everything / 2
