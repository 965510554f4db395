"""One target partition under its min ISR: its slot goes on without it, and takes it back after.

The same again, with the owner killed meanwhile: its heir waits, and takes the slot whole. A worker
that only joins is given no such slot.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from mirrorfleet.core.ids import ClusterAlias, FleetName, SlotNumber
from mirrorfleet.core.names import spare_id, transactional_id
from services.local.region import RegionSpec
from tests.faultkit.bites import abort_evidence, kill_in_transaction
from tests.faultkit.hold import hold_sync
from tests.faultkit.markers import line_of
from tests.faultkit.regions import access, address, data_directories
from tests.faultkit.roles import Roles
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import (
    Fleet,
    faults_of,
    slots_of,
    wait_faults,
    wait_states,
)
from tests.integration.mirror.making import alter_topic
from tests.integration.workers.fleet import MOVE_S, SECONDS, STEADY_S, now_ms
from tests.judge.reading import At, ends_of
from tests.judge.stalls import Span, Stall, stalls, told
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from services.local.region import Region
    from tests.conftest import Regions
    from tests.faultkit.process import ServiceProcess

WELL: Final = 12
SICK: Final = At("east.ill-sick", 0)
SOURCE: Final = ("ill-sick", 0)
WATCHED: Final = [At("east.ill-well", number) for number in range(WELL)]
RATE: Final = 2_000
STALL_S: Final = 5.0 + MOVE_S
"""A request that was on its way to the partition is waited for, up to the produce time-out."""


@contextmanager
def under_min_isr(west: Region, topic: str = SICK.topic) -> Iterator[None]:
    """The copy asks for a replica more than are there."""
    alter_topic(west, topic, min_insync_replicas=3)
    try:
        yield
    finally:
        alter_topic(west, topic, min_insync_replicas=2)


def coordinates_none(west: Region) -> int:
    """The broker that coordinates neither of the slot's two ids, which two others do.

    Without another one both may have the same coordinator. Then markers of the spare id, too, wait
    behind one that was appended to the sick partition and is not replicated: for up to 30 s.
    """
    coordinator_of = Roles(west.settings()).coordinator_of
    slot = FleetName("ill"), ClusterAlias("east"), SlotNumber(0)
    (found,) = {1, 2, 3} - {
        coordinator_of(spare_id(*slot)),
        coordinator_of(transactional_id(*slot)),
    }
    return found


def end(west: Region) -> int:
    return ends_of(access(west), [SICK])[SICK].committed


def wait_back(west: Region, mirror: ServiceProcess) -> None:
    """Wait until the partition is copied again."""
    since = end(west)
    wait_until(lambda: not faults_of(mirror), deadline_s=60, what="the partition to be back")
    wait_until(lambda: end(west) > since, deadline_s=60, what="the partition to be copied on")


def wait_copied_on(west: Region, copies: list[At]) -> None:
    """Wait until something more of each is there to be read."""
    before = ends_of(access(west), copies)

    def look() -> bool:
        now = ends_of(access(west), copies)
        return all(now[at].committed > before[at].committed for at in copies)

    wait_until(look, deadline_s=60, what=f"{len(copies)} copies to grow")


def watched(east: Region, live: list[Path], ill: Span) -> list[Stall]:
    """The stalls of the slot's other partitions."""
    source = data_directories(east)
    lines = [line_of(At("ill-well", number), source, live) for number in range(WELL)]
    found = stalls(lines, ill)
    print(told("one partition under its min ISR, the others of its slot", found, STALL_S))
    return found


@pytest.mark.timeout(400)
def test_a_partition_under_its_min_isr_is_left_behind_and_its_neighbours_go_on(
    east: Region, regions: Regions, tmp_path: Path
) -> None:
    (west,) = regions(RegionSpec(name="west", brokers=3))
    rules = [{"name": "all", "topics": ["ill-.*"], "replication_factor": 3}]
    fleet = Fleet("ill", east, west, tmp_path, rules=rules, slots=1)
    load = traffic(address(east), [f"ill-well:{WELL}", "ill-sick:1"], rate=RATE)

    with load as run, fleet.sync(), fleet.mirror() as mirror, ExitStack() as later:
        wait_states(mirror, "copying", 1)
        stopped = west.broker(coordinates_none(west))
        stopped.stop()  # what has two replicas of three is well
        live = [each for each in data_directories(west) if stopped.directory not in each.parents]
        hold_sync(STEADY_S * 2, reason="load while all are well")
        begin = now_ms()
        with under_min_isr(west):
            faults = wait_faults(mirror, SOURCE)
            before = end(west)
            hold_sync(SECONDS, reason="the partition is under its min ISR")
            after = end(west)
        wait_back(west, mirror)
        ill = Span(begin, now_ms())
        heir = later.enter_context(fleet.mirror("heir"))
        hold_sync(STEADY_S, reason="load while all are well again")
        with under_min_isr(west):
            wait_faults(mirror, SOURCE)
            opened = kill_in_transaction(mirror, access(west), WATCHED, deadline_s=30)
        wait_states(heir, "copying", 1)
        wait_back(west, heir)
        run.stop()
        evidence = abort_evidence("killed in quarantine", opened, live)
        report = fleet.judged(["ill-well", "ill-sick"])

    found = watched(east, live, ill)
    print(f"the one stood still for {SECONDS:.0f} s and longer: its copy ended at {before}")
    assert "quarantined" in faults[SOURCE]
    assert after == before
    assert (report.verdict, evidence.bit) == (Verdict.PASS, True), evidence
    assert found[0].seconds < STALL_S


def all_left_behind(mirror: ServiceProcess) -> bool:
    """Whether it copies both slots, each without a partition."""
    found = slots_of(mirror)
    return [bool(s["faults"]) and s["state"] == "copying" for s in found] == [True, True]


@pytest.mark.timeout(400)
def test_slots_that_go_on_without_a_partition_stay_when_a_worker_joins_and_are_shared_later(
    east: Region, regions: Regions, tmp_path: Path
) -> None:
    (west,) = regions(RegionSpec(name="west", brokers=3))
    rules = [{"name": "all", "topics": ["stay-.*"], "replication_factor": 3}]
    fleet = Fleet("stay", east, west, tmp_path, rules=rules, slots=2)
    load = traffic(address(east), ["stay-well:4", "stay-sick:4"], rate=RATE)
    well = [At("east.stay-well", number) for number in range(4)]

    with load as run, fleet.sync(), fleet.mirror() as owner, ExitStack() as later:
        wait_states(owner, "copying", 2)
        west.broker(3).stop()  # what has two replicas of three is well
        with under_min_isr(west, "east.stay-sick"):
            wait_until(
                lambda: all_left_behind(owner), deadline_s=120, what="both slots to be diverted"
            )
            joined = later.enter_context(fleet.mirror("joined"))
            wait_until(
                lambda: "slots given: []" in joined.text(), deadline_s=60, what="a share of nothing"
            )
            wait_copied_on(west, well)
            assert all_left_behind(owner)
        wait_until(
            lambda: len(slots_of(owner)) == len(slots_of(joined)) == 1,
            deadline_s=120,
            what="a slot for each",
        )
        run.stop()
        report = fleet.judged(["stay-well", "stay-sick"])

    assert report.verdict is Verdict.PASS
