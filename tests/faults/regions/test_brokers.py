"""Brokers of either side are killed, restarted, moved, renumbered, away for long, under load."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.faultkit.hold import IS_LONG, hold_sync
from tests.faultkit.process import peak_rss_mb, resident_mb
from tests.faultkit.waiting import wait_until
from tests.faults.regions.breaking import (
    INTERNAL,
    frozen,
    in_sync,
    killed,
    moved,
    parts,
    restarted,
    started,
)
from tests.faults.regions.drill import (
    FLOWING_S,
    RATE,
    RSS_MB,
    SECONDS,
    SLOTS,
    drill,
    is_current,
    lag,
    settled,
    states,
)
from tests.judge.render import render
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faultkit.far import FarRegion
    from tests.faultkit.process import ServiceProcess

pytestmark = pytest.mark.timeout(1_500)


@pytest.mark.parametrize("side", ["west", pytest.param("east", marks=pytest.mark.long)])
def test_a_leader_a_controller_and_a_coordinator_killed_lose_and_repeat_nothing(
    pair: dict[str, FarRegion], tmp_path: Path, side: str
) -> None:
    with drill(f"killed-{side}", pair, tmp_path) as it:
        it.start_load()
        mirror = it.mirror()
        settled(it, mirror)
        for part in parts(it, side) if IS_LONG else ["leader"]:
            killed(it, side, part, SECONDS / 4)
            settled(it, mirror)
            frozen(it, side, part, SECONDS / 2 if IS_LONG else 15.0)
            settled(it, mirror)
        restarted(it, side, it.pair[side].region.brokers[: 3 if IS_LONG else 1])
        settled(it, mirror)
        moved(it, side)
        settled(it, mirror)
        report = it.judged()
        mirror.check_alive()

    assert report.verdict is Verdict.PASS, render(report)
    it.check_recovered()


def wait_used(far: FarRegion) -> None:
    """Wait until the fleet has sent something through each gate."""
    wait_until(
        lambda: all(gate.seen().up for gate in far.gates.values()),
        deadline_s=FLOWING_S,
        what="bytes through each new gate",
    )


@pytest.mark.long
def test_all_bootstrap_addresses_are_replaced_and_a_running_fleet_follows(
    pair: dict[str, FarRegion], tmp_path: Path
) -> None:
    with drill("renumbered", pair, tmp_path) as it:
        it.start_load()
        mirror = it.mirror()
        it.settle(mirror)
        for side in ("west", "east"):
            far = pair[side]
            with it.fault(f"every broker of {side} has a new address") as fault:
                old = {node: far.move(node) for node in far.nodes}
                try:
                    for node in far.nodes:
                        far.region.broker(node).stop()
                        old[node].refuse()
                        started([far.region.broker(node)])
                        in_sync(it, side)
                    it.roles(side).move_leaders([*it.copied(side), *INTERNAL[side]])
                    wait_used(far)
                finally:
                    for gate in old.values():
                        gate.refuse()
                carried = [gate.seen().up for gate in far.gates.values()]
                fault.bit(all(carried), f"bytes through the new gates: {carried}")
            it.settle(mirror)
        report = it.judged()
        mirror.check_alive()

    assert report.verdict is Verdict.PASS, render(report)
    it.check_recovered()


def has_caught_up(mirror: ServiceProcess) -> bool:
    """Whether the worker copies all slots and less than a second's load waits."""
    return states(mirror) == {"copying": SLOTS} and is_current(mirror, RATE)


@pytest.mark.long
def test_a_target_that_is_down_costs_no_memory_however_fast_the_source(
    pair: dict[str, FarRegion], tmp_path: Path
) -> None:
    down_s = 600.0 if IS_LONG else 1.5 * SECONDS
    with drill("down", pair, tmp_path) as it:
        it.start_load(rate=RATE)
        mirror = it.mirror()
        it.settle(mirror)
        before_mb = resident_mb(mirror.pid)
        with it.fault(f"target down for {down_s:.0f} s", aborts=True) as fault:
            brokers = pair["west"].region.brokers
            for broker in brokers:
                broker.kill()
            try:
                fault.bit(all(broker.pid is None for broker in brokers), "no broker runs")
                hold_sync(down_s, reason="the target is down")
            finally:
                started(brokers)
        mirror.check_alive()
        it.settle(mirror)
        it.end_load()
        waited, began = lag(mirror), time.monotonic()
        wait_until(
            lambda: has_caught_up(mirror),
            deadline_s=FLOWING_S + down_s,
            what="all that had come meanwhile to be copied",
            ignoring=(httpx.HTTPError,),
        )
        print(f"{waited} records waited, copied in {time.monotonic() - began:.0f} s")
        report = it.judged(patience_s=120)
        peak_mb = peak_rss_mb(mirror.pid)
        print(f"resident memory: {before_mb:.0f} MB before, {peak_mb:.0f} at most")

    assert report.verdict is Verdict.PASS, render(report)
    it.check_recovered(FLOWING_S)  # a backlog of ten minutes is between its partitions
    assert peak_mb < RSS_MB
