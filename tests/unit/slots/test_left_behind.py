"""What the catalog says of a partition while its slot goes on without it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from mirrorfleet.copying.faults import FaultReason
from tests.unit.copying.making import entry, identity
from tests.unit.slots.wedged import SICK, World

if TYPE_CHECKING:
    import pytest

    from mirrorfleet.slots.sending import Sender


async def test_a_new_incarnation_of_what_is_left_behind_says_why_it_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.wedges.left_behind = frozenset({SICK})
    again = entry(0, identity=replace(identity(0), incarnation=1))
    world.runner.slot.dismiss(identity(0))
    world.runner.entries = {again.identity: again, identity(1): entry(1)}
    world.looks = [("Empty", ())] * 5

    await world.wedges.watch(cast("Sender", None))

    (left,) = world.runner.unstarted.values()
    assert (left.entry, left.fault.reason) == (again, FaultReason.QUARANTINED)
