"""What owners before us may have left open where we have not written yet: in the ledger, which is
everybody's, and in a partition that was left out for a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.ids import ProducerIdentity
from mirrorfleet.kafka.inspection import TransactionDescription
from mirrorfleet.slots import taking
from mirrorfleet.slots.quarantine import WedgedError
from mirrorfleet.slots.starting import Starts
from tests.unit.copying.making import identity
from tests.unit.slots.settled import COPY, LEDGER, OTHER, SPARE, World
from tests.unit.slots.stubs import PRODUCER

if TYPE_CHECKING:
    from mirrorfleet.slots.runner import SlotRunner


@pytest.mark.parametrize(
    ("state", "end"), [("CompleteCommit", "commit"), ("CompleteAbort", "abort")]
)
async def test_what_an_owner_before_left_open_in_the_ledger_ends_as_its_transaction_did(
    monkeypatch: pytest.MonkeyPatch, state: str, end: str
) -> None:
    """Nobody could read past it, and our next marker there would end it with ours."""
    world = World(monkeypatch)
    number = PRODUCER.producer_id
    last = TransactionDescription("t", state, ProducerIdentity(number, 4), 1, ())
    world.sender.producer = ProducerIdentity(number, 5)
    world.doubts.control_ends[LEDGER] = 2  # of when we had the slot last
    world.open[LEDGER] = [(ProducerIdentity(number, 3), 7)]
    world.doubts.fenced("t", world.sender.producer, last)
    assert world.doubts.doubted == {LEDGER}
    world.doubts.settled("t")
    world.doubts.renew()

    wanted = ["state", f"add {LEDGER}", end, "coordinator closed"]
    assert await world.settled() == wanted


async def test_what_we_wrote_to_the_ledger_ourselves_ends_as_we_know_that_it_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    committed = TransactionDescription("t", "CompleteCommit", PRODUCER, 1, ())
    world.doubts.fenced("t", PRODUCER, committed)
    world.doubts.control_ends[LEDGER] = 8
    world.open[LEDGER] = [(PRODUCER, 7)]
    world.doubts.renew()

    assert "commit" in await world.settled()


async def test_an_id_that_is_taken_again_before_it_wrote_tells_how_the_last_one_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The coordinator has forgotten that, and what it left open may not be ended yet."""
    world = World(monkeypatch)
    committed = TransactionDescription("t.spare", "CompleteCommit", SPARE, 1, ())
    world.doubts.fenced("t.spare", SPARE, committed)
    world.doubts.settled("t.spare")

    world.state = "Empty"
    assert await world.doubts.last_of("t.spare") is committed
    world.state = "CompleteAbort"
    assert await world.doubts.last_of("t.spare") is not committed


async def test_an_id_that_is_not_in_use_puts_nothing_in_doubt_when_it_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Copying goes on meanwhile, and would wait for the ledger's leader."""
    world = World(monkeypatch)
    world.doubts.fenced("t.spare", SPARE, None)
    assert world.doubts.doubted == set()
    world.doubts.renew()
    assert LEDGER in world.doubts.doubted


async def test_the_ledger_is_in_doubt_with_the_rest_from_the_first_take_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.doubts.renew()
    assert LEDGER not in world.doubts.doubted

    world.doubts.fenced("t", PRODUCER, None)
    await world.doubts.settle(world.sender)
    assert world.doubts.doubted == set()
    world.doubts.renew()
    assert LEDGER in world.doubts.doubted


async def test_a_ledger_that_has_no_leader_holds_up_no_copying(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.leaderless = {LEDGER}
    world.doubts.fenced("t", PRODUCER, None)
    world.doubts.renew()

    assert await world.doubts.settle(world.sender)
    assert world.doubts.doubted == {LEDGER}


async def test_a_partition_that_is_copied_again_is_asked_about_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While it was left out nobody ended what had lost its marker there."""
    world = World(monkeypatch)
    slot, one = world.runner.slot, identity(0)
    kept, position = slot.partitions[one].entry, slot.partitions[one].committed
    slot.dismiss(one)
    del world.runner.entries[one]
    world.open[COPY] = [(PRODUCER, 100)]
    world.doubts.renew()
    assert await world.settled() == []

    world.runner.entries[one] = kept
    slot.known[one] = position
    vars(world.runner).update(unstarted={}, sources=world.runner.targets)
    starts = Starts({}, {})
    await taking.admit(cast("SlotRunner", world.runner), world.sender, [kept], starts)

    assert world.doubts.doubted == {COPY}
    assert "abort" in await world.settled()


async def test_what_the_main_id_left_open_in_the_ledger_waits_for_it_and_holds_up_no_copying(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody copies to it, so to leave it behind changes nothing: the slot would be taken again and
    again.
    """
    world = World(monkeypatch)
    world.wedges.left_behind = frozenset({COPY})
    await world.doubts.learn()
    world.doubts.fenced("t", PRODUCER, None)
    world.open[LEDGER] = [(SPARE, 7)]

    assert await world.settled() == ["state t.spare"]
    assert world.doubts.doubted == set()
    world.open[OTHER] = [(SPARE, 100)]
    world.doubts.renew()
    with pytest.raises(WedgedError, match=r"^east\.orders-1$"):
        await world.settled()
