"""Builders for the tests of copying: catalog entries, positions, fetched bytes."""

from __future__ import annotations

import struct
from uuid import UUID

from mirrorfleet.copying.answer import Answer
from mirrorfleet.copying.budget import FrameLease, MemoryBudget
from mirrorfleet.copying.faults import Span
from mirrorfleet.copying.partition import CopyPartition, SourceEnds, start_position
from mirrorfleet.copying.slot import Slot
from mirrorfleet.copying.urgency import Urgency
from mirrorfleet.core.ids import (
    ClusterAlias,
    ClusterId,
    Link,
    PartitionIdentity,
    ProducerIdentity,
    SlotNumber,
    SourceOffset,
)
from mirrorfleet.records.catalog import CatalogPartition
from mirrorfleet.records.commands import Action, Command
from mirrorfleet.records.members import Slots
from mirrorfleet.wire.codecs import Codec
from mirrorfleet.wire.records import NewRecord, build_batch
from mirrorfleet.wire.rewrite import stamp

SOURCE_TOPIC = UUID(int=0xA)
TARGET_TOPIC = UUID(int=0xB)
BIG = b"x" * 33_000
"""A value that makes its batch too large to be merged, unless the request has room."""
ALONE = b"x" * 230_000
"""One that has no room for another of its kind in any request."""
LINK = Link(ClusterAlias("east"), ClusterAlias("west"))


def slots(*numbers: int) -> Slots:
    return frozenset(SlotNumber(number) for number in numbers)


def span(first: int, end: int) -> Span:
    return Span(SourceOffset(first), SourceOffset(end))


def identity(partition: int = 0) -> PartitionIdentity:
    return PartitionIdentity(ClusterId("source"), SOURCE_TOPIC, partition, TARGET_TOPIC)


def entry(partition: int = 0, **changes: object) -> CatalogPartition:
    fields: dict[str, object] = {
        "identity": identity(partition),
        "link": LINK,
        "source_topic": "orders",
        "target_topic": "east.orders",
        "slot": SlotNumber(0),
    }
    return CatalogPartition(**{**fields, **changes})  # type: ignore[arg-type]  # built from a dict on purpose


def slot(
    *entries: CatalogPartition,
    budget: MemoryBudget | None = None,
    urgency: Urgency | None = None,
    number: int = 0,
) -> Slot:
    memory = budget or MemoryBudget(1 << 20)
    made = Slot(SlotNumber(number), memory, queue_bytes=1 << 20, urgency=urgency)
    for each in entries or (entry(),):
        made.admit(each, start_position(each.identity, SourceOffset(0), 1))
    return made


def partition_of(made: Slot, number: int = 0) -> CopyPartition:
    return made.partitions[identity(number)]


def asked(action: Action, first: int, end: int) -> Command:
    return Command(
        id="one",
        action=action,
        identity=identity(),
        link=LINK,
        topic="orders",
        first=SourceOffset(first),
        end=SourceOffset(end),
        time_ms=1,
        expires_ms=2,
        writer="me",
    )


def fetched(
    *batches: tuple[int, list[bytes]], epoch: int = 3, codec: Codec = Codec.NONE
) -> bytearray:
    """Source batches: (base offset, values), as a broker would store them."""
    frame = bytearray()
    for base, values in batches:
        records = [NewRecord(1_000 + i, b"k", v) for i, v in enumerate(values)]
        batch = build_batch(records, codec)
        header = bytearray(stamp(batch, ProducerIdentity(-1, -1), -1, transactional=False))
        struct.pack_into(">q", header, 0, base)
        struct.pack_into(">i", header, 12, epoch)
        frame += header + bytes(batch.payload)
    return frame


def give(
    made: Slot,
    partition: CopyPartition,
    frame: bytearray,
    *,
    end: int,
    now: float = 1.0,
    epoch: int | None = None,
) -> None:
    """Hand a fetch answer to the slot; `end` is the last stable offset, `epoch` the leader's."""
    account = made._budget.account()
    account.resize(0, len(frame))
    lease = FrameLease(account, len(frame))
    answer = Answer(0, len(frame), SourceEnds(end, end, 0), (), epoch)
    made.answered(partition, frame, answer, lease, now)
    lease.done()
