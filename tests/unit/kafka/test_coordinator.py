"""A coordinator whose host vanished: nobody waits for it longer than for anything else."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.errors import ConnectionLostError, DeadlineError
from mirrorfleet.kafka import coordinator as module
from mirrorfleet.kafka import transactions as module_of_transactions
from mirrorfleet.kafka.coordinator import CoordinatorConnection, CoordinatorKind
from mirrorfleet.kafka.transactions import Transactions, TransactionVersion
from tests.faultkit.hold import hold_sync

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster


class Vanished:
    """A cluster that names a broker as coordinator which takes no connection, for `hangs` times."""

    name = "west"

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, hangs: int = 1_000) -> None:
        self.hangs = hangs
        self.dialed = 0
        self.settings = SimpleNamespace(request_timeout_s=30.0)
        self.dice = random.Random(1)
        monkeypatch.setattr(module, "find_coordinator", self.find)

    async def find(self, *_: object) -> int:
        return 1

    async def connect(self, node_id: int, *, purpose: str) -> object:
        self.dialed += 1
        if self.dialed <= self.hangs:
            await asyncio.sleep(60)
        raise ConnectionLostError(f"{node_id} refuses ({purpose})")


async def test_a_connection_is_given_up_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cast("Cluster", Vanished(monkeypatch))
    coordinator = CoordinatorConnection(cluster, "fleet", CoordinatorKind.GROUP)
    async with asyncio.timeout(10):
        with pytest.raises(DeadlineError, match=r"coordinator of fleet: no connection in 0.2 s"):
            await coordinator.get(0.2)


async def test_a_request_of_a_transaction_keeps_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Vanished(monkeypatch)
    transactions = Transactions(cast("Cluster", cluster), "slot", TransactionVersion.V2)
    async with asyncio.timeout(10):
        with pytest.raises(DeadlineError, match=r"gave up after 0.4 s; last: .*no connection"):
            await transactions.init_producer_id(timeout_ms=15_000, deadline_s=0.4)
    assert cluster.dialed >= 1


async def test_what_a_sleeper_wanted_is_not_asked_for_when_it_wakes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another worker may have taken the id meanwhile, and would be fenced."""
    asked: list[object] = []
    transactions = Transactions(
        cast("Cluster", Vanished(monkeypatch)), "slot", TransactionVersion.V2
    )

    async def asleep(*_: object, **__: object) -> object:
        hold_sync(0.05, reason="the process is frozen")
        return object()

    async def call(*given: object) -> object:
        asked.append(given)
        raise ConnectionLostError("nobody answers")

    monkeypatch.setattr(transactions._coordinator, "get", asleep)
    monkeypatch.setattr(module_of_transactions, "call", call)
    with pytest.raises(DeadlineError, match="before it was sent"):
        await transactions.init_producer_id(timeout_ms=15_000, deadline_s=0.02)
    assert asked == []
