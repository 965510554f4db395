"""An id of a slot is taken when nothing that it left open is in doubt, and by whom."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.kafka.transactions import Transactions, TransactionVersion
from mirrorfleet.slots import fencing
from mirrorfleet.slots.outgoing import RetakeError
from tests.unit.slots.settled import POSITIONS, World
from tests.unit.slots.stubs import Coordinator

if TYPE_CHECKING:
    from mirrorfleet.slots.runner import SlotRunner


async def test_an_id_is_not_taken_before_the_leaders_of_its_positions_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    coordinator = cast("Transactions", Coordinator(world.log, TransactionVersion.V2))
    coordinator.transactional_id = "t"
    world.unreachable = {POSITIONS}
    with pytest.raises(DeadlineError):
        await fencing.fence_settled(cast("SlotRunner", world.runner), coordinator)
    assert "init" not in world.log.seen


@pytest.mark.parametrize("is_member", [True, False])
async def test_an_id_that_nobody_waits_for_is_taken_by_a_member_only_and_given_up_soon(
    monkeypatch: pytest.MonkeyPatch, *, is_member: bool
) -> None:
    """Who overslept would fence the next owner."""
    world = World(monkeypatch)
    coordinator = Coordinator(world.log, TransactionVersion.V2)
    coordinator.transactional_id, world.wedges.is_owner = "t.spare", False
    asked: list[int] = []

    async def confirm() -> bool:
        asked.append(len(world.log.seen))
        return is_member

    vars(world.runner)["confirm"] = confirm
    taken = fencing.fence_settled(
        cast("SlotRunner", world.runner), cast("Transactions", coordinator), only_member_s=5.0
    )
    with nullcontext() if is_member else pytest.raises(RetakeError, match="are a member"):
        await taken

    assert ("init" in world.log.seen) is is_member
    assert coordinator.deadlines == [5.0] * is_member
    assert not is_member or world.log.seen[asked[0]] == "init"
