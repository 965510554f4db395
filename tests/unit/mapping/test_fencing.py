"""The emergency stop of a slot, which its owner copies with one of two ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import FleetName, SlotNumber
from mirrorfleet.core.names import spare_id
from mirrorfleet.mapping import fencing
from mirrorfleet.mapping.fencing import mark
from mirrorfleet.records.positions import Fence, Lifted
from tests.unit.copying.making import LINK

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster

SLOT = SlotNumber(3)
MAIN, SPARE = "mirrorfleet.west.east.3", spare_id(FleetName("west"), LINK.source, SLOT)


class Target:
    """The positions of one slot: who wrote, and which ids their owner lost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, pending: str = "") -> None:
        self.wrote: list[str] = []
        self._pending = pending
        monkeypatch.setattr(fencing, "slots_of_link", self._slots)
        monkeypatch.setattr(fencing, "write_by_order", self._write)

    async def _slots(self, *_: object) -> tuple[SlotNumber, ...]:
        return (SLOT,)

    async def _write(self, _: object, name: str, *__: object, what: str) -> None:
        if name == self._pending:
            raise BrokerError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{what} {name}")
        self.wrote.append(name)

    async def mark(self, entry: Fence | Lifted) -> str:
        found = await mark(cast("Cluster", self), FleetName("west"), LINK, entry, 0)
        return found[SLOT]


async def test_each_id_of_a_slot_writes_the_mark_and_the_spare_one_first_and_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Target(monkeypatch)

    assert await target.mark(Fence(who="me", reason="a drill", time_ms=0)) == ""
    assert target.wrote == [SPARE, MAIN, SPARE]


async def test_an_owner_with_the_spare_id_is_stopped_while_the_main_one_is_out_of_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Target(monkeypatch, pending=MAIN)

    assert "CONCURRENT_TRANSACTIONS" in await target.mark(
        Fence(who="me", reason="a drill", time_ms=0)
    )
    assert target.wrote == [SPARE, SPARE]


async def test_an_owner_with_the_main_id_is_stopped_while_the_spare_one_is_out_of_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They have different coordinators. That one id could not write is told."""
    target = Target(monkeypatch, pending=SPARE)

    trouble = await target.mark(Fence(who="me", reason="a drill", time_ms=0))

    assert (target.wrote, SPARE in trouble) == ([MAIN], True)


async def test_a_fence_is_lifted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(monkeypatch)

    assert await target.mark(Lifted()) == ""
    assert target.wrote == [MAIN]
