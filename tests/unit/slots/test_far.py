"""Which brokers are taken for far away, and for how long."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mirrorfleet.copying.partition import Pace
from mirrorfleet.slots import fetching
from tests.faultkit.waiting import until
from tests.unit.copying.making import entry, identity
from tests.unit.slots.striped import turns
from tests.unit.slots.test_fetching import Source, fetching_from, runner_of


@pytest.mark.parametrize("is_near", [True, False])
async def test_a_broker_that_seemed_far_while_it_was_busy_is_fetched_from_as_a_near_one(
    monkeypatch: pytest.MonkeyPatch, *, is_near: bool
) -> None:
    ran: list[object] = []

    async def far(_: object) -> bool:
        return True

    def striped(*_: object) -> object:
        return SimpleNamespace(run=run, is_near=is_near, answered=True)

    async def run(connection: object) -> None:
        ran.append(connection)

    source, runner = Source(), runner_of(entry(0))
    async with fetching_from(source, runner, monkeypatch):
        monkeypatch.setattr(fetching, "is_far", far)
        monkeypatch.setattr(fetching, "StripedLane", striped)
        runner.slot.partitions[identity(0)].pace = Pace.CATCH_UP
        await until(lambda: ran, deadline_s=5, what="a striped lane")
        await turns()
        assert len(source.held) == 1 + is_near
        if is_near:
            source.held.pop().cancel()
