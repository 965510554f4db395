"""Compaction of slots of which one cannot be packed, with records in place of brokers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records import archive
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.records.segments import Run, decode_segment
from spark import io
from spark.jobs import compact_offset_syncs
from spark.jobs.compact_offset_syncs import refuse_left
from spark.jobs.running import Job, NotIntactError
from tests.spark.control_logs import Logs
from tests.spark.control_topics import Keyed, entry
from tests.spark.frames import identity, run, segment

SLOTS = 4
UNREAD, FINE, AGAINST, UNKNOWN = range(SLOTS)
RISING = [run(0, 0, 3), run(3, 4, 2), run(5, 7, 4)]
GOES_BACK = [run(0, 0, 3), run(3, 4, 2), run(3, 8, 4), run(7, 13, 2)]


def block(slot: int, *runs: Run) -> Keyed:
    return archive.encode(archive.Block(identity(slot), runs))


@pytest.fixture
def logs(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Logs:
    """Each slot has segments of one partition of its own number."""
    made = Logs(session, {"segments": SLOTS, "archive": SLOTS, "catalog": 1})
    monkeypatch.setattr(io, "read_topic", made.read_topic)
    monkeypatch.setattr(io, "write_topic", made.write_topic)
    for slot in range(SLOTS):
        runs = RISING if slot in (UNREAD, FINE) else GOES_BACK
        segments = [(None, segment(one, partition=slot, slot=slot)) for one in runs]
        made.append("segments", *segments, partition=slot)
    made.append("archive", (b"\x09", b"\x09"), partition=UNREAD)
    made.append("archive", block(FINE, *RISING[:1]), partition=FINE)
    made.append("catalog", entry(identity(AGAINST), CatalogState.ACTIVE))
    return made


def compact(logs: Logs) -> None:
    job = SimpleNamespace(session=logs.session, target=logs.cluster, topic=str)
    compact_offset_syncs.work(cast("Job", job))


def test_slots_that_cannot_be_packed_are_named_and_left_and_all_others_are_packed(
    logs: Logs,
) -> None:
    before = {slot: logs.values("segments", slot) for slot in range(SLOTS)}

    with pytest.raises(NotIntactError) as refused:
        compact(logs)

    said = refused.value.message
    assert said.startswith("3 slots are left as they are, all others are packed. slot 0: archive,")
    assert "slot 0: archive, partition 0, offset 0: archive key: version 9" in said
    disagree = "segments and archive disagree on what begins at target offset 8 of"
    assert f"slot 2: {disagree} orders-2 over east->west" in said
    assert f"slot 3: {disagree} partition 3 of the topic with id" in said
    assert logs.live("archive", FINE) == [block(FINE, *RISING[:-1])]
    assert logs.values("segments", FINE) == before[FINE][-1:]
    for slot in (UNREAD, AGAINST, UNKNOWN):
        assert logs.values("segments", slot) == before[slot]
    assert logs.live("archive", UNREAD) == [(b"\x09", b"\x09")]
    assert logs.live("archive", AGAINST) == logs.live("archive", UNKNOWN) == []


def test_a_slot_is_named_when_the_catalog_cannot_be_read(logs: Logs) -> None:
    del logs.kept["catalog"]

    with pytest.raises(NotIntactError, match="offset 8 of partition 2 of the topic with id"):
        compact(logs)

    assert logs.live("archive", FINE) == [block(FINE, *RISING[:-1])]


def test_of_many_slots_that_are_left_some_are_told_with_the_reason() -> None:
    refuse_left({})

    with pytest.raises(NotIntactError) as refused:
        refuse_left(dict.fromkeys(range(9, 2, -1), "why"))

    assert refused.value.message.endswith(
        "slot 3: why; slot 4: why; slot 5: why; slot 6: why; slot 7: why; and 2 more."
    )


def test_the_last_segment_is_not_packed_for_it_may_be_one_that_was_aborted(logs: Logs) -> None:
    """Brokers may show it as committed until the next one is there, which then contradicts it."""
    logs.kept["archive"].clear()
    with pytest.raises(NotIntactError):
        compact(logs)
    again = run(5, 8, 9)
    logs.replace_last("segments", (None, segment(again, partition=FINE, slot=FINE)), FINE)

    with pytest.raises(NotIntactError):
        compact(logs)

    index = OffsetIndex()
    for key, value in logs.live("archive", FINE):
        found = archive.decode(key, value)
        assert isinstance(found, archive.Block)
        index.add_block(found)
    for held in logs.values("segments", FINE):
        index.add_segment(decode_segment(held or b""))
    assert index.pieces > 0
