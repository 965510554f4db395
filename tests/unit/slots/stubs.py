"""A target made of lists: it records what a sender does, in order, and answers as it is told."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from math import inf
from types import SimpleNamespace
from typing import cast
from unittest.mock import AsyncMock

from mirrorfleet.copying.allowance import Allowance
from mirrorfleet.copying.budget import MemoryBudget
from mirrorfleet.copying.schedule import CommitPolicy, Depth, MarkerShare
from mirrorfleet.copying.slot import Slot
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import ConnectionLostError, MirrorfleetError
from mirrorfleet.core.ids import (
    NO_TOPIC_ID,
    FleetName,
    PartitionIdentity,
    ProducerIdentity,
    SlotNumber,
    TopicPartition,
)
from mirrorfleet.kafka.producer import ProduceAck, ProduceEntry
from mirrorfleet.kafka.transactions import Transactions, TransactionVersion
from mirrorfleet.records import positions as position_codec
from mirrorfleet.records.catalog import CatalogPartition
from mirrorfleet.records.events import Event
from mirrorfleet.records.positions import Position
from mirrorfleet.records.segments import Segment, encode_segment
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.slots.holding import HeldBack
from mirrorfleet.slots.leaders import LeaderAt
from mirrorfleet.slots.outgoing import AbortError, ControlEntry
from mirrorfleet.slots.runner import SlotRunner
from mirrorfleet.slots.sending import Sender
from mirrorfleet.slots.settings import SlotSettings
from mirrorfleet.slots.waits import Bell
from mirrorfleet.wire.records import control_batch
from tests.unit.copying.making import slot

POSITIONS = TopicPartition("positions", 0)
SEGMENTS = TopicPartition("segments", 0)
PRODUCER = ProducerIdentity(7, 0)
MUCH = 1 << 30


class Target:
    """What happened, in order, and the errors to answer with: topic -> codes, used up in turn."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.refusals: dict[str, deque[ErrorCode]] = {}
        self.held: list[Callable[[], None]] = []
        self.hold_data = False
        self.bases: dict[tuple[str, int], int] = {}
        self.sequences: list[tuple[str, int, int]] = []
        """(topic, partition, base sequence) of each batch sent."""
        self.identity = PRODUCER

    def refuse(self, topic: str, *codes: ErrorCode) -> None:
        self.refusals.setdefault(topic, deque()).extend(codes)

    def ack(self, entry: ProduceEntry) -> ProduceAck:
        codes = self.refusals.get(entry.topic)
        code = codes.popleft() if codes else ErrorCode.NONE
        at = (entry.topic, entry.partition)
        base = self.bases.get(at, 0)
        if code is ErrorCode.NONE:
            self.bases[at] = base + int.from_bytes(entry.header[57:61], "big")
        return ProduceAck(entry.topic, entry.partition, code, base, -1, 0, None, (), None)


