"""How each open transaction ended is decided once, whatever our own attempts change since."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError
from mirrorfleet.core.ids import ProducerIdentity, TopicPartition
from mirrorfleet.kafka import left_open
from mirrorfleet.kafka.inspection import ActiveProducer, TransactionDescription
from mirrorfleet.kafka.left_open import LeftOpen, LeftOpenError
from mirrorfleet.kafka.transactions import Transactions, TransactionVersion
from tests.unit.slots.stubs import Coordinator, Target

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster

OWNER = ProducerIdentity(7, 6)
POSITIONS, SEGMENTS = TopicPartition("positions", 3), TopicPartition("segments", 3)


class Busy(Coordinator):
    """It ends transactions, and after the first one takes no other for a while."""

    async def end(self, producer: ProducerIdentity, *, commit: bool) -> ProducerIdentity:
        self.trouble = DeadlineError("busy")
        return await super().end(producer, commit=commit)


class West:
    """What leaders and coordinator tell."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log = Target()
        self.open: dict[TopicPartition, ProducerIdentity] = {}
        self.state = TransactionDescription("t", "CompleteCommit", OWNER, 1, ())
        self.refused: ErrorCode | None = None
        monkeypatch.setattr(left_open, "describe_producers", self._producers)
        monkeypatch.setattr(left_open, "describe_transactions", self._transactions)
        cluster = cast("Cluster", SimpleNamespace(name="west"))
        self.left_open = LeftOpen(cluster, "t", [POSITIONS, SEGMENTS], 15_000)

    async def _producers(
        self, _: object, asked: list[TopicPartition], **__: object
    ) -> dict[TopicPartition, list[ActiveProducer] | BrokerError]:
        if self.refused is not None:
            return {at: BrokerError(self.refused, f"DescribeProducers {at}") for at in asked}
        return {
            at: [ActiveProducer(self.open[at], 0, 0, 7)] if at in self.open else [] for at in asked
        }

    async def _transactions(self, *_: object, **__: object) -> dict[str, TransactionDescription]:
        return {"t": self.state}

    async def settle(self, coordinator: Coordinator, epoch: int) -> ProducerIdentity:
        taken = OWNER._replace(epoch=epoch)
        return await self.left_open.settle(cast("Transactions", coordinator), taken)


async def test_what_was_decided_stays_so_though_our_own_marker_was_the_last_transaction_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    west = West(monkeypatch)
    west.open = {POSITIONS: OWNER._replace(epoch=5), SEGMENTS: OWNER}
    await west.left_open.look()
    with pytest.raises(LeftOpenError) as error:
        await west.settle(Busy(west.log, TransactionVersion.V2), 7)
    assert error.value.retriable
    assert west.log.seen == [f"add {POSITIONS}", "commit", f"add {SEGMENTS}"]

    west.log.seen.clear()
    del west.open[POSITIONS]
    west.state = west.state._replace(producer=OWNER._replace(epoch=8))
    await west.left_open.look()
    following = await west.settle(Coordinator(west.log, TransactionVersion.V2), 9)

    assert west.log.seen == [f"add {SEGMENTS}", "abort"]
    assert following == OWNER._replace(epoch=10)


async def test_who_may_not_ask_is_told_which_right_is_missing_and_not_to_try_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    west = West(monkeypatch)
    west.refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    with pytest.raises(LeftOpenError, match="READ on these topics") as error:
        await west.left_open.look()

    assert not error.value.retriable
    assert "Run it again" not in str(error.value)
