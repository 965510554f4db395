"""How a transaction of a slot ended, and where one of its ids has left something open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import pytest

from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.kafka.inspection import TransactionDescription
from mirrorfleet.kafka.transactions import Transactions, TransactionVersion
from mirrorfleet.slots import endings
from tests.unit.slots.settled import COPY, OTHER, POSITIONS, SEGMENTS, SPARE, STRANGER, World
from tests.unit.slots.stubs import PRODUCER, Coordinator

if TYPE_CHECKING:
    from mirrorfleet.core.ids import TopicPartition
    from mirrorfleet.slots.runner import SlotRunner

V1, V2 = TransactionVersion
LATEST: Final = PRODUCER.epoch + 5


async def test_where_an_id_has_something_open_is_asked_of_its_positions_and_of_what_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.open = {COPY: [(SPARE, 100)], OTHER: [(STRANGER, 1)], SEGMENTS: [(SPARE, 2)]}
    runner = cast("SlotRunner", world.runner)
    spare = TransactionDescription("t.spare", "Empty", SPARE, 15_000, ())
    assert await endings.is_open(runner, spare)
    assert not await endings.is_open(runner, None)
    assert not await endings.is_open(runner, spare._replace(producer=STRANGER))
    found = await endings.ask_control(runner, [COPY, OTHER], 2.0)
    assert {at for at, answer in found.items() if answer} == {SEGMENTS, COPY, OTHER}
    world.unreachable = {OTHER}
    with pytest.raises(DeadlineError):
        await endings.ask_control(runner, [OTHER], 2.0)


@pytest.mark.parametrize(
    ("version", "state", "epoch", "added", "end"),
    [
        # The coordinator has the next epoch once it decided.
        (V2, "CompleteCommit", LATEST - 1, (COPY,), "commit"),
        (V2, "PrepareCommit", LATEST - 1, (COPY, POSITIONS), "commit"),
        (V2, "CompleteCommit", LATEST, (COPY,), "abort"),  # written after the look, then fenced
        (V2, "Ongoing", LATEST, (COPY, POSITIONS), "abort"),
        (V2, "Ongoing", LATEST - 1, (COPY,), "commit"),  # of the commit before
        (V2, "CompleteAbort", LATEST - 2, (COPY,), "abort"),
        (V2, "Empty", LATEST - 2, (COPY,), "abort"),
        (V1, "CompleteCommit", LATEST, (COPY,), "commit"),
        (V1, "Ongoing", LATEST, (COPY, POSITIONS), "init"),
        (V1, "Ongoing", LATEST, (COPY,), "commit"),
        (V1, "PrepareAbort", LATEST, (COPY,), "init"),
    ],
)
async def test_open_positions_end_as_their_transaction_did_before_a_barrier_is_written(
    monkeypatch: pytest.MonkeyPatch,
    version: TransactionVersion,
    state: str,
    epoch: int,
    added: tuple[TopicPartition, ...],
    end: str,
) -> None:
    world = World(monkeypatch, version)
    runner = cast("SlotRunner", world.runner)
    coordinator = cast("Transactions", Coordinator(world.log, version))
    last = TransactionDescription("t", state, PRODUCER._replace(epoch=LATEST), 1, added)
    world.open[POSITIONS] = [(STRANGER, 7), (PRODUCER, None)]
    taken = PRODUCER._replace(epoch=LATEST + 2)
    assert await endings.settle_control(runner, coordinator, taken, last) == taken
    world.open[POSITIONS] = [(PRODUCER._replace(epoch=epoch), 7)]
    await endings.settle_control(runner, coordinator, taken, last)
    assert world.log.seen[:2] == [f"add {POSITIONS}", end]
    assert (world.log.seen[-1] == "init") is (version is V1)


@pytest.mark.parametrize(("name", "waits"), [("t", False), ("t.spare", True)])
async def test_what_was_asked_when_the_id_in_use_was_taken_is_not_asked_once_more(
    monkeypatch: pytest.MonkeyPatch, name: str, *, waits: bool
) -> None:
    world = World(monkeypatch)
    world.doubts.renew()
    coordinator = Coordinator(world.log, V2)
    coordinator.transactional_id = name

    await endings.settle_control(
        cast("SlotRunner", world.runner), cast("Transactions", coordinator), PRODUCER, None
    )

    assert world.doubts.must_wait is waits
    assert {COPY, OTHER} <= world.doubts.doubted
