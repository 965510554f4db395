"""What has high priority is current before the backlog of the rest is done."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from tests.faultkit.regions import access
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import Fleet
from tests.integration.mirror.making import Made, create, put
from tests.judge.reading import At, ReadingError, ends_of
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region

PARTITIONS: Final = 8
BLOBS: Final = 100
"""Of 100 KB to each partition of each topic: 160 MB in all."""


@pytest.mark.long
@pytest.mark.timeout(200)
def test_high_priority_is_copied_first_when_a_worker_starts_with_a_backlog(
    east: Region, west: Region, tmp_path: Path
) -> None:
    rules = [
        {"name": "urgent", "topics": ["rank-urgent"], "priority": "high"},
        {"name": "rest", "topics": ["rank-.*"]},
    ]
    fleet = Fleet("rank", east, west, tmp_path, rules=rules, slots=4)
    blob = os.urandom(100_000)
    for topic in ("rank-rest", "rank-urgent"):
        create(east, topic, PARTITIONS)
        numbers = range(PARTITIONS * BLOBS)
        put(east, topic, [Made(b"%06d" % n + blob, partition=n % PARTITIONS) for n in numbers])

    def copied(topic: str) -> int:
        """The least that any partition has, markers counted in."""
        partitions = [At(topic, number) for number in range(PARTITIONS)]
        return min(each.committed for each in ends_of(access(west), partitions).values())

    with fleet.sync(), fleet.mirror():
        wait_until(
            lambda: copied("east.rank-urgent") >= BLOBS,
            deadline_s=60,
            what="all that is urgent",
            ignoring=(ReadingError,),  # the copies are still to be made
        )
        rest = copied("east.rank-rest")
        report = fleet.judged(["rank-urgent", "rank-rest"])

    print(f"when all that was urgent was copied, a partition of the rest had {rest} of {BLOBS}")
    assert report.verdict is Verdict.PASS
    assert rest < BLOBS / 2
