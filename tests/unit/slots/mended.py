"""A slot with one partition that stands still, and what its mender is told, writes and asks."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from mirrorfleet.copying.faults import Fault, FaultReason, Span
from mirrorfleet.copying.partition import CopyPartition
from mirrorfleet.copying.slot import Slot
from mirrorfleet.core.ids import (
    FleetName,
    PartitionIdentity,
    SourceOffset,
    TopicId,
    TopicPartition,
)
from mirrorfleet.records.commands import Action, Command
from mirrorfleet.records.events import Event
from mirrorfleet.records.formats import FIRST_LEVEL, LEVELS
from mirrorfleet.slots.leaders import LeaderAt
from mirrorfleet.slots.ledger import control_entries
from mirrorfleet.slots.mending import PATIENT_S, Mender
from mirrorfleet.slots.outgoing import ControlEntry
from mirrorfleet.slots.requests import Requests
from mirrorfleet.slots.runner import SlotRunner
from mirrorfleet.slots.sending import Sender
from mirrorfleet.slots.worker import Worker
from tests.unit.copying.making import LINK, asked, entry, identity, slot


class World:
    """A slot with one partition, its mender, and what both wrote and asked."""

    def __init__(self, policy: str = "fail") -> None:
        self.slot: Slot = slot(entry(on_source_loss=policy))
        self.partition: CopyPartition = self.slot.partitions[identity()]
        self.now = 100.0
        self.written: list[list[ControlEntry]] = []
        self.names: dict[str, TopicId] = {}
        """What has a name now, where that is known."""
        self.leaderless: set[TopicPartition] = set()
        self.few: set[TopicPartition] = set()
        """What takes nothing, for want of replicas."""
        clock = SimpleNamespace(monotonic=lambda: self.now, now_ms=lambda: 7)
        self.worker = SimpleNamespace(
            requests=Requests(),
            asked=deque[Command](),
            events=deque[Event](),
            owner="me",
            clock=clock,
        )
        self.runner = SimpleNamespace(
            slot=self.slot,
            source=None,
            clock=clock,
            link=LINK,
            owner="me",
            fleet=FleetName("west"),
            formats=LEVELS[FIRST_LEVEL],
            tasks=None,
            unstarted=dict[PartitionIdentity, CopyPartition](),
            control_partition=lambda kind: TopicPartition(f"__mirrorfleet.west.{kind}", 0),
            sources=SimpleNamespace(topic_id=self.names.get),
            targets=SimpleNamespace(
                topic_id=self.names.get, of=self.leader, has_few=lambda *at: at in self.few
            ),
            doubts=SimpleNamespace(doubted=set[TopicPartition](), doubt=lambda _: None),
            retry=self.slot.heal,
            stop_partition=lambda partition, fault: self.slot.fault(partition, fault, self.now),
        )
        self.mender = Mender(cast(SlotRunner, self.runner), cast(Worker, self.worker))
        self.runner.mender = self.mender

    @property
    def told(self) -> list[Event]:
        """What the ledger has by now."""
        return [event for entries in self.written for one in entries for event in one.events]

    def leader(self, topic: str, partition: int) -> LeaderAt | None:
        return None if (topic, partition) in self.leaderless else LeaderAt(1, 0)

    async def commit_control(self, entries: list[ControlEntry]) -> None:
        self.written.append(entries)

    def stand(self, reason: FaultReason, lost: Span | None = None, at: int = 0) -> None:
        self.slot.fault(self.partition, Fault(reason, SourceOffset(at), "why", lost), self.now)

    async def stand_for_long(self, reason: FaultReason, at: int) -> None:
        """It is seen, and so long ago that nothing is waited for."""
        self.stand(reason, at=at)
        await self.work()
        self.now += PATIENT_S

    def ask(self, action: Action, first: int, end: int) -> None:
        command = replace(asked(action, first, end), id="r1", expires_ms=8, writer="operator")
        self.worker.requests.take(command, came_ms=1)

    def commit(self, end: int) -> list[str]:
        """Where a commit of the position up to here writes."""
        position = replace(self.partition.committed, next_source=SourceOffset(end))
        written = control_entries(cast(SlotRunner, self.runner), [position], None)
        return [str(each.at) for each in written]

    async def work(self) -> None:
        self.now += 1.0
        await self.mender.work(cast(Sender, self))