class Lane:
    """A produce lane to the one broker."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._asked: list[asyncio.Future[list[ProduceAck]]] = []
        self.connection = SimpleNamespace(closed=False, must_wait=False, muted_s=0.0)

    def send(
        self, entries: Sequence[ProduceEntry], *, timeout_ms: int
    ) -> asyncio.Future[list[ProduceAck]]:
        del timeout_ms
        names = ",".join(f"{e.topic}-{e.partition}" for e in entries)
        self._target.seen.append(f"produce {names}")
        answer: asyncio.Future[list[ProduceAck]] = asyncio.get_running_loop().create_future()
        self._asked.append(answer)
        for each in entries:
            sequence = int.from_bytes(each.header[53:57], "big")
            self._target.sequences.append((each.topic, each.partition, sequence))
        acks = [self._target.ack(entry) for entry in entries]

        def reply() -> None:
            self._target.seen.append(f"ack {names}")
            if not answer.done():
                answer.set_result(acks)

        if self._target.hold_data and entries[0].topic.startswith("east."):
            self._target.held.append(reply)
        else:
            asyncio.get_running_loop().call_soon(reply)
        return answer

    async def ready(self) -> None:
        if self.connection.must_wait:
            self._target.seen.append("ready")
            self.connection.must_wait = False

    def lose(self) -> None:
        """The broker ends the connection."""
        self.connection.closed = True
        for answer in self._asked:
            if not answer.done():
                answer.set_exception(ConnectionLostError("closed by the broker"))

    def close(self) -> None:
        self.connection.closed = True
        self._target.seen.append("close")


class Coordinator:
    """The transaction coordinator; v2 gives the next epoch at each end."""

    transactional_id = "t"

    def __init__(self, target: Target, version: TransactionVersion) -> None:
        self._target = target
        self.version = version
        self.resent, self.deadlines = False, list[float]()
        self.trouble: MirrorfleetError | None = None
        """What is said to AddPartitionsToTxn."""

    @property
    def must_init_again(self) -> bool:
        return self.resent and self.version is TransactionVersion.V1

    async def end(self, producer: ProducerIdentity, *, commit: bool) -> ProducerIdentity:
        self._target.seen.append("commit" if commit else "abort")
        if self.version is TransactionVersion.V1:
            return producer
        return ProducerIdentity(producer.producer_id, producer.epoch + 1)

    async def connect(self, deadline_s: float) -> None:
        pass

    async def init_producer_id(self, *, timeout_ms: int, deadline_s: float) -> ProducerIdentity:
        del timeout_ms
        self.deadlines.append(deadline_s)
        self._target.seen.append("init")
        return self._target.identity

    def close(self) -> None:
        self._target.seen.append("coordinator closed")

    async def add_partitions(
        self,
        producer: ProducerIdentity,
        partitions: Sequence[TopicPartition],
        *,
        deadline_s: float = 30.0,
        busy_s: float = inf,
    ) -> None:
        del producer, deadline_s, busy_s
        self._target.seen.append(f"add {','.join(map(str, partitions))}")
        if self.trouble is not None:
            raise self.trouble


class Wedges:
    """Nothing is ever pending."""

    avoided: frozenset[TopicPartition] = frozenset()
    is_undecided = False

    async def check(self) -> None:
        pass

    async def before_abort(self) -> None:
        pass

    async def refused(self, acks: Sequence[ProduceAck], waited_s: float) -> None:
        del acks
        assert waited_s < 10

    async def added(
        self,
        transactions: Transactions,
        producer: ProducerIdentity,
        new: Sequence[TopicPartition],
    ) -> None:
        await transactions.add_partitions(producer, new)


class NoSpare:
    """The spare id was not taken before it is needed."""

    is_taken = False

    def __init__(self) -> None:
        self.alone = asyncio.Lock()
        self.done: list[str] = []

    def handed_over(self) -> None:
        return None

    def drop(self) -> None:
        self.done.append("drop")

    async def reach(self) -> None:
        self.done.append("reach")

    def rest(self) -> None:
        self.done.append("rest")


class Doubts:
    """What is in doubt, and whether positions are."""

    def __init__(self) -> None:
        self.doubted: set[TopicPartition] = set()
        self.refuses = self.must_wait = False
        self.control_ends: dict[TopicPartition, int] = {}

    async def ready(self, sender: Sender) -> None:
        if self.must_wait:
            raise AbortError("in doubt")
        for at in (POSITIONS, SEGMENTS):
            await sender.connect_to(at)

    async def clear(self, sender: Sender, wanted: Collection[TopicPartition]) -> None:
        del sender
        assert {POSITIONS, SEGMENTS} <= set(wanted)
        if self.refuses:
            raise AbortError("in doubt")


def proven() -> Allowance:
    """Of a broker that took much before."""
    made = Allowance()
    made.sent(MUCH, 0.0)
    made.answered(MUCH, 0.0, 0.0, 0.0)
    return made


class Runner:
    """As much of a SlotRunner as a sender sees."""

    def __init__(self, target: Target, made: Slot, coordinator: Coordinator) -> None:
        self._target = target
        self.slot = made
        self.number, self.fleet = SlotNumber(0), FleetName("west")
        self.settings = SlotSettings(commit_shortest_ms=1)
        # no stall of the machine ends a transaction that a test has begun
        self.commits = CommitPolicy(shortest_s=0.001, busy_s=60.0)
        self.markers = MarkerShare()
        self.depth = Depth(self.settings.requests_in_flight)
        self.allowances = defaultdict[int, Allowance](proven)
        self.wedges, self.spare = Wedges(), NoSpare()
        self.stopping = False
        self.clock = SimpleNamespace(
            monotonic=lambda: asyncio.get_running_loop().time(), now_ms=lambda: 5
        )
        self.targets = SimpleNamespace(
            of=lambda topic, partition: LeaderAt(1, 0),
            has_few=lambda topic, partition: False,
            topic_id=lambda topic: None,
            denied=lambda topic: False,
            absent_for=lambda topic: 0.0,
            ask=lambda: None,
        )
        told = SimpleNamespace(topics=defaultdict(lambda: SimpleNamespace(topic_id=NO_TOPIC_ID)))
        self.target = SimpleNamespace(metadata=AsyncMock(return_value=told))
        self.doubts, self.held_back = Doubts(), HeldBack(cast(SlotRunner, self))
        self.entries: dict[PartitionIdentity, CatalogPartition] = {}
        self.told: list[Event] = []
        self.meters = SimpleNamespace(
            acknowledged=lambda partition, queued, base_offset, now: None, told=self.told.extend
        )
        self.commits_seen: list[Sequence[Position]] = []
        self.lanes: list[Lane] = []
        self.coordinator = coordinator
        self._wake = Bell()

    def control_entries(
        self, positions: Sequence[Position], segment: Segment | None
    ) -> list[ControlEntry]:
        records = [position_codec.encode(position) for position in positions]
        entries = [ControlEntry(POSITIONS, control_batch(records, 5))]
        if segment is not None:
            batch = control_batch([(None, encode_segment(segment))], 5)
            entries.append(ControlEntry(SEGMENTS, batch))
        return entries

    def control_partition(self, kind: ControlKind) -> TopicPartition:
        return POSITIONS if kind is ControlKind.POSITIONS else SEGMENTS

    async def produce_lane(self, node: int, name: str) -> Lane:
        del node, name
        self.lanes.append(Lane(self._target))
        return self.lanes[-1]

    def reroute(self) -> None:
        pass

    def wake(self) -> None:
        self._wake.ring()

    def queues_fell(self) -> None:
        pass

    async def woken(self, at_most_s: float) -> None:
        await self._wake.heard(at_most_s)

    def committed(self, transaction: object, positions: Sequence[Position], took: float) -> None:
        del transaction, took
        self.commits_seen.append(positions)


def sender_of(
    target: Target,
    *entries: object,
    version: TransactionVersion = TransactionVersion.V2,
) -> tuple[Sender, Runner]:
    """A sender whose slot copies the given catalog entries (one partition by default)."""
    made = slot(*entries, budget=MemoryBudget(1 << 20))  # type: ignore[arg-type]  # catalog entries
    coordinator = Coordinator(target, version)
    runner = Runner(target, made, coordinator)
    sender = Sender(cast(SlotRunner, runner), cast(Transactions, coordinator), PRODUCER)
    return sender, runner
