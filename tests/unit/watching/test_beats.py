"""What a heartbeat took, by two clocks, and when it came, by one that is never set."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

import pytest

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.records import heartbeat
from mirrorfleet.watching import beats as module
from mirrorfleet.wire.records import Record
from tests.fakes.clock import HandClock
from tests.unit.records.making import LINK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NOW_MS = 1_000_000
SETTINGS = ClusterSettings(alias=ClusterAlias("west"), bootstrap=("x:1",))


class Tail:
    """One that was there before, then one from behind our clock and one from ahead of it.

    All is given out with the last of what was there: `ControlTail` says so already then.
    """

    caught_up = False
    """At the begin, when nothing of it has come."""

    def __init__(self, *_: object) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def __aiter__(self) -> AsyncIterator[Record]:
        for offset, made_ms in enumerate((NOW_MS - 9_000, NOW_MS - 30, NOW_MS + 2_000)):
            self.caught_up = True
            beat = heartbeat.encode(heartbeat.Heartbeat(LINK.source, LINK.target, made_ms))
            yield Record(offset, made_ms, *beat)
        await asyncio.Event().wait()


async def test_a_heartbeat_of_a_host_that_is_ahead_took_less_than_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "ControlTail", Tail)
    told: list[tuple[float, int]] = []
    done = asyncio.Event()

    def on_beat(came: float, took_ms: int) -> None:
        told.append((came, took_ms))
        if len(told) == 2:
            done.set()

    following = module.follow_beats(
        SETTINGS, lambda: "east.heartbeats", HandClock(seconds=7.5, wall_ms=NOW_MS), on_beat
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(following)
        await asyncio.wait_for(done.wait(), 5)
        task.cancel()

    assert told == [(7.5, 30), (7.5, -2_000)]
