"""A worker that does not reach the source takes no slot from one that does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from services.local.ports import free_ports
from tests.faultkit.regions import address
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import FLOWING_S, Fleet, slots_of, wait_states
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region

SLOTS: Final = 4
TOPIC: Final = "unreached"


@pytest.mark.timeout(200)
def test_a_worker_behind_a_firewall_or_with_an_older_estate_costs_no_slot_its_owner(
    east: Region, west: Region, tmp_path: Path
) -> None:
    rules = [{"name": "all", "topics": [TOPIC]}]
    fleet = Fleet(TOPIC, east, west, tmp_path, rules=rules, slots=SLOTS)
    load = traffic(address(east), [f"{TOPIC}:8"], rate=500)
    with load as made, fleet.sync(), fleet.mirror("near") as near:
        wait_states(near, "copying", SLOTS)
        right = fleet.estate.read_text()
        (nobody,) = free_ports(1)
        fleet.estate.write_text(right.replace(address(east), f"127.0.0.1:{nobody}"))
        with fleet.mirror("apart") as apart:
            wait_until(
                lambda: "slots given: []" in apart.text(),
                deadline_s=FLOWING_S,
                what="a share of nothing for who cannot copy",
            )
            assert "source east" in apart.get("/readyz").text
            assert [slot["state"] for slot in slots_of(near)] == ["copying"] * SLOTS

            fleet.estate.write_text(right)
            with fleet.mirror("late") as late:
                wait_states(late, "copying", SLOTS // 2)
                wait_states(near, "copying", SLOTS // 2)
                assert slots_of(apart) == []
                near.kill()
                wait_states(late, "copying", SLOTS)
                records = made.stop().records
                report = fleet.judged([TOPIC])

    assert report.verdict is Verdict.PASS
    assert records > 0
