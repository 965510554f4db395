"""What has high priority is current before the backlog of the rest is done."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from tests.faultkit.regions import access
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import Fleet
from tests.integration.mirror.making import Made, create, put
from tests.integration.mirror.stored import data
from tests.judge.reading import At, ReadingError, ends_of
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region

PARTITIONS: Final = 8
BLOBS: Final = 100
"""Of 100 KB to each partition of each topic: 160 MB in all."""
URGENT, REST = "rank-urgent", "rank-rest"


def rest_when_urgent_is_done(west: Region) -> list[int]:
    """Committed records of each partition of the rest; none before all that is urgent is copied."""
    urgent, rest = (
        [At(f"east.{topic}", number) for number in range(PARTITIONS)] for topic in (URGENT, REST)
    )
    ends = ends_of(access(west), [*urgent, *rest])
    if min(ends[at].committed for at in urgent) < BLOBS:
        return []  # the logs are long: they are read when it may be so

    def copied(at: At) -> int:
        return sum(b.records for b in data(west, *at) if b.offset < ends[at].committed)

    return [copied(at) for at in rest] if min(map(copied, urgent)) >= BLOBS else []


@pytest.mark.long
@pytest.mark.timeout(200)
def test_high_priority_is_copied_first_when_a_worker_starts_with_a_backlog(
    east: Region, west: Region, tmp_path: Path
) -> None:
    rules = [
        {"name": "urgent", "topics": [URGENT], "priority": "high"},
        {"name": "rest", "topics": [REST]},
    ]
    fleet = Fleet("rank", east, west, tmp_path, rules=rules, slots=4)
    blob = os.urandom(100_000)
    for topic in (REST, URGENT):
        create(east, topic, PARTITIONS)
        numbers = range(PARTITIONS * BLOBS)
        put(east, topic, [Made(b"%06d" % n + blob, partition=n % PARTITIONS) for n in numbers])

    with fleet.sync(), fleet.mirror():
        found = wait_until(
            lambda: rest_when_urgent_is_done(west),
            deadline_s=60,
            what="all that is urgent",
            ignoring=(ReadingError,),  # the copies are still to be made
        )
        report = fleet.judged([URGENT, REST])

    rest, everything = sum(found), PARTITIONS * BLOBS
    print(f"when all that was urgent was copied, of the rest {rest} of {everything} records were")
    assert report.verdict is Verdict.PASS
    assert rest < everything / 2
