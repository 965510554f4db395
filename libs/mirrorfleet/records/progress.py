"""`__mirrorfleet.F.progress`: what a slot's owner sees, about once a second; for people and lag.

    key    version  slot
    value  version  time  owner  state  partitions[]
    partition  identity  source topic  target topic  then numbers (differences to next source)

Written outside the transactions, because readers read uncommitted: it may be ahead of the
positions by a transaction that aborts. Nothing is ever decided by it, so an unknown version is
Skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mirrorfleet.core.errors import CorruptBatchError, UnknownVersionError
from mirrorfleet.core.ids import PartitionIdentity, SlotNumber, SourceOffset, TargetOffset
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.records.identity import read_identity, write_identity
from mirrorfleet.records.packing import Reader, Skipped, Writer

VERSION: Final = 1
FAULTED: Final = "faulted"
"""The state of a partition that the mirror stopped."""
STARTING: Final = "starting"
"""The state of a partition of which nothing was fetched yet."""
CATCH_UP: Final = "catch-up"
"""The state of a partition that works off its backlog on a connection of its own."""
PAUSED: Final = CatalogState.PAUSED.value
"""The state of a partition that the catalog has so; other states of the catalog are told, too."""
WAITING: Final = "waiting"
"""The state of a partition whose backlog waits, because its worker has a more urgent one."""
THROTTLED: Final = "throttled"
"""The state of a partition of which nothing is fetched yet, because its `throttle` is used up."""
UNREACHABLE: Final = "unreachable"
"""The state of a partition whose source leader does not answer: what it has by now is not known."""
BEFORE_THE_FIRST: Final = "before the first record"
"""Where a fault says that a partition stands which has no position."""
_BLIND: Final = frozenset({FAULTED, PAUSED, UNREACHABLE})
SNAPSHOTS: Final = 60
"""A slot's last snapshot is among so many offsets: one a second is written, traces as seldom."""
_WHY: Final = ": "


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProgress:
    """One partition of the slot, as of `Progress.time_ms`.

    Everything below `next_source` is committed on the target, or was nothing to copy.
    `high_watermark`, `last_stable` and `log_start` are the source's, -1 before the first fetch.
    `records` and `bytes` count since the start of this incarnation. `oldest_uncopied_ms` is the
    timestamp of the oldest record fetched but not committed, None when there is none. `state` is
    a word of the mirror's; `fault` is empty unless it is faulted.
    """

    identity: PartitionIdentity
    source_topic: str
    target_topic: str
    next_source: SourceOffset
    next_target: TargetOffset
    high_watermark: SourceOffset
    last_stable: SourceOffset
    log_start: SourceOffset
    records: int
    bytes: int
    last_progress_ms: int
    oldest_uncopied_ms: int | None
    state: str
    fault: str = ""

    @property
    def position(self) -> SourceOffset | None:
        """`next_source`; None where nobody knows it: 0 is a place, and not its."""
        return None if f" {BEFORE_THE_FIRST}: " in self.fault else self.next_source

    @property
    def lag_records(self) -> int | None:
        """Offsets between the position and the last stable offset; None while that is not known:
        before the first fetch, when the source does not answer, and while nothing is fetched.
        """
        is_known = self.last_stable >= 0 and self.state not in _BLIND
        return max(0, self.last_stable - self.next_source) if is_known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A snapshot of one slot.

    `state` is a word of the mirror's. Of a slot that is not copied for a while, why follows behind
    a colon: a build that does not know this shows it as it is.
    """

    slot: SlotNumber
    time_ms: int
    owner: str
    state: str
    partitions: tuple[PartitionProgress, ...]

    @property
    def word(self) -> str:
        """The state without its reason."""
        return self.state.partition(_WHY)[0]

    @property
    def trouble(self) -> str:
        """Why the slot is not copied; empty while it is, or only changes hands."""
        return self.state.partition(_WHY)[2]


def held_up(word: str, trouble: str) -> str:
    """The state of a slot that is not copied, with the reason."""
    return f"{word}{_WHY}{trouble}"


def encode(progress: Progress) -> tuple[bytes, bytes]:
    """Key and value."""
    out = Writer(VERSION)
    out.unsigned(progress.time_ms)
    out.text(progress.owner)
    out.text(progress.state)
    out.unsigned(len(progress.partitions))
    for partition in progress.partitions:
        _write(out, partition, progress.time_ms)
    return slot_key(progress.slot), out.done()


def slot_key(slot: SlotNumber) -> bytes:
    """The compaction key of a slot's snapshot."""
    key = Writer(VERSION)
    key.unsigned(slot)
    return key.done()


def decode(
    key: bytes | None, value: bytes | None, *, heard_ms: int | None = None
) -> Progress | Skipped:
    """The snapshot; what cannot be read is Skipped, never raised.

    `heard_ms`, when the reader heard it, takes the place of the owner's time, whose clock may be
    hours away; `last_progress_ms` is as long before it.
    """
    if key is None or value is None:
        return Skipped("progress: no key or no value")
    try:
        return _decode(key, value, heard_ms)
    except (UnknownVersionError, CorruptBatchError) as error:
        return Skipped(str(error))


def _decode(key: bytes, value: bytes, heard_ms: int | None) -> Progress:
    head = Reader(key, "progress key", version=VERSION)
    slot = SlotNumber(head.unsigned())
    data = Reader(value, "progress", version=VERSION)
    time_ms, owner, state = data.unsigned(), data.text(), data.text()
    as_of_ms = time_ms if heard_ms is None else heard_ms
    partitions = tuple(_read(data, time_ms, as_of_ms) for _ in range(data.length()))
    data.end()
    return Progress(slot=slot, time_ms=as_of_ms, owner=owner, state=state, partitions=partitions)


def _write(out: Writer, entry: PartitionProgress, time_ms: int) -> None:
    write_identity(out, entry.identity)
    out.text(entry.source_topic)
    out.text("" if entry.target_topic == entry.source_topic else entry.target_topic)
    out.unsigned(entry.next_source)
    for other in (entry.next_target, entry.high_watermark, entry.last_stable, entry.log_start):
        out.signed(other - entry.next_source)
    out.unsigned(entry.records)
    out.unsigned(entry.bytes)
    out.signed(time_ms - entry.last_progress_ms)
    oldest = entry.oldest_uncopied_ms
    out.unsigned(0 if oldest is None else 1)
    if oldest is not None:
        out.signed(time_ms - oldest)
    out.text(entry.state)
    out.text(entry.fault)


def _read(data: Reader, time_ms: int, as_of_ms: int) -> PartitionProgress:
    identity = read_identity(data)
    source_topic = data.text()
    target_topic = data.text() or source_topic
    at = data.unsigned()
    return PartitionProgress(
        identity=identity,
        source_topic=source_topic,
        target_topic=target_topic,
        next_source=SourceOffset(at),
        next_target=TargetOffset(at + data.signed()),
        high_watermark=SourceOffset(at + data.signed()),
        last_stable=SourceOffset(at + data.signed()),
        log_start=SourceOffset(at + data.signed()),
        records=data.unsigned(),
        bytes=data.unsigned(),
        last_progress_ms=as_of_ms - data.signed(),
        oldest_uncopied_ms=time_ms - data.signed() if data.unsigned() else None,
        state=data.text(),
        fault=data.text(),
    )
