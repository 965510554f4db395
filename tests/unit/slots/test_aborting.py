"""While it is found out whether an id can go on, the brokers are connected to for the other one."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.faults import Action
from mirrorfleet.copying.schedule import Depth
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import FencedError
from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.kafka.producer import ProduceAck
from mirrorfleet.kafka.transactions import TransactionVersion
from mirrorfleet.records.formats import LEVELS
from mirrorfleet.slots.aborting import aborted
from mirrorfleet.slots.outgoing import AbortError, RetakeError
from mirrorfleet.slots.quarantine import WedgedError
from tests.unit.slots.stubs import NoSpare
from tests.unit.slots.wedged import MAIN, SICK, World

if TYPE_CHECKING:
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender


class Aborted:
    """A slot whose transaction comes to nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world = World(monkeypatch)
        self.world, self.seen = world, list[str]()
        self.spare = world.runner.spare = NoSpare()
        more = {
            "number": SlotNumber(3),
            "trouble": "",
            "transaction_version": TransactionVersion.V2,
            "meters": SimpleNamespace(aborted=lambda *_: nullcontext()),
            "depth": Depth(4),
            "doubts": SimpleNamespace(
                closed=lambda: self.seen.append("closed"), renew=lambda: self.seen.append("doubts")
            ),
        }
        vars(world.runner).update(more)
        world.runner.targets.ask = lambda: None
        world.looks = [("CompleteAbort", ())] * 3

    async def abort(self) -> None:
        await asyncio.sleep(0)
        self.seen.append("abort")

    async def ends(self, error: AbortError) -> None:
        await aborted(cast("SlotRunner", self.world.runner), cast("Sender", self), error)


@pytest.fixture
def slot(monkeypatch: pytest.MonkeyPatch) -> Aborted:
    return Aborted(monkeypatch)


def of(code: ErrorCode, action: Action = Action.ABORT) -> AbortError:
    ack = ProduceAck(SICK.topic, SICK.partition, code, 0, -1, 0, None, (), None)
    return AbortError(code.name, action, ack=ack)


@pytest.mark.parametrize(
    ("code", "done"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ["reach", "rest"]),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ["reach", "rest"]),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, []),
    ],
)
async def test_brokers_are_connected_to_meanwhile_where_one_has_too_few_replicas(
    slot: Aborted, code: ErrorCode, done: list[str]
) -> None:
    await slot.ends(of(code))

    assert slot.seen == ["abort", "closed", "doubts"]
    assert slot.spare.done == done
    first, *others = slot.world.coordinators  # before the abort; beside it; after it
    assert (first, others) == ({}, [{}, {MAIN: 1}] if done else [])


async def test_who_goes_on_with_the_spare_id_keeps_its_connections(slot: Aborted) -> None:
    slot.world.looks = [("Ongoing", ()), ("Ongoing", ()), ("PrepareAbort", (SICK,))]

    with pytest.raises(WedgedError):
        await slot.ends(of(ErrorCode.NOT_ENOUGH_REPLICAS))

    assert slot.spare.done == ["reach"]


async def test_a_worker_that_leaves_nothing_behind_connects_to_nobody(slot: Aborted) -> None:
    """Older builds of the fleet could not read what it would write."""
    slot.world.runner.formats = LEVELS[1]

    await slot.ends(of(ErrorCode.NOT_ENOUGH_REPLICAS))

    assert slot.spare.done == []


@pytest.mark.parametrize(
    ("action", "kind"), [(Action.FENCED, FencedError), (Action.SLOT_DENIED, RetakeError)]
)
async def test_whose_id_is_anothers_or_denied_says_so(
    slot: Aborted, action: Action, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        await slot.ends(of(ErrorCode.INVALID_PRODUCER_EPOCH, action))

    assert ("abort" in slot.seen) is (action is Action.SLOT_DENIED)
