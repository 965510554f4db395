"""What the ledger is told of records that policy dropped, and with which commit."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.copying.partition import CopyPartition
from mirrorfleet.copying.schedule import Depth, Setbacks
from mirrorfleet.copying.transaction import Touch, Transaction
from mirrorfleet.core.ids import FleetName, ProducerIdentity, SourceOffset, TopicPartition
from mirrorfleet.records import events as event_codec
from mirrorfleet.records.events import Event
from mirrorfleet.records.formats import FIRST_LEVEL, LEVELS
from mirrorfleet.records.positions import Position
from mirrorfleet.slots.ledger import DROPS_TOLD, control_entries
from mirrorfleet.slots.runner import SlotRunner
from mirrorfleet.wire.batch import walk
from mirrorfleet.wire.copybatch import Dropped, FaultKind, NullKeys
from mirrorfleet.wire.records import NewRecord, build_batch, records_of
from mirrorfleet.wire.rewrite import stamp
from tests.unit.copying.making import LINK, give, partition_of, slot

if TYPE_CHECKING:
    from mirrorfleet.slots.outgoing import ControlEntry
    from mirrorfleet.wire.copybatch import CopyBatch

EVENTS = TopicPartition("__mirrorfleet.west.events", 0)
MOST_BYTES = 512 << 10
"""Well below the smallest usual max.message.bytes (1 MB)."""


def log(first: int, keyed: Sequence[bool]) -> bytearray:
    """One stored batch from an offset on: which of its records have a key."""
    made = [NewRecord(1_000, b"k" if has_key else None, b"v") for has_key in keyed]
    stored = stamped(build_batch(made))
    struct.pack_into(">q", stored, 0, first)
    struct.pack_into(">i", stored, 12, 3)
    return stored


def stamped(batch: CopyBatch) -> bytearray:
    """A batch as a broker stores it."""
    header = stamp(batch, ProducerIdentity(-1, -1), -1, transactional=False)
    return bytearray(header) + bytes(batch.payload)


class World:
    """A slot of which one partition drops what has no key."""

    def __init__(self) -> None:
        self.slot = slot()
        self.partition: CopyPartition = partition_of(self.slot)
        self.partition.take(null_keys=NullKeys.DROP_RECORDED)
        self.counted: list[tuple[str, int]] = []
        self.queued: list[Event] = []
        self.runner = SimpleNamespace(
            slot=self.slot,
            number=0,
            clock=SimpleNamespace(monotonic=lambda: 1.0, now_ms=lambda: 7),
            link=LINK,
            owner="me",
            fleet=FleetName("west"),
            formats=LEVELS[FIRST_LEVEL],
            depth=Depth(1),
            setbacks=Setbacks(),
            control_partition=lambda kind: TopicPartition(f"__mirrorfleet.west.{kind}", 0),
            markers=SimpleNamespace(committed=lambda number, count: None),
            meters=SimpleNamespace(
                committed=lambda transaction, took, now_ms: None,
                dropped=lambda kind, count: self.counted.append((kind, count)),
            ),
            _room=SimpleNamespace(ring=lambda: None),
            _worker=SimpleNamespace(
                recovered=lambda link, partition: None,
                dropped=lambda link, partition: self.queued.extend(partition.dropped),
            ),
        )

    def walk(self, *keyed: bool) -> None:
        """The next records come from the source."""
        first = self.partition.walked_to
        give(self.slot, self.partition, log(first, keyed), end=first + len(keyed))

    def told(self, next_source: int) -> list[Event]:
        """What the ledger is told with a commit up to here, if that is tried."""
        made = control_entries(self._runner, [self._position(next_source)], None)
        found = [each for each in made if each.at == EVENTS]
        assert len(found) <= 1  # a partition that is twice in a request loses one batch
        return [event for each in found for event in events_in(each)]

    def commit(self, next_source: int, *, with_data: bool = False) -> list[Event]:
        """What it is told with one that comes through."""
        told, position = self.told(next_source), self._position(next_source)
        transaction = Transaction(0.0)
        if with_data:
            transaction.touched[self.partition] = Touch(self.partition.committed.next_target)
        self.slot.committed([position], 1.0)
        SlotRunner.committed(self._runner, transaction, [position], 0.0)
        return told

    @property
    def _runner(self) -> SlotRunner:
        return cast("SlotRunner", self.runner)

    def _position(self, next_source: int) -> Position:
        return replace(self.partition.committed, next_source=SourceOffset(next_source))


def events_in(entry: ControlEntry) -> list[Event]:
    stored = stamped(entry.batch)
    values = [record.value for header in walk(stored) for record in records_of(stored, header)]
    return [each for each in map(event_codec.decode, values) if isinstance(each, Event)]


def ranges(events: Sequence[Event]) -> list[tuple[int | None, int | None, int | None]]:
    return [(each.first, each.end, each.records) for each in events]


def test_a_drop_is_told_in_the_transaction_that_passes_it_and_in_no_other() -> None:
    world = World()
    world.walk(True, False, True, False)

    assert ranges(world.told(1)) == []
    (told,) = world.commit(3)
    assert (told.kind, told.cause, told.topic, told.partition) == (
        "records-dropped",
        "key-missing",
        "orders",
        0,
    )
    assert ranges([told]) == [(1, 2, 1)]
    assert ranges(world.commit(4)) == [(3, 4, 1)]
    assert ranges(world.commit(4)) == []


def test_nothing_of_a_drop_waits_in_a_queue_that_dies_with_its_worker() -> None:
    world = World()
    world.walk(False, True)

    world.commit(2, with_data=True)

    assert world.queued == []


def test_what_an_aborted_transaction_told_is_told_again_by_the_next_one() -> None:
    world = World()
    world.walk(True, False, True, False)
    before = ranges(world.told(4))

    world.slot.rewind()
    world.walk(True, False, True, False)

    assert before == [(1, 2, 1), (3, 4, 1)]
    assert ranges(world.commit(4)) == before
    assert ranges(world.commit(4)) == []


def test_a_drop_above_the_position_that_an_abort_takes_back_is_told_once() -> None:
    world = World()
    world.walk(False, True, False, True)

    first = ranges(world.commit(2))
    world.slot.rewind()
    world.walk(False, True)

    assert first == [(0, 1, 1)]
    assert ranges(world.commit(4)) == [(2, 3, 1)]


def test_what_is_walked_again_below_a_commit_that_told_of_it_is_not_told_twice() -> None:
    """It is held back while the commit that moves it without data is on its way."""
    world = World()
    world.walk(False, False)
    told = world.told(2)
    world.slot.hold_back(world.partition, 0.0)
    world.slot.committed([world._position(2)], 1.0)

    world.walk(False, False, False)

    assert ranges(told) == [(0, 2, 2)]
    assert ranges(world.commit(3)) == [(2, 3, 1)]


def test_each_drop_is_counted_once_when_a_commit_has_passed_it() -> None:
    world = World()
    world.walk(False, True, False, True)

    world.told(4)
    world.commit(2)
    world.commit(2)
    world.commit(4)

    assert world.counted == [("key-missing", 1), ("key-missing", 1)]
    assert world.partition.dropped == []


def test_neighbours_are_told_as_one_range() -> None:
    world = World()
    world.walk(False, False, False, True, False)

    assert ranges(world.commit(5)) == [(0, 3, 3), (4, 5, 1)]


def test_of_thousands_of_drops_each_is_told_of_in_one_batch() -> None:
    world = World()
    topic, world.runner.owner = "t" * 249, "mirror:" + "h" * 253 + ":1:0"
    world.partition.entry = replace(world.partition.entry, source_topic=topic)
    lost = list(accumulate(2 + 37 * number % 1_009 for number in range(5_000)))
    world.partition.dropped = [Dropped(SourceOffset(at), FaultKind.NULL_KEY) for at in lost]

    made = control_entries(world._runner, [world._position(lost[-1] + 1)], None)
    (batch,) = (each.batch for each in made if each.at == EVENTS)
    told = [(each.first or 0, each.end or 0, each.records) for each in world.told(lost[-1] + 1)]

    assert batch.size < MOST_BYTES
    assert 400 < len(told) <= DROPS_TOLD
    for first, end, records in told:
        assert records == sum(first <= offset < end for offset in lost)
    assert sum(records or 0 for _, _, records in told) == len(lost)


def test_what_is_far_apart_is_told_apart_while_what_is_near_becomes_one_range() -> None:
    world = World()
    near = [number % 2 > 0 for number in range(2_000)]
    world.walk(*near, *[True] * 100, False, *[True] * 50, False)

    told = world.commit(2_152)

    assert ranges(told) == [(0, 1_999, 1_000), (2_100, 2_101, 1), (2_151, 2_152, 1)]
    assert told[0].detail
    assert not told[1].detail
