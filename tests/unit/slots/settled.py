"""Two copied partitions whose leaders tell what is open in them; the coordinator's log."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import MethodType, SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.core.errors import DeadlineError, MirrorfleetError
from mirrorfleet.core.ids import ProducerIdentity, TargetOffset, TopicPartition
from mirrorfleet.kafka import left_open
from mirrorfleet.kafka.inspection import ActiveProducer
from mirrorfleet.kafka.offsets import EpochEnd
from mirrorfleet.kafka.transactions import TransactionVersion
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.slots import endings, lineage, settling, silence
from mirrorfleet.slots import runner as running
from mirrorfleet.slots.leaders import LeaderAt
from mirrorfleet.slots.quarantine import WedgedError
from mirrorfleet.slots.runner import SlotRunner
from mirrorfleet.slots.settling import Doubts
from tests.unit.copying.making import ALONE, entry, fetched, give, identity
from tests.unit.slots.stubs import Coordinator, Lane, Target, Wedges, sender_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

COPY = TopicPartition("east.orders", 0)
OTHER = TopicPartition("east.orders", 1)
CONTROL_KINDS = (ControlKind.POSITIONS, ControlKind.SEGMENTS)
CONTROL = POSITIONS, SEGMENTS = TopicPartition("positions", 2), TopicPartition("segments", 2)
LEDGER = TopicPartition("__mirrorfleet.west.events", 0)
STRANGER, SPARE = ProducerIdentity(99, 0), ProducerIdentity(8, 3)


class World:
    """Two copied partitions, up to 100 each; what is open in them; the coordinator's log."""

    lost_at_state: TopicPartition | None = None
    """Out of reach from when the coordinator was asked."""
    away: MirrorfleetError = DeadlineError("gave up")
    silent_s = 0.0
    """How long the leader of what is unreachable is waited for."""
    asked = 0
    """So often somebody said that the leaders may be others."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, version: TransactionVersion = TransactionVersion.V2
    ) -> None:
        self.log = Target()
        self.open: dict[TopicPartition, list[tuple[ProducerIdentity, int | None]]] = {}
        self.looks: list[list[TopicPartition]] = []
        self.leaderless: set[TopicPartition] = set()
        self.unreachable: set[TopicPartition] = set()
        self.epoch, self.state = 0, "CompleteAbort"
        self.listeners: list[Callable[[], None]] = []
        ids = {"spare_id": "t.spare", "other_id": "t.spare"}
        self.wedges = SimpleNamespace(left_behind=frozenset(), leave=self.leave, **ids)
        self.sender, runner = sender_of(self.log, entry(0), entry(1), version=version)
        for number in range(2):
            partition = runner.slot.partitions[identity(number)]
            runner.entries[identity(number)] = partition.entry
            partition.committed = replace(partition.committed, next_target=TargetOffset(100))
        more = {
            "target": SimpleNamespace(connect=self.connect),
            "link": "east->west",
            "dice": None,
            "transactional_id": "t",
            "transaction_version": version,
            "keep_alive": self.keep_alive,
            "control_partition": dict(zip(CONTROL_KINDS, CONTROL, strict=True)).__getitem__,
            "wedges": self.wedges,
        }
        vars(runner).update(more)
        vars(runner.targets).update(of=self.leader, on_change=self.listeners.append)
        self.runner = runner
        self.doubts = Doubts(cast("SlotRunner", runner))
        monkeypatch.setattr(silence, "describe_producers", self.producers)
        monkeypatch.setattr(left_open, "describe_producers", self.producers)
        monkeypatch.setattr(lineage, "offset_for_leader_epoch", self.epoch_ends)
        for module in (left_open, settling):
            monkeypatch.setattr(module, "describe_transactions", self.transactions)
        monkeypatch.setattr(
            endings, "Transactions", lambda *_, **__: Coordinator(self.log, version)
        )
        self._let_send(monkeypatch, version)

    def _let_send(self, monkeypatch: pytest.MonkeyPatch, version: TransactionVersion) -> None:
        """The sender makes transactions as well, over connections that the slot allows."""
        self.lanes: dict[int, Lane] = {}
        """The last connection to each broker."""
        self.log.bases.update({COPY: 100, OTHER: 100})
        vars(self.wedges).update(avoided=frozenset(), added=Wedges().added)
        vars(self.runner.targets).update(ask=self.ask)
        more = {
            "produce_lane": MethodType(SlotRunner.produce_lane, self.runner),
            "doubts": self.doubts,
            "tasks": None,
            "_worker": SimpleNamespace(version=version),
        }
        vars(self.runner).update(more)
        monkeypatch.setattr(running, "ProduceLane", lambda connection, **_: connection)

    def leader(self, topic: str, partition: int) -> LeaderAt | None:
        return None if (topic, partition) in self.leaderless else LeaderAt(partition, self.epoch)

    def ask(self) -> None:
        self.asked += 1

    async def connect(self, node: int, *, purpose: str) -> Lane:
        del purpose
        self.lanes[node] = Lane(self.log)
        return self.lanes[node]

    async def copied(self, *numbers: int, batches: int = 1) -> bool:
        """A transaction of so many records more of each of these partitions."""
        for number in numbers:
            partition = self.runner.slot.partitions[identity(number)]
            begin = partition.committed.next_source
            some = [(begin + each, [ALONE]) for each in range(batches)]
            give(self.runner.slot, partition, fetched(*some), end=begin + batches)
        return await self.sender.transact()

    def leave(self, more: dict[TopicPartition, bool]) -> None:
        raise WedgedError(",".join(map(str, more)))

    async def keep_alive(self, sender: object) -> None:
        assert sender is self.sender
        self.log.seen.append("keep alive")

    def renewed(self) -> None:
        """The metadata is read again."""
        for listener in self.listeners:
            listener()

    async def producers(
        self, cluster: object, asked: list[TopicPartition], *, deadline_s: float | None = 0
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        del cluster, deadline_s
        self.looks.append(sorted(asked))
        if not self.unreachable.isdisjoint(asked):
            await asyncio.sleep(self.silent_s)
            raise self.away
        return {
            at: [ActiveProducer(who, 0, 0, start) for who, start in self.open.get(at, [])]
            for at in asked
        }

    async def epoch_ends(
        self, _: object, wanted: dict[TopicPartition, int], *, deadline_s: float
    ) -> dict[TopicPartition, EpochEnd]:
        """All that was copied is there."""
        del deadline_s
        return {at: EpochEnd(epoch, 1 << 40) for at, epoch in wanted.items()}

    async def transactions(
        self, cluster: object, names: list[str], **_: object
    ) -> dict[str, object]:
        del cluster
        if self.lost_at_state is not None:
            self.unreachable = {self.lost_at_state}
        self.log.seen.append("state" if names == ["t"] else f"state {names[0]}")
        return {name: SimpleNamespace(state=self.state, producer=SPARE) for name in names}

    async def settled(self) -> list[str]:
        """What the coordinator was asked for."""
        await self.doubts.settle(self.sender)
        return self.log.seen
