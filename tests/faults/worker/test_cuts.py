"""A source that is cut off for long.

One broker a side: what is judged is the order of catching up, and six of them with a backlog of
millions of records leave a worker on two cores nothing to catch up with (a load of 48, measured).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest

from services.local.region import RegionSpec, Tuning
from tests.faultkit.catching_up import CatchingUp
from tests.faultkit.far import far_pair
from tests.faultkit.hold import IS_LONG, hold_sync
from tests.faultkit.process import service
from tests.faultkit.proxy import BLACK_HOLE, Line
from tests.faultkit.regions import UNFENCED
from tests.faultkit.waiting import wait_until
from tests.faults.regions.drill import FLOWING_S, RATE, drill
from tests.judge.render import render
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faultkit.process import ServiceProcess

TUNING: Final = Tuning.STEADY if IS_LONG else Tuning.QUICK
CUT_S: Final = 900.0 if IS_LONG else 120.0
LIVE_RATE: Final = 200
BULK_RATE: Final = min(RATE, 5_000) - LIVE_RATE
"""On two cores 5,000 a second leave nothing to catch up with; fewer by `MIRRORFLEET_FAULT_RATE`."""
THIN: Final = Line(bytes_per_s=4_000_000 if IS_LONG else 2_000_000)
"""What a connection to the source carries after the cut, so that a backlog takes its time."""
CURRENT_MS: Final = 3_000
"""A partition whose time lag is shorter is current; `lag` looks once a second."""
ETA_ERROR: Final = 0.25 if IS_LONG else 1.0
"""What is promised; a short backlog is over before rates are steady."""

pytestmark = pytest.mark.timeout(2_500)

Row = dict[str, object]


def rows(lag: ServiceProcess, topic: str) -> list[Row]:
    """What `lag` says of the partitions of a topic."""
    found: list[Row] = lag.get(f"/lag?topic={topic}").json()
    return found


def is_current(found: list[Row], count: int) -> bool:
    """Whether all partitions are known to be close to the end."""
    lags = [row["time_lag_ms"] for row in found]
    return len(lags) == count and all(isinstance(ms, int) and ms < CURRENT_MS for ms in lags)


def eta_s(found: list[Row]) -> float | None:
    """When the last partition will be current, as `lag` says."""
    known = [ms / 1000 for row in found if isinstance(ms := row["eta_ms"], int)]
    return max(known, default=None)


def caught_up(lag: ServiceProcess, live: str, bulk: str) -> CatchingUp:
    """Look until the live and the bulky partitions are current; prints the ETA told on the way."""
    began = time.monotonic()
    found = CatchingUp()

    def look() -> bool:
        now = time.monotonic() - began
        is_live = is_current(rows(lag, live), 12)
        bulky = rows(lag, bulk)
        left = sum(records for row in bulky if isinstance(records := row["lag_records"], int))
        is_done = is_current(bulky, 12)
        return found.seen(now, live=is_live, bulk=is_done, left=left, eta_s=eta_s(bulky))

    try:
        wait_until(look, deadline_s=CUT_S + FLOWING_S, what="the backlog to be copied")
    finally:
        print(f"live partitions current after {found.live_s} s, {found.left_then} records left")
        print(f"the backlog copied after {found.bulk_s} s; ETA wrong by {found.eta_error()}, told:")
        print("; ".join(f"after {now:.1f} s: {eta:.1f} s" for now, eta in found.told[::8]))
    return found


def test_after_a_long_cut_live_partitions_are_current_before_the_backlog_is_done(
    tmp_path: Path,
) -> None:
    topics = ["cut-bulk:12", "cut-live:12"]
    sides = [RegionSpec(name=side, tuning=TUNING, extra=UNFENCED) for side in ("east", "west")]
    with far_pair(*sides) as pair, drill("cut", pair, tmp_path, topics=topics) as it:
        it.start_load(BULK_RATE, topics[:1])
        it.start_load(LIVE_RATE, topics[1:])
        mirror = it.mirror()
        lag = it.stack.enter_context(
            service("lag", estate=it.estate, target="west", logs=tmp_path / "logs")
        )
        lag.wait_ready(FLOWING_S)
        it.settle(mirror)
        gates = list(pair["east"].gates.values())
        try:
            with it.fault(f"source cut off for {CUT_S:.0f} s") as fault:
                for gate in gates:
                    gate.set(up=BLACK_HOLE, down=BLACK_HOLE)
                before = sum(gate.seen().down for gate in gates)
                hold_sync(CUT_S, reason="the source is cut off")
                carried = sum(gate.seen().down for gate in gates) - before
                fault.bit(carried == 0, f"{carried} bytes came through")
            for gate in gates:
                gate.set(up=THIN, down=THIN)
            found = caught_up(lag, "cut-live", "cut-bulk")
        finally:
            for gate in gates:
                gate.heal()
        it.settle(mirror)
        report = it.judged(patience_s=120)
        mirror.check_alive()

    assert report.verdict is Verdict.PASS, render(report)
    assert found.live_first(), found
    error = found.eta_error()
    assert error is not None, "no time was told at which the backlog would be copied"
    assert error < ETA_ERROR, found.told[::8]
