"""Connect's test of an exactly-once source from its facts (tests/kafkatest/tests/connect).

Three workers, three partitions, 100 records a second each. Four rounds restart every worker, each
round beginning with another one; the first two rounds wait after each restart, the last two do not.
No number may be missing below the highest, and none may be there twice. Here order counts as well.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.faultkit.hold import hold_sync
from tests.faults.versions.bars import Copiers, Seeder, Seeds
from tests.integration.mirror.making import read
from tests.judge.verdict import Evidence, Verdict
from tests.versions.kit import SECONDS, Fleet

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region

NODES: Final = ("one", "two", "three")
PAUSE_S: Final = min(SECONDS / 4, 15.0)
"""15 s in the original, and in the long form."""
TASKS: Final = 3
TASK_RATE: Final = 100
RESTART_S: Final = {"hard": 12.0, "clean": 16.0}
"""More than a restart takes on a busy machine; a clean one hands its slots over first."""


@pytest.mark.timeout(500)
@pytest.mark.parametrize("mode", ["hard", "clean"])
def test_workers_bounced_in_four_rounds_the_last_two_without_pause_lose_and_repeat_nothing(
    east: Region, west: Region, tmp_path: Path, mode: str
) -> None:
    name = f"connect-{mode}"
    fleet = Fleet(name, east, west, tmp_path, topics=[f"task:{TASKS}"], slots=TASKS)
    fleet.make_topics()
    spread_s = 2 * len(NODES) * PAUSE_S + 4 * len(NODES) * RESTART_S[mode]
    records = int(TASKS * TASK_RATE * spread_s)
    seeder = Seeder(east, [Seeds(f"{name}-task", TASKS, records)], spread_s)
    with fleet.sync(), Copiers(fleet, NODES) as workers, seeder.running():
        began = time.monotonic()
        for number in range(4):
            first = number % len(NODES)
            for node in (*NODES[first:], *NODES[:first]):
                workers.bounce(node, mode)
                if number < 2:
                    hold_sync(PAUSE_S, reason="the group settles, as in the original")
        left = seeder.left
        print(f"{mode}: 12 restarts in {time.monotonic() - began:.0f} s, {left:,} records to come")
        seeder.wait()
        evidence = Evidence("12 restarts", bit=left > 0, detail=f"{left} records to come")
        report = fleet.judged([evidence], records=records)
    copies = read(west, fleet.pairs[0].target, TASKS)

    assert seeder.trouble == []
    assert report.verdict is Verdict.PASS
    assert [[int(each.value or b"-1") for each in part] for part in copies] == [
        list(range(task, records, TASKS)) for task in range(TASKS)
    ]
