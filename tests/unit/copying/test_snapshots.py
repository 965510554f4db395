"""A snapshot is written first, after many records, and again when it was not committed."""

from __future__ import annotations

from dataclasses import replace

from mirrorfleet.copying.partition import start_position
from mirrorfleet.copying.snapshots import EVERY, Snapshots
from mirrorfleet.core.ids import ProducerIdentity, SourceOffset
from mirrorfleet.records.positions import Barrier, Quarantine, Snapshot
from tests.unit.copying.making import identity

FIRST, SECOND = (start_position(identity(number), SourceOffset(0), 1) for number in (0, 1))
KNOWN = {position.identity: position for position in (FIRST, SECOND)}
ID = ProducerIdentity(7, 1)
BARRIER = Barrier(owner="w1", producer=ID, time_ms=3)


def owned() -> Snapshots:
    made = Snapshots()
    made.barrier = BARRIER
    return made


def test_a_new_owner_begins_with_a_snapshot_of_all_that_is_known_and_its_name() -> None:
    moved = replace(FIRST, next_source=SourceOffset(7))
    begun = Snapshot(count=2, time_ms=5)

    assert owned().stated(KNOWN, [moved], 5) == [begun, BARRIER, moved, SECOND]


def test_a_snapshot_that_was_not_committed_is_written_again_and_a_committed_one_after_many() -> (
    None
):
    made = owned()
    made.stated(KNOWN, [FIRST], 5)
    made.aborted()
    assert len(made.stated(KNOWN, [FIRST], 5)) == 4
    made.committed()

    written = [len(made.stated(KNOWN, [FIRST], 5)) for _ in range(EVERY // 2)]

    assert written == [1] * (EVERY // 2 - 1) + [4]


def test_a_snapshot_repeats_the_quarantine_until_all_is_forgotten() -> None:
    made = owned()
    made.quarantine = Quarantine(owner="w1", producer=ID, partitions=(), time_ms=4)
    begun = Snapshot(count=1, time_ms=5)

    assert made.all([FIRST], 5) == [begun, BARRIER, made.quarantine, FIRST]
    made.forget()
    assert made.all([FIRST], 5) == [begun, FIRST]
    assert made.stated({}, [FIRST], 6) == [replace(begun, time_ms=6), FIRST]
