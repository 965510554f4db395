"""Somebody deletes control topics under a fleet at work: it goes on, and copies nothing twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.faultkit.waiting import wait_until
from tests.integration.loss.conftest import Drill
from tests.integration.mirror.fleet import FLOWING_S, Fleet
from tests.integration.mirror.making import create, delete
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region

TOPIC: Final = "gc-orders"
GONE: Final = ("positions", "segments", "progress", "events")
STEP: Final = 20


@pytest.mark.timeout(300)
def test_control_topics_that_are_deleted_under_a_fleet_are_there_again_and_nothing_is_repeated(
    east: Region, west: Region, tmp_path: Path
) -> None:
    rules: list[dict[str, object]] = [{"name": "all", "topics": [TOPIC]}]
    fleet = Fleet("gonecontrol", east, west, tmp_path, rules=rules, slots=1)
    create(east, TOPIC)
    with fleet.sync():
        with fleet.mirror("a") as mirror:
            drill = Drill(fleet, mirror)
            drill.fill(TOPIC, 0, STEP)
            drill.wait_copied(TOPIC, [range(STEP)])
            for count, kind in enumerate(GONE, start=2):
                delete(west, fleet.control(kind))
                drill.fill(TOPIC, STEP * (count - 1), STEP * count)
                drill.wait_copied(TOPIC, [range(STEP * count)])
            mirror.kill()
        with fleet.mirror("b") as mirror:
            drill = Drill(fleet, mirror)
            end = STEP * (len(GONE) + 2)
            drill.fill(TOPIC, end - STEP, end)
            drill.wait_copied(TOPIC, [range(end)])
        wait_until(
            lambda: (
                fleet.control(GONE[-1]) in {each["topic"] for each in fleet.events("topic-created")}
            ),
            deadline_s=FLOWING_S,
            what="word of the events, which were the last to go",
        )
    assert fleet.judged([TOPIC]).verdict is Verdict.PASS
