"""The copying path's one entry: fetched bytes in, batches for the target out.

    fetched range -> runs that go as they are (`passing`)
                  -> walk -> verify -> classify -> PASS: a view of the payload, nothing else
                                                -> else: rebuilt, split or skipped

Nothing is raised for bad bytes: a fault stops the partition at an offset and everything before
it is in the answer. A fault's offset is also `next_offset`, so that a resumed walk begins there.
"""

from __future__ import annotations

from collections import deque
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.wire import singles
from mirrorfleet.wire.aborted import AbortedFilter, Marker, marker_of
from mirrorfleet.wire.batch import (
    CODEC_MASK,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    verified_payload,
    verify,
    walk,
)
from mirrorfleet.wire.builder import BatchBuilder
from mirrorfleet.wire.classify import Verdict, classify
from mirrorfleet.wire.codecs import Codec
from mirrorfleet.wire.copybatch import (
    AbortedTransaction,
    BatchFault,
    CopyBatch,
    Dropped,
    FaultKind,
    LateAbort,
    Terms,
    Walked,
)
from mirrorfleet.wire.legacy import legacy_records
from mirrorfleet.wire.merging import merged
from mirrorfleet.wire.passing import passed
from mirrorfleet.wire.reencode import Rebuilt, admit, fitted, lacks_keys, rebuild
from mirrorfleet.wire.reshape import (
    before,
    divide,
    find_null_keys,
    source_offset,
    split,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mirrorfleet.wire.batch import Buffer

__all__ = [
    "before",
    "divide",
    "find_null_keys",
    "merged",
    "source_offset",
    "split",
    "walk_fetched",
    "without",
]


NOTHING: Final[Mapping[int, int]] = MappingProxyType({})


def walk_fetched(
    buffer: Buffer,
    start: int,
    end: int,
    wanted: SourceOffset,
    aborted: Sequence[AbortedTransaction],
    terms: Terms,
    undecided: Mapping[int, int] = NOTHING,
) -> Walked:
    """What the records field of one partition's fetch answer, at [start, end), comes to.

    Payloads of batches that pass are views into `buffer`, which must not change any more.
    A range whose first batch is incomplete gives no batch: fetch again with more bytes.
    An aborted transaction that the broker's list lacks is found by its marker (`omitted`); one
    whose records passed in an earlier answer (`undecided` of that) is `late`.
    """
    known = list(aborted)
    while True:
        opens = singles.OPENED_LEAST + singles.OPENED_SHARE * (end - start)
        state = _Walk(memoryview(buffer), wanted, known, terms, undecided, opens)
        position: int | None = start
        try:
            while position is not None:
                position = state.walk_from(position, end)
        except CorruptBatchError as error:
            state.fault = BatchFault(state.position, FaultKind.CORRUPT, error.message)
        if not state.missed:
            return state.finish(len(known) - len(aborted))
        known += state.missed  # and once more: the list was not complete


class _Walk:
    """One walk's state. `position` is the source offset that comes next."""

    __slots__ = (
        "_aborted",
        "_aborted_records",
        "_batches",
        "_carried",
        "_control_batches",
        "_dropped",
        "_late",
        "_leader_epoch",
        "_legacy",
        "_legacy_codec",
        "_opens",
        "_terms",
        "_undecided",
        "_view",
        "_wanted",
        "fault",
        "missed",
        "position",
    )

    def __init__(
        self,
        view: memoryview,
        wanted: SourceOffset,
        aborted: Sequence[AbortedTransaction],
        terms: Terms,
        undecided: Mapping[int, int],
        opens: int,
    ) -> None:
        self.position = self._wanted = wanted
        self._opens = opens  # bytes of compressed batches that may still be opened, uncompressed
        self.fault: BatchFault | None = None
        self._view = view
        self._terms = terms
        self._aborted = AbortedFilter(aborted) if aborted else None
        self._carried = dict(undecided) if undecided else {}
        self._undecided: dict[int, int] = {}
        self._late: list[LateAbort] = []
        self.missed: list[AbortedTransaction] = []
        self._aborted_records = 0
        self._control_batches = 0
        self._leader_epoch = -1
        self._batches: list[CopyBatch] = []
        self._dropped: list[Dropped] = []
        self._legacy: BatchBuilder | None = None
        self._legacy_codec = Codec.NONE

    def walk_from(self, start: int, end: int) -> int | None:
        """Take batches up to the end, a fault, or one that ended a run: where to go on.

        Batches of an aborted transaction may be among those of a run, so then there is none.
        """
        runs = self._aborted is None and singles.allowed(self._terms)
        if runs:
            start = self._pass(start, end)
        for header in walk(self._view, start, end):
            if header.magic != MAGIC:
                self.take_legacy(header)
            elif header.count == 1 and runs and (after := self._gather(header.start, end)):
                return after
            elif not self.fault:  # as it is when old messages before it hold one
                self.take(header)
            if self.fault:
                break
            if runs and header.magic == MAGIC and (header.count != 1 or header.is_control):
                return header.end  # what follows may go as it is again
        return None

    def _pass(self, start: int, end: int) -> int:
        """Take the batches that go as they are up to the first that does not: where it begins."""
        run = passed(self._view, start, end, self.position, self._terms)
        if run.batches:
            self._took(run.batches, run.undecided)
        return run.end

    def _took(self, batches: list[CopyBatch], undecided: Mapping[int, int]) -> None:
        """A run went as it is, or into one batch."""
        self._batches += batches
        self.position, self._leader_epoch = batches[-1].next_offset, batches[-1].leader_epoch
        for who, first in undecided.items():  # of hundreds, at each marker, only the new
            self._undecided.setdefault(who, first)

    def _gather(self, start: int, end: int) -> int | None:
        """Take the run of batches of one record that begins there; the byte after it."""
        try:
            run = singles.gathered(self._view, start, end, self.position, self._terms, self._opens)
        except MemoryError:
            run = None  # as they are they need no more of it
        self._opens -= singles.OPENED_IN_VAIN if run is None else run.opened
        if run is None or (self._legacy and self._flush_legacy()):
            return None
        self._took([run.batch], run.undecided)
        return run.end

    def take(self, header: BatchHeader) -> None:
        """A magic 2 batch."""
        if self._legacy and self._flush_legacy():
            return
        payload, payload_crc = verified_payload(self._view, header)
        self._check_order(header)
        covered = self._aborted is not None and self._aborted.covers(header)
        verdict = classify(header, self.position, self._terms, aborted=covered)
        if verdict is Verdict.PASS:
            self._batches.append(_as_it_is(header, payload, payload_crc))
            self._note(header)
        elif not self._skip(header, verdict):
            self._reshape(header, verdict, _as_it_is(header, payload, payload_crc))
            self._note(header)
        self._advance(header)

    def _note(self, header: BatchHeader) -> None:
        if header.attributes & TRANSACTIONAL:
            first = max(header.base_offset, self.position)  # what is trimmed did not pass here
            self._undecided.setdefault(header.producer_id, first)

    def take_legacy(self, header: BatchHeader) -> None:
        """A message of magic 0 or 1; neighbours of one codec go into one batch."""
        verify(self._view, header)
        if classify(header, self.position, self._terms) is Verdict.BEHIND:
            self._check_order(header)
            return
        codec = header.codec
        if self._is_full_for(header, codec) and self._flush_legacy():
            return
        deque(legacy_records(self._view, header), maxlen=0)  # all or nothing: raises here
        if self._legacy is None:
            self._legacy, self._legacy_codec = BatchBuilder(), codec
        dropped, self.fault = admit(
            legacy_records(self._view, header), self._legacy, self.position, self._terms
        )
        self._dropped += dropped
        self._advance(header)

    def finish(self, omitted: int) -> Walked:
        """The answer; a pending batch of old messages is part of it."""
        self._flush_legacy()
        return Walked(
            batches=self._batches,
            next_offset=self.position,
            leader_epoch=self._leader_epoch,
            records=sum(batch.count for batch in self._batches),
            aborted_records=self._aborted_records,
            control_batches=self._control_batches,
            dropped=tuple(self._dropped),
            fault=self.fault,
            omitted=omitted,
            undecided={**self._undecided, **self._carried},
            late=tuple(self._late),
        )

    def _check_order(self, header: BatchHeader) -> None:
        """Offsets in an answer only grow; only at its start may it reach back.

        The base offset is outside the CRC, so a flipped bit there shows only here.
        """
        if header.base_offset < self.position != self._wanted:
            raise CorruptBatchError(
                f"batch at offset {header.base_offset} follows offset {self.position - 1}",
                offset=header.base_offset,
            )

    def _advance(self, header: BatchHeader) -> None:
        if self.fault:
            self.position = self.fault.offset
        elif header.next_offset > self.position:
            self.position = header.next_offset
        if self.position > header.base_offset:
            self._leader_epoch = header.leader_epoch

    def _skip(self, header: BatchHeader, verdict: Verdict) -> bool:
        """Whether the batch has nothing to copy; counted, and its marker obeyed."""
        if verdict is Verdict.CONTROL:
            self._control_batches += 1
            self._obey(header)
        elif verdict is Verdict.ABORTED:
            self._aborted_records += header.count
        return verdict in _SKIPPED

    def _obey(self, header: BatchHeader) -> None:
        """Do as a marker says; of a transaction that it aborts nothing may have passed."""
        marker, who = marker_of(self._view, header), header.producer_id
        if marker is Marker.OTHER:
            return
        first = self._undecided.pop(who, None)
        if marker is Marker.ABORT and first is not None:
            self.missed.append(AbortedTransaction(who, first))
        if header.base_offset >= self._wanted:
            before = self._carried.pop(who, None)
            if marker is Marker.ABORT and before is not None:
                self._late.append(LateAbort(who, before, header.base_offset))
        if self._aborted:
            self._aborted.end(who)

    def _reshape(self, header: BatchHeader, verdict: Verdict, as_it_is: CopyBatch) -> None:
        so_far = Rebuilt([], [], None)
        if verdict is Verdict.OVERSIZE or (
            verdict is Verdict.INSPECT and not lacks_keys(self._view, header)
        ):
            rebuilt = fitted(as_it_is, self._terms, so_far)
        else:
            rebuilt = rebuild(self._view, header, self.position, self._terms)
        self._keep(rebuilt)

    def _keep(self, rebuilt: Rebuilt) -> None:
        self._batches += rebuilt.batches
        self._dropped += rebuilt.dropped
        self.fault = fault = rebuilt.fault
        if fault:  # a drop behind it did not happen
            self._dropped = [drop for drop in self._dropped if drop.offset < fault.offset]

    def _is_full_for(self, header: BatchHeader, codec: Codec) -> bool:
        """Whether the gathered old messages end before this one."""
        if self._legacy is None:
            return False
        room = self._terms.max_batch_bytes - self._legacy.raw_size
        return codec is not self._legacy_codec or header.size > room

    def _flush_legacy(self) -> bool:
        """Hand over the gathered old messages; whether they hold a fault."""
        builder, self._legacy = self._legacy, None
        if builder and builder.count:
            batch = builder.build(self._legacy_codec, self.position)
            self._keep(fitted(batch, self._terms, Rebuilt([], [], self.fault)))
            if self.fault:
                self.position = self.fault.offset
        return self.fault is not None


_SKIPPED = frozenset((Verdict.CONTROL, Verdict.BEHIND, Verdict.ABORTED, Verdict.EMPTY))


def _as_it_is(header: BatchHeader, payload: memoryview, payload_crc: int) -> CopyBatch:
    return CopyBatch(
        payload=payload,
        payload_crc=payload_crc,
        attributes=header.attributes & CODEC_MASK,
        count=header.count,
        # Of records that the broker dates, the time that their producers meant is seen by nobody.
        base_timestamp=header.max_timestamp if header.is_log_append_time else header.base_timestamp,
        max_timestamp=header.max_timestamp,
        first=SourceOffset(header.base_offset),
        next_offset=header.next_offset,
        leader_epoch=header.leader_epoch,
    )
