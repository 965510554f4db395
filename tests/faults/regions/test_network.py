"""The network between the fleet and the brokers of either side goes bad, under load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.faultkit.hold import IS_LONG
from tests.faultkit.proxy import BLACK_HOLE, Line, Side
from tests.faultkit.waiting import wait_until
from tests.faults.regions.breaking import BITE_S, CUT, half_open, hole, reset, slow
from tests.faults.regions.drill import SECONDS, Drill, drill, settled
from tests.judge.render import render
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region
    from tests.faultkit.far import FarRegion

HOLD_S: Final = 20.0 if IS_LONG else 12.0
"""Longer than a produce answer is waited for (10 s): within that, answers that were only late would
come after all, and no transaction would have to be aborted."""
AWAY_S: Final = SECONDS if IS_LONG else 8.0
"""How long a side is cut off whole: longer than every time-out of a transaction."""
SLOW: Final = Line(delay_s=0.05, slice_bytes=4_000)

pytestmark = pytest.mark.timeout(1_500)


@pytest.mark.parametrize("side", ["west", pytest.param("east", marks=pytest.mark.long)])
def test_black_holes_both_ways_and_one_way_lose_and_repeat_nothing(
    pair: dict[str, FarRegion], tmp_path: Path, side: str
) -> None:
    with drill(f"hole-{side}", pair, tmp_path) as it:
        it.start_load()
        mirror = it.mirror()
        settled(it, mirror)
        gates = list(pair[side].gates.values())
        hole(it, f"{side} answers lost", gates, HOLD_S, down=BLACK_HOLE)
        settled(it, mirror)
        if IS_LONG:
            hole(it, f"{side} requests lost", gates, HOLD_S, up=BLACK_HOLE)
            settled(it, mirror)
            hole(it, f"{side} cut off", gates, AWAY_S, **CUT)
            settled(it, mirror)
        hole(it, f"{side} cut off from one broker", gates[:1], HOLD_S, **CUT)
        settled(it, mirror)
        report = it.judged()

    assert report.verdict is Verdict.PASS, render(report)
    it.check_recovered()


def lead_all(region: Region, it: Drill, node: int) -> None:
    """Have a broker lead every partition under load."""
    roles, topic = it.roles("west"), it.copied("west")[0]
    roles.lead(topic, node)
    wait_until(
        lambda: {meta.leader for meta in roles.partitions(topic).values()} == {node},
        deadline_s=BITE_S,
        what=f"broker {node} of {region.name} to lead {topic}",
    )


@pytest.mark.long
def test_the_coordinator_is_reached_and_the_leader_not(
    pair: dict[str, FarRegion], tmp_path: Path
) -> None:
    with drill("asymmetric", pair, tmp_path) as it:
        it.start_load()
        mirror = it.mirror()
        settled(it, mirror)
        coordinator = it.roles("west").coordinator_of(f"mirrorfleet.{it.name}.east.0")
        leader = next(node for node in pair["west"].nodes if node != coordinator)
        lead_all(it.west, it, leader)
        for name, node in (("leader", leader), ("coordinator", coordinator)):
            gates = [pair["west"].gates[node]]
            hole(it, f"answers of the {name} lost", gates, HOLD_S, down=BLACK_HOLE)
            settled(it, mirror)
            hole(it, f"the {name} cut off", gates, HOLD_S, **CUT)
            settled(it, mirror)
        report = it.judged()

    assert report.verdict is Verdict.PASS, render(report)
    it.check_recovered()


@pytest.mark.long
@pytest.mark.parametrize("side", ["west", "east"])
def test_resets_half_open_connections_and_slices_lose_and_repeat_nothing(
    pair: dict[str, FarRegion], tmp_path: Path, side: str
) -> None:
    with drill(f"torn-{side}", pair, tmp_path) as it:
        it.start_load()
        mirror = it.mirror()
        settled(it, mirror)
        gates = list(pair[side].gates.values())
        reset(it, side, gates, HOLD_S)
        settled(it, mirror)
        for stays in Side:
            half_open(it, side, gates, stays, HOLD_S)
            settled(it, mirror)
        slow(it, side, gates, SLOW, HOLD_S)
        settled(it, mirror)
        report = it.judged()

    assert report.verdict is Verdict.PASS, render(report)
    it.check_recovered()
