"""Sampled batches as a record: round trip, its bytes, and what is skipped."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.records import progress, traces
from mirrorfleet.records.packing import Skipped
from mirrorfleet.records.traces import SampledBatch

BATCH = SampledBatch(
    topic_id=UUID(int=1),
    partition=2,
    first=300,
    count=40,
    trace_id=0xABC,
    span_id=0xD,
    committed_ms=5,
    hop=1,
)
VALUE = bytes.fromhex("0101" + "00" * 15 + "0102ac0228" + "00" * 14 + "0abc" + "00" * 7 + "0d0501")


def test_batches_are_written_so_and_read_back() -> None:
    key, value = traces.encode(SlotNumber(3), [BATCH])

    assert (key, value) == (b"\x74\x01\x03", VALUE)
    assert traces.is_ours(key)
    assert traces.decode(VALUE) == (BATCH,)


def test_only_the_last_32_are_written() -> None:
    many = [replace(BATCH, first=number) for number in range(40)]

    found = traces.decode(traces.encode(SlotNumber(3), many)[1])

    assert isinstance(found, tuple)
    assert [each.first for each in found] == list(range(8, 40))


def test_a_reader_of_snapshots_skips_them_and_a_snapshot_is_not_ours() -> None:
    key, value = traces.encode(SlotNumber(3), [BATCH])

    assert isinstance(progress.decode(key, value), Skipped)
    assert not traces.is_ours(progress.slot_key(SlotNumber(0x74)))
    assert not traces.is_ours(None)
    assert not traces.is_ours(b"")


@pytest.mark.parametrize(
    "value", [None, b"", b"\x02" + VALUE[1:], VALUE[:-1], VALUE + b"\x00", b"\x01\x7f"]
)
def test_what_cannot_be_read_is_skipped(value: bytes | None) -> None:
    assert isinstance(traces.decode(value), Skipped)
