"""Runs of batches of one record: one batch at the target, the same records for its consumers."""

from __future__ import annotations

from random import Random

import pytest

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.wire import singles
from mirrorfleet.wire.codecs import Codec, compress, inflater
from mirrorfleet.wire.copybatch import BatchFault, FaultKind, NullKeys, Terms
from mirrorfleet.wire.merging import MERGE_UP_TO, PACK_INFLATED
from tests.unit.wire.batches import (
    CODECS,
    GZIP,
    LZ4,
    TIME,
    ZSTD,
    Seen,
    batch_of,
    copied,
    fetched,
    marker,
    patched,
    some,
)


def lone(records: list[Seen], **header: int) -> list[bytearray]:
    """Each record in a batch of its own."""
    return [batch_of([record], **header) for record in records]


def test_batches_of_one_record_become_one_batch_with_all_of_them() -> None:
    records = some(300, size=100)
    walked = fetched(*lone(records, leader_epoch=4))
    (batch,) = walked.batches
    assert copied(walked) == records
    assert (batch.first, batch.next_offset, batch.count, batch.holes) == (0, 300, 300, ())
    assert (batch.base_timestamp, batch.max_timestamp) == (TIME, TIME + 2_990)
    assert (batch.attributes, batch.leader_epoch, walked.leader_epoch) == (0, 4, 4)
    assert (walked.next_offset, walked.records, walked.fault) == (300, 300, None)


def test_times_that_go_back_and_offsets_that_are_absent_stay_what_they_are() -> None:
    records = [
        Seen(7, TIME + 50, None, b"a"),
        Seen(8, TIME, b"k", None),
        Seen(20, TIME + 90_000, b"", b"", (("h", b"1"),)),
        Seen(21, TIME + 3, b"k", b"b"),
    ]
    walked = fetched(*lone(records))
    assert copied(walked) == records
    assert (walked.batches[0].first, walked.batches[0].holes) == (7, ((9, 11),))
    assert walked.batches[0].max_timestamp == TIME + 90_000


def test_a_batch_of_many_and_a_compressed_one_stand_between_two_runs() -> None:
    records = some(13)
    log = [
        *lone(records[:3]),
        batch_of(records[3:8]),
        batch_of(records[8:9], codec=LZ4),
        *lone(records[9:]),
    ]
    walked = fetched(*log)
    assert copied(walked) == records
    assert [batch.count for batch in walked.batches] == [3, 5, 1, 4]
    assert [batch.attributes for batch in walked.batches] == [0, 0, LZ4, 0]


def test_a_run_ends_where_the_target_takes_no_more() -> None:
    records = some(50, size=100)
    walked = fetched(*lone(records), terms=Terms(max_batch_bytes=1_000))
    assert copied(walked) == records
    assert [batch.count for batch in walked.batches] == [8, 8, 8, 8, 8, 8, 2]
    assert max(batch.size for batch in walked.batches) <= 1_000


def test_a_run_ends_with_the_epoch_of_its_leader() -> None:
    """By a batch's epoch it is known who appended it."""
    records = some(6)
    walked = fetched(*lone(records[:3], leader_epoch=4), *lone(records[3:], leader_epoch=5))
    assert copied(walked) == records
    assert [(batch.count, batch.leader_epoch) for batch in walked.batches] == [(3, 4), (3, 5)]


def test_a_single_batch_alone_passes_as_it_is() -> None:
    (log,) = lone(some(1))
    (batch,) = fetched(log).batches
    assert isinstance(batch.payload, memoryview)


