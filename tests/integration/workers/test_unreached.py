"""A worker that does not reach the source takes no slot from one that does, and keeps none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from services.local.ports import free_ports
from services.local.region import RegionSpec
from tests.faultkit.far import far_pair
from tests.faultkit.proxy import BLACK_HOLE, held
from tests.faultkit.regions import address
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import FLOWING_S, Fleet, slots_of, wait_states
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region
    from tests.faultkit.process import ServiceProcess

SLOTS: Final = 4
TOPIC: Final = "unreached"
LOST: Final = "lost"


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


def all_copied(*mirrors: ServiceProcess) -> bool:
    """Whether they copy all slots between them."""
    return [s["state"] for each in mirrors for s in slots_of(each)] == ["copying"] * SLOTS


@pytest.mark.timeout(300)
def test_a_worker_that_loses_the_source_gives_its_slots_up_and_has_some_again_once_it_is_back(
    west: Region, tmp_path: Path
) -> None:
    rules = [{"name": "all", "topics": [LOST]}]
    with far_pair(RegionSpec(name="east")) as pair:
        east, gates = pair["east"].region, pair["east"].gates.values()
        fleet = Fleet(LOST, east, west, tmp_path, rules=rules, slots=SLOTS)
        load = traffic(address(east), [f"{LOST}:8"], rate=500)
        with load as made, fleet.sync(), fleet.mirror("near") as near:
            wait_states(near, "copying", SLOTS)
            right = fleet.estate.read_text()
            fleet.estate.write_text(right.replace(address(east), pair["east"].bootstrap))
            with fleet.mirror("far") as far:
                wait_states(far, "copying", SLOTS // 2)
                wait_states(near, "copying", SLOTS // 2)
                with held(gates, up=BLACK_HOLE, down=BLACK_HOLE):
                    wait_states(near, "copying", SLOTS)
                    wait_until(
                        lambda: not slots_of(far),
                        deadline_s=FLOWING_S,
                        what="no slot with who has lost the source",
                    )
                    records = made.stop().records
                    report = fleet.judged([LOST])
                    waiting = sum(gate.seen().waiting for gate in gates)
                wait_until(
                    lambda: slots_of(far) and all_copied(near, far),
                    deadline_s=FLOWING_S,
                    what="slots for who reaches the source again",
                )

    assert (report.verdict, waiting > 0) == (Verdict.PASS, True)
    assert records > 0
