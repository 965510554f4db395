"""What the slots of a worker share: clusters, leaders, memory, markers, and where events go."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from mirrorfleet.copying.allowance import Allowance
from mirrorfleet.copying.schedule import MarkerShare
from mirrorfleet.copying.seats import Seats
from mirrorfleet.copying.urgency import Urgency
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.control_writer import write_waiting
from mirrorfleet.records import commands as command_codec
from mirrorfleet.records import events as event_codec
from mirrorfleet.records.events import Event, EventKind
from mirrorfleet.records.formats import FIRST_LEVEL, LEVELS, Formats, formats_at
from mirrorfleet.records.topics import ControlKind, control_topic
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.slots.requests import Requests

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from mirrorfleet.copying.budget import MemoryBudget
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.core.ids import (
        FleetName,
        Link,
        PartitionIdentity,
        SlotNumber,
        TargetOffset,
    )
    from mirrorfleet.core.ports import Clock, Dice
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.kafka.control import ControlWriter
    from mirrorfleet.kafka.transactions import TransactionVersion
    from mirrorfleet.offsets.ahead import Compared
    from mirrorfleet.offsets.index import OffsetIndex
    from mirrorfleet.records.commands import Command
    from mirrorfleet.records.segments import Run
    from mirrorfleet.slots.leaders import Leaders
    from mirrorfleet.slots.meters import LinkMeters
    from mirrorfleet.slots.settings import SlotSettings

EVENTS_KEPT = 10_000
"""Events that wait to be written; the oldest go when the target cannot be reached for long."""

_log = logger(__name__)


@dataclass(slots=True, eq=False)
class SourceSide:
    """The source of one link."""

    link: Link
    cluster: Cluster
    leaders: Leaders
    meters: LinkMeters
    principal: str
    keeper: asyncio.Task[None]
    seats: Seats = field(default_factory=Seats)


class StoredMap(Protocol):
    """The map as it is stored; the answers take a while, and raise MirrorfleetError."""

    async def maps_of(self, slot: SlotNumber, wanted: Collection[PartitionIdentity]) -> OffsetIndex:
        """All that is known of some partitions of a slot."""
        ...

    async def runs_behind(
        self, slot: SlotNumber, identity: PartitionIdentity, first: TargetOffset
    ) -> list[Run]:
        """The runs of a partition that end behind a target offset."""
        ...

    async def compared_with(
        self, slot: SlotNumber, copied: Mapping[PartitionIdentity, TargetOffset]
    ) -> Compared:
        """Positions beside what was stored last; packed ones are not read."""
        ...


@dataclass(slots=True, eq=False)
class Worker:
    """One mirror process."""

    owner: str
    fleet: FleetName
    settings: SlotSettings
    clock: Clock
    dice: Dice
    target: Cluster
    targets: Leaders
    version: TransactionVersion
    principal: str
    budget: MemoryBudget
    confirm: Callable[[], Awaitable[bool]]
    """Asks the coordinator of the workers' group whether we are a member now."""
    stored_map: StoredMap
    formats: Formats = LEVELS[FIRST_LEVEL]
    """What to write, by the level in the catalog."""
    markers: MarkerShare = field(default_factory=MarkerShare)
    urgency: Urgency = field(default_factory=Urgency)
    allowances: defaultdict[int, Allowance] = field(default_factory=lambda: defaultdict(Allowance))
    """Of each broker of the target."""
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT))
    requests: Requests = field(default_factory=Requests)
    """What operators ask of us."""
    asked: deque[Command] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT))
    """What we ask of `sync`, until it is written."""
    _telling: asyncio.Lock = field(default_factory=asyncio.Lock)
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def tell(self, writer: ControlWriter) -> None:
        """Write the events that wait. Raises: as the writer; they go on waiting.

        One at a time: a worker's last words may meet what it reports every second.
        """
        async with self._telling:
            at = TopicPartition(control_topic(self.fleet, ControlKind.EVENTS), 0)
            now_ms = self.clock.now_ms()
            await write_waiting(writer, at, self.events, event_codec.encode, now_ms)

    async def ask(self, writer: ControlWriter) -> None:
        """Write the requests that wait, as `tell` does, and whatever becomes of the events."""
        async with self._asking:
            at = TopicPartition(control_topic(self.fleet, ControlKind.COMMANDS), 0)
            now_ms = self.clock.now_ms()
            await write_waiting(writer, at, self.asked, command_codec.encode, now_ms)

    def write_at(self, level: int) -> None:
        """Write what a format level says from now on."""
        self.formats = formats_at(level)

    def event(
        self,
        kind: EventKind,
        link: Link | None = None,
        partition: CopyPartition | None = None,
        *,
        detail: str = "",
        cause: str = "",
    ) -> None:
        """Put an event into the ledger's queue."""
        entry = None if partition is None else partition.entry
        span = None
        if partition is not None and partition.fault is not None:
            span = partition.fault.span
        self.events.append(
            Event(
                kind=kind,
                time_ms=self.clock.now_ms(),
                writer=self.owner,
                detail=detail,
                cause=cause,
                link=link,
                topic=None if entry is None else entry.source_topic,
                partition=None if entry is None else entry.identity.partition,
                first=None if span is None else span.first,
                end=None if span is None else span.end,
            )
        )

    def faulted(self, link: Link, partition: CopyPartition) -> None:
        """Say that a partition stands still: once, however often it is tried again."""
        fault, told = partition.fault, partition.reported
        if fault is None or (told is not None and fault.is_again(told)):
            return
        partition.reported = fault
        self.event(
            EventKind.PARTITION_FAULTED, link, partition, detail=str(fault), cause=fault.reason
        )
        _log.error(
            "partition stands still",
            extra=fields(
                link=str(link),
                topic=partition.entry.source_topic,
                partition=partition.identity.partition,
                offset=fault.offset,
                error=str(fault),
            ),
        )

    def recovered(self, link: Link, partition: CopyPartition) -> None:
        """Say that a partition that stood still moves again."""
        if partition.has_recovered:
            self.event(
                EventKind.PARTITION_RECOVERED, link, partition, detail=str(partition.reported)
            )
            partition.reported = None