@pytest.mark.parametrize("codec", CODECS)
def test_without_memory_to_make_one_batch_of_them_they_go_as_they_are(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> bytes:
        raise MemoryError

    log = lone(some(6), codec=codec)
    monkeypatch.setattr(singles, "compress", refused)
    walked = fetched(*log)
    assert copied(walked) == some(6)
    assert [batch.count for batch in walked.batches] == [1] * 6


def test_what_is_behind_the_wanted_offset_is_left_out() -> None:
    walked = fetched(*lone(some(6)), wanted=4)
    assert copied(walked) == some(6)[4:]
    assert (walked.batches[0].first, walked.next_offset) == (4, 6)


@pytest.mark.parametrize("byte", [17, 40, 62, 66, 80])
def test_a_flipped_bit_is_a_fault_after_the_records_before_it(byte: int) -> None:
    log = lone(some(6))
    log[3][byte] ^= 0x40
    walked = fetched(*log)
    assert copied(walked) == some(6)[:3]
    assert walked.fault is not None
    assert (walked.fault.kind, walked.next_offset) == (FaultKind.CORRUPT, 3)


def test_the_batch_that_was_cut_is_fetched_again() -> None:
    log = lone(some(4))
    walked = fetched(*log[:3], log[3][:-1])
    assert copied(walked) == some(4)[:3]
    assert walked.next_offset == 3


def test_aborted_records_and_markers_are_left_out_between_runs() -> None:
    good, bad, more = some(3), some(2, first=3), some(2, first=6)
    log = [
        *lone(good),
        *lone(bad, producer_id=9),
        marker(5, 9, 0),
        *lone(more),
        marker(8, 10, 1),
    ]
    walked = fetched(*log, aborted=[(9, 3)])
    assert copied(walked) == [*good, *more]
    assert (walked.aborted_records, walked.control_batches, walked.next_offset) == (2, 2, 9)


def test_committed_transactions_are_gathered_up_to_their_marker() -> None:
    records = some(3)
    log = [*lone(records, producer_id=9), marker(3, 9, 1), *lone(some(2, first=4), producer_id=9)]
    walked = fetched(*log)
    assert copied(walked) == [*records, *some(2, first=4)]
    assert [batch.count for batch in walked.batches] == [3, 2]


def test_where_records_are_looked_at_nothing_is_gathered() -> None:
    records = some(3)
    seen = fetched(*lone(records), terms=Terms(null_keys=NullKeys.FAIL))
    left = fetched(*lone(records), terms=Terms(left_out=((SourceOffset(1), SourceOffset(2)),)))
    assert [batch.count for batch in seen.batches] == [1, 1, 1]
    assert copied(left) == [records[0], records[2]]
    fault = BatchFault(SourceOffset(2), FaultKind.REFUSED, "why")
    refused = fetched(*lone(records), terms=Terms(refused=fault))
    assert (copied(refused), refused.fault) == (records[:2], fault)


def test_times_of_the_source_broker_and_strange_deltas_are_not_taken_for_plain() -> None:
    records = some(3)
    log = [patched(batch, attributes=0x08, max_timestamp=TIME + 999) for batch in lone(records)]
    walked = fetched(*log)
    assert [record.timestamp for record in copied(walked)] == [TIME + 999] * 3
    odd = [patched(batch, base_timestamp=TIME - 7) for batch in lone(records)]
    assert [record.timestamp for record in copied(fetched(*odd))] == [TIME - 7] * 3


@pytest.mark.parametrize("codec", CODECS)
def test_a_run_keeps_its_codec_records_and_offsets(codec: int) -> None:
    records = [record for record in some(300, size=100) if record.offset % 50]
    walked = fetched(*lone(records, codec=codec, leader_epoch=4))
    (batch,) = walked.batches
    assert copied(walked) == records
    assert (batch.attributes, batch.first, batch.next_offset, batch.count) == (codec, 1, 300, 294)
    assert batch.holes == tuple((at, 1) for at in range(50, 300, 50))
    assert isinstance(batch.payload, bytes)


def test_runs_of_several_codecs_are_runs_of_their_own() -> None:
    records = some(9)
    log = [
        *lone(records[:2], codec=GZIP),
        *lone(records[2:5], codec=ZSTD),
        *lone(records[5:6], codec=LZ4),
        *lone(records[6:]),
    ]
    walked = fetched(*log)
    assert copied(walked) == records
    shapes = [(batch.attributes, batch.count) for batch in walked.batches]
    assert shapes == [(GZIP, 2), (ZSTD, 3), (LZ4, 1), (0, 3)]
    assert isinstance(walked.batches[2].payload, memoryview)


@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize("size", [20, 150, 20_000])
def test_records_of_each_size_are_read_where_they_are_compressed(codec: int, size: int) -> None:
    records = some(5, size=size)
    walked = fetched(*lone(records, codec=codec))
    assert copied(walked) == records
    assert [batch.count for batch in walked.batches] == [5]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_one_that_is_large_when_it_is_opened_passes_as_it_is(codec: int) -> None:
    records = [*some(2), Seen(2, TIME, b"k", bytes(PACK_INFLATED)), *some(2, first=3)]
    walked = fetched(*lone(records, codec=codec))
    assert copied(walked) == records
    assert [batch.count for batch in walked.batches] == [2, 1, 2]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_of_batches_that_are_far_larger_when_they_are_opened_only_some_are(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(singles, "OPENED_LEAST", 30_000)
    records = [Seen(i, TIME, b"k", bytes([i]) * 10_000) for i in range(60)]
    log = lone(records, codec=codec)
    walked = fetched(*log)
    assert copied(walked) == records
    gathered = sum(batch.count for batch in walked.batches if batch.count > 1)
    room = 30_000 + singles.OPENED_SHARE * sum(map(len, log))
    assert 3 <= gathered <= room // 10_000 + MERGE_UP_TO // 10_000


def test_who_finds_no_run_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    inflate = inflater(Codec.GZIP)

    def counted(payload: memoryview, limit: int) -> bytes | bytearray:
        opened.append(len(payload))
        return inflate(payload, limit)

    monkeypatch.setattr(singles, "inflater", lambda _: counted)
    records = [Seen(i, TIME, b"k", bytes([i]) * (PACK_INFLATED + 1)) for i in range(250)]
    log = lone(records, codec=GZIP)
    walked = fetched(*log)
    assert copied(walked) == records
    room = singles.OPENED_LEAST + singles.OPENED_SHARE * sum(map(len, log))
    assert len(opened) <= room // singles.OPENED_IN_VAIN + 1 < len(records)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_compressed_run_ends_where_the_target_takes_no_more(codec: int) -> None:
    records = some(200, size=100)
    walked = fetched(*lone(records, codec=codec), terms=Terms(max_batch_bytes=3_000))
    assert copied(walked) == records
    assert len(walked.batches) > 5
    assert max(batch.size for batch in walked.batches) <= 3_000
    whole = fetched(*lone(some(3_000, size=200), codec=codec))
    assert max(batch.size for batch in whole.batches) <= MERGE_UP_TO


@pytest.mark.parametrize("codec", CODECS)
def test_no_limit_is_passed_by_what_a_codec_adds_to_records_that_it_makes_no_smaller(
    codec: int,
) -> None:
    records = [Seen(i, TIME, b"k", Random(i).randbytes(700)) for i in range(20)]
    for limit in range(1_500, 6_000, 37):
        walked = fetched(*lone(records, codec=codec), terms=Terms(max_batch_bytes=limit))
        assert copied(walked) == records
        assert max(batch.size for batch in walked.batches) <= limit


@pytest.mark.parametrize("body", [b"", b"\x02", b"\x0e\x00\x00\x00\x01\x01", b"\xff" * 40])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_payload_that_holds_no_record_is_left_to_the_target(codec: Codec, body: bytes) -> None:
    records = some(5)
    log = lone(records, codec=codec)
    whole = log[2][:61] + compress(codec, body)
    whole[8:12] = (len(whole) - 12).to_bytes(4, "big")
    log[2] = patched(whole)
    walked = fetched(*log)
    assert [(batch.first, batch.count) for batch in walked.batches] == [(0, 2), (2, 1), (3, 2)]
    assert bytes(walked.batches[1].payload) == bytes(whole[61:])
