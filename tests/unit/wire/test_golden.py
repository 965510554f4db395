"""Batches that Kafka's own code wrote: we read in them what Kafka reads, and copy just that."""

from __future__ import annotations

import zlib

import pytest

from mirrorfleet.wire.batch import walk
from mirrorfleet.wire.records import Record, records_of
from tests.unit.wire.batches import GOLDEN, fetched, golden, header_of, sent, source_offsets

NAMES = sorted(path.stem for path in GOLDEN.glob("*.bin"))
COPIED = [name for name in NAMES if "marker" not in name and "empty" not in name]


def line_of(record: Record) -> str:
    """The record as the golden files write it."""
    fields = [str(record.offset), str(record.timestamp), text(record.key), text(record.value)]
    fields += [f"{key.hex()}={'null' if v is None else v.hex()}" for key, v in record.headers]
    return " ".join(fields)


def text(content: bytes | None) -> str:
    if content is None:
        return "null"
    if len(content) > 1000:
        return f"{len(content)}:{zlib.crc32(content):x}"
    return content.hex() or "-"


@pytest.mark.parametrize("name", NAMES)
def test_we_read_what_kafka_reads(name: str) -> None:
    buffer, lines = golden(name)
    found = [line_of(record) for header in walk(buffer) for record in records_of(buffer, header)]
    assert found == lines


@pytest.mark.parametrize("name", COPIED)
def test_the_copy_holds_what_kafka_reads_at_the_same_source_offsets(name: str) -> None:
    buffer, lines = golden(name)
    walked = fetched(buffer)
    assert walked.fault is None
    (batch,) = walked.batches
    target = sent(batch)
    header = header_of(target)
    assert (header.base_offset, header.count) == (0, header.last_offset_delta + 1)
    offsets = source_offsets(batch)
    found = [
        line_of(record._replace(offset=offsets[record.offset]))
        for record in records_of(target, header)
    ]
    assert found == lines


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_delete_horizon_is_cleared_and_the_times_of_records_stay(codec: str) -> None:
    """The cleaner writes deltas against the horizon, so base + delta is the record's own time."""
    buffer, lines = golden(f"v2-{codec}-horizon")
    assert header_of(buffer).attributes & 0x40
    assert header_of(buffer).base_timestamp == 1_700_003_600_000
    (batch,) = fetched(buffer).batches
    assert bytes(batch.payload) == buffer[61:]
    target = sent(batch)
    assert header_of(target).attributes & 0x40 == 0
    times = [str(record.timestamp) for record in records_of(target, header_of(target))]
    assert times == [line.split()[1] for line in lines]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_delete_horizon_is_not_taken_for_the_time_of_a_record(codec: str) -> None:
    buffer, lines = golden(f"v2-{codec}-horizon")
    (batch,) = fetched(buffer).batches
    assert batch.oldest_timestamp <= max(int(line.split()[1]) for line in lines)


@pytest.mark.parametrize("name", ["v2-none-empty", "v2-marker-empty"])
def test_a_batch_whose_records_were_compacted_away_moves_the_position_only(name: str) -> None:
    walked = fetched(golden(name)[0])
    assert walked.batches == []
    assert walked.next_offset == {"v2-none-empty": 1012, "v2-marker-empty": 1013}[name]
    assert walked.leader_epoch == 7
