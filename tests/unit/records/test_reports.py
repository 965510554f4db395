"""Progress, events, registry: round trips, and what is skipped or refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from mirrorfleet.core.errors import CorruptBatchError, UnknownVersionError
from mirrorfleet.core.ids import SlotNumber, SourceOffset, TargetOffset
from mirrorfleet.records import events, progress, registry
from mirrorfleet.records.events import Event, EventKind
from mirrorfleet.records.packing import Skipped
from mirrorfleet.records.progress import PartitionProgress, Progress
from mirrorfleet.records.registry import Registration
from tests.unit.records.making import CLUSTER, LINK, identity

Change = Callable[[bytes, bytes], tuple[bytes | None, bytes | None]]

PARTITION = PartitionProgress(
    identity=identity(1),
    source_topic="orders",
    target_topic="east.orders",
    next_source=SourceOffset(100),
    next_target=TargetOffset(90),
    high_watermark=SourceOffset(120),
    last_stable=SourceOffset(110),
    log_start=SourceOffset(5),
    records=95,
    bytes=9500,
    last_progress_ms=1000,
    oldest_uncopied_ms=900,
    state="copying",
)
SNAPSHOT = Progress(
    slot=SlotNumber(3),
    time_ms=1234,
    owner="w",
    state="serving",
    partitions=(
        PARTITION,
        replace(
            PARTITION,
            target_topic="orders",
            oldest_uncopied_ms=None,
            fault="too large",
            last_progress_ms=2000,
            high_watermark=SourceOffset(-1),
            last_stable=SourceOffset(-1),
        ),
    ),
)
EVENT = Event(
    kind=EventKind.GAP,
    time_ms=9,
    writer="w",
    detail="retention",
    link=LINK,
    topic="orders",
    partition=1,
    first=5,
    end=9,
    first_time_ms=1,
)


def test_a_snapshot_comes_back_whole() -> None:
    assert progress.encode(SNAPSHOT)[0] == b"\x01\x03"
    assert progress.decode(*progress.encode(SNAPSHOT)) == SNAPSHOT


def test_a_snapshot_is_as_of_when_it_was_heard_whatever_its_owners_clock_says() -> None:
    heard = progress.decode(*progress.encode(SNAPSHOT), heard_ms=SNAPSHOT.time_ms + 7_000)

    assert isinstance(heard, progress.Progress)
    assert heard.time_ms == SNAPSHOT.time_ms + 7_000
    for before, after in zip(SNAPSHOT.partitions, heard.partitions, strict=True):
        # how long it has not moved is the owner's word; timestamps are those of the records
        assert after == replace(before, last_progress_ms=before.last_progress_ms + 7_000)


def test_lag_ends_at_the_last_stable_offset() -> None:
    assert PARTITION.lag_records == 10
    assert replace(PARTITION, next_source=SourceOffset(115)).lag_records == 0
    assert SNAPSHOT.partitions[1].lag_records is None
    assert replace(PARTITION, state=progress.UNREACHABLE).lag_records is None


@pytest.mark.parametrize(
    "change",
    [
        lambda k, v: (k, b"\x02" + v[1:]),
        lambda k, v: (k, v[:-1]),
        lambda k, v: (None, v),
        lambda k, v: (k, None),
    ],
    ids=["version", "cut", "no key", "no value"],
)
def test_a_snapshot_that_cannot_be_read_is_skipped(change: Change) -> None:
    assert isinstance(progress.decode(*change(*progress.encode(SNAPSHOT))), Skipped)


def test_an_event_comes_back_whole() -> None:
    assert events.decode(events.encode(EVENT)[1]) == EVENT
    bare = Event(kind="made-up-later", time_ms=1, writer="w")
    assert events.decode(events.encode(bare)[1]) == bare


def test_an_event_leaves_out_what_is_empty() -> None:
    bare = Event(kind="x", time_ms=1, writer="w")
    assert events.encode(bare) == (
        None,
        b'{"v":1,"kind":"x","time_ms":1,"writer":"w","detail":"","cause":""}',
    )


@pytest.mark.parametrize("value", [None, b"", b"[]", b'{"v":2}', b'{"v":1,"kind":3}'])
def test_an_event_that_cannot_be_read_is_skipped(value: bytes | None) -> None:
    assert isinstance(events.decode(value), Skipped)


def test_a_registration_comes_back_and_is_never_skipped() -> None:
    entry = Registration(producer_id=70_000, origin=CLUSTER, link=LINK, since_ms=5)
    key, value = registry.encode(entry)
    assert registry.decode(key, value) == entry
    with pytest.raises(UnknownVersionError):
        registry.decode(key, b"\x02" + value[1:])
    with pytest.raises(UnknownVersionError):
        registry.decode(b"\x02" + key[1:], value)
    with pytest.raises(CorruptBatchError):
        registry.decode(key, None)
