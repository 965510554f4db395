"""What a slot writes to its control topics, as batches to send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.records import positions as codec
from mirrorfleet.records.positions import Barrier, Position, Released
from mirrorfleet.records.segments import Segment, encode_segment
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.slots.outgoing import ControlEntry
from mirrorfleet.wire.codecs import Codec
from mirrorfleet.wire.records import control_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorfleet.core.ids import ProducerIdentity
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.wire.copybatch import CopyBatch

COMPRESS_FROM: Final = 8
"""Positions in a batch from which compressing it is worth its microseconds."""


def control_entries(
    runner: SlotRunner, positions: Sequence[Position], segment: Segment | None
) -> list[ControlEntry]:
    """Positions (now and then all of them), and the segment when there is one."""
    now_ms = runner.clock.now_ms()
    version = runner.formats.position
    stated = runner.slot.snapshots.stated(runner.slot.known, positions, now_ms)
    records = [codec.encode(entry, version) for entry in stated]
    at = runner.control_partition(ControlKind.POSITIONS)
    entries = [ControlEntry(at, _packed(records, now_ms))]
    if segment is not None:
        batch = control_batch([(None, encode_segment(segment, runner.formats.segment))], now_ms)
        entries.append(ControlEntry(runner.control_partition(ControlKind.SEGMENTS), batch))
    return entries


def barrier_entry(runner: SlotRunner, *records: codec.Entry) -> ControlEntry:
    """The barrier, or what else must be read up to, as a control batch."""
    return ControlEntry(
        runner.control_partition(ControlKind.POSITIONS),
        control_batch([codec.encode(record) for record in records], runner.clock.now_ms()),
    )


def release_entry(runner: SlotRunner, generation: int) -> ControlEntry:
    """What lets the next owner begin without waiting, and read no more than this."""
    now_ms = runner.clock.now_ms()
    released = Released(owner=runner.owner, generation=generation, time_ms=now_ms)
    entries = [*runner.slot.snapshots.all(runner.slot.known.values(), now_ms), released]
    records = [codec.encode(entry, runner.formats.position) for entry in entries]
    return ControlEntry(runner.control_partition(ControlKind.POSITIONS), _packed(records, now_ms))


def _packed(records: Sequence[tuple[bytes, bytes | None]], now_ms: int) -> CopyBatch:
    """Keys repeat cluster and topic ids: many of them shrink to a third."""
    codec_of_many = Codec.ZSTD if len(records) >= COMPRESS_FROM else Codec.NONE
    return control_batch(records, now_ms, codec_of_many)


def of_a_keep_alive(runner: SlotRunner, producer: ProducerIdentity) -> list[ControlEntry]:
    """A barrier, or all positions where those in the log may be gone."""
    if runner.slot.snapshots.is_due:
        return control_entries(runner, (), None)
    barrier = Barrier(owner=runner.owner, producer=producer, time_ms=runner.clock.now_ms())
    return [barrier_entry(runner, barrier)]
