"""A worker without memory for its source does not sit on slots that others could copy."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, NoReturn, cast

import pytest

from mirrorfleet.copying.lifecycle import SlotState
from mirrorfleet.copying.partition import Pace
from mirrorfleet.copying.starving import STARVED_S
from mirrorfleet.core.errors import NoMemoryError, StarvedError
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.runtime.lifecycle import Stop
from mirrorfleet.slots import replicas
from mirrorfleet.slots.fetching import LaneKey, Lanes
from mirrorfleet.slots.runner import SlotRunner
from tests.faultkit.virtual import in_virtual_time
from tests.unit.copying.making import entry, slot
from tests.unit.slots.stubs import NoSpare

if TYPE_CHECKING:
    from collections.abc import Callable


async def no_memory(node: int, *, purpose: str) -> NoReturn:
    raise NoMemoryError(f"a connection to {node} for {purpose}")


def lanes_without_memory(now: Callable[[], float]) -> Lanes:
    """Of a slot with one partition."""
    budget = SimpleNamespace(account=lambda: None)
    runner = SimpleNamespace(
        number=0,
        slot=slot(entry(0)),
        settings=SimpleNamespace(fetch_max_bytes=1 << 20),
        budget=budget,
        clock=SimpleNamespace(monotonic=now),
        dice=SimpleNamespace(uniform=lambda low, high: high),
        source=SimpleNamespace(connect=no_memory),
        reach=SimpleNamespace(lost=lambda node: None),
        source_trouble=lambda error: None,
    )
    return Lanes(cast("SlotRunner", runner), cast("asyncio.TaskGroup", None))


def test_a_lane_that_never_gets_the_memory_for_a_connection_ends_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = SimpleNamespace(node=1, epoch=0)
    monkeypatch.setattr(replicas, "fetched_from", lambda *_: at)
    monkeypatch.setattr(replicas, "leave", lambda *_: None)

    async def fetch() -> None:
        loop = asyncio.get_running_loop()
        lanes = lanes_without_memory(loop.time)
        with pytest.raises(StarvedError, match="no memory for a connection to 1"):
            await lanes._lane(LaneKey(1, Pace.LIVE))
        assert STARVED_S < loop.time() < 2 * STARVED_S

    in_virtual_time(fetch())


async def test_a_slot_of_a_process_that_starves_is_not_tried_again_by_it() -> None:
    async def starves(stop: Stop) -> NoReturn:
        del stop
        raise StarvedError("memory was missing for 11 s.")

    runner = SimpleNamespace(
        slot=slot(),
        is_lost=False,
        wedges=SimpleNamespace(forget=lambda: None),
        doubts=SimpleNamespace(begin=lambda: None),
        spare=NoSpare(),
        ended=asyncio.Event(),
        state=SlotState.WAITING,
        move=lambda state: None,
        _goes_on_at_once=True,
        _hold=starves,
        _stop=lambda: None,
    )
    with pytest.raises(StarvedError):
        async with asyncio.timeout(5):
            await SlotRunner.run(cast("SlotRunner", runner), Stop(SystemClock(), 5.0))
