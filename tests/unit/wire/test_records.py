"""Records one by one, in and out, against a decoder that is not ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.wire.codecs import Codec
from mirrorfleet.wire.framing import framed_records
from mirrorfleet.wire.records import NewRecord, Record, build_batch, control_batch, records_of
from mirrorfleet.wire.varint import read_varint, wrap_64, write_varint
from tests.unit.wire.batches import TIME, Seen, batch_of, header_of, seen_in, sent


def test_headers_null_empty_and_repeated_are_kept_in_order() -> None:
    headers = (("a", b"1"), ("a", None), ("", b""), ("a", b"1"))
    batch = batch_of([Seen(3, TIME, None, b"", headers)])
    assert list(records_of(batch, header_of(batch))) == [
        Record(3, TIME, None, b"", ((b"a", b"1"), (b"a", None), (b"", b""), (b"a", b"1")))
    ]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_control_batch_is_read_by_another_decoder(codec: Codec) -> None:
    batch = control_batch([(b"k", b"v"), (b"gone", None), (None, b"")], TIME, codec)
    assert seen_in(sent(batch)) == [
        Seen(0, TIME, b"k", b"v"),
        Seen(1, TIME, b"gone", None),
        Seen(2, TIME, None, b""),
    ]
    assert (batch.first, batch.next_offset, batch.count) == (0, 3, 3)


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(ValueError, match="needs a record"):
        control_batch([], TIME)


def test_new_records_keep_their_own_times_and_headers() -> None:
    new = [
        NewRecord(TIME + 9, b"a", b"1", ((b"h", None),)),
        NewRecord(TIME, b"b", b"2"),
    ]
    batch = build_batch(new, Codec.LZ4)
    target = sent(batch)
    assert [record[1:] for record in records_of(target, header_of(target))] == [
        (TIME + 9, b"a", b"1", ((b"h", None),)),
        (TIME, b"b", b"2", ()),
    ]
    assert (batch.base_timestamp, batch.max_timestamp) == (TIME + 9, TIME + 9)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (8192, "808001"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_varints_are_zigzag_in_both_directions(value: int, encoded: str) -> None:
    assert write_varint(value).hex() == encoded
    assert read_varint(bytes.fromhex("ff" + encoded), 1) == (value, 1 + len(encoded) // 2)


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_64_bit_number_comes_back(value: int) -> None:
    encoded = write_varint(value)
    assert read_varint(encoded, 0) == (value, len(encoded))


def test_bits_beyond_64_are_dropped_as_java_drops_them() -> None:
    assert read_varint(b"\xff" * 9 + b"\x7f", 0) == (-(2**63), 10)


def test_a_varint_without_end_is_corrupt() -> None:
    with pytest.raises(CorruptBatchError, match="64 bits"):
        read_varint(b"\x80" * 11 + b"\x01", 0)


def test_times_overflow_as_javas_do() -> None:
    assert wrap_64(2**63) == -(2**63)
    extremes = [NewRecord(-1, None, b"a"), NewRecord(2**63 - 1, None, b"b")]
    target = sent(build_batch(extremes))
    assert [r.timestamp for r in records_of(target, header_of(target))] == [-1, 2**63 - 1]


ONE = bytes.fromhex("0e 00 00 00 01 02 78 00")  # key null, value "x", no headers


def test_a_record_is_framed_as_kafka_documents_it() -> None:
    assert list(framed_records(ONE, 1, 40, TIME)) == [(40, TIME, b"\x01\x02x\x00")]


@pytest.mark.parametrize(
    ("body", "count", "complaint"),
    [
        (ONE, 2, "ends before its 2 records"),
        (ONE + b"\x00", 1, "1 bytes follow"),
        (ONE[:-1], 1, "does not fit"),
        (b"\x01" + ONE[1:], 1, "does not fit"),
        (b"\x02" + ONE[1:], 1, "does not fit"),
        (b"\x0e\x00\x80", 1, "ends before"),
        (b"\x0e\x00" + b"\xff" * 12, 1, "64 bits"),
        (b"", 2_000_000_000, "ends before"),
    ],
)
def test_bytes_that_are_no_records_are_corrupt(body: bytes, count: int, complaint: str) -> None:
    with pytest.raises(CorruptBatchError, match=complaint):
        list(framed_records(body, count))


@pytest.mark.parametrize(
    ("tail", "complaint"),
    [
        ("", "ends inside"),
        ("02", "does not fit"),
        ("01", "ends inside"),
        ("010104", "claims 2 headers"),
        ("0101020100", "header has no key"),
        ("01010000", "1 bytes follow"),
        ("010101", "claims -1 headers"),
    ],
)
def test_a_record_whose_fields_do_not_fill_it_is_corrupt(tail: str, complaint: str) -> None:
    rest = b"\x00\x00\x00" + bytes.fromhex(tail)
    body = write_varint(len(rest)) + rest
    batch = sent(build_batch([NewRecord(TIME, None, b"")]))
    lying = batch[:57] + b"\x00\x00\x00\x01" + body
    header = header_of(batch)._replace(end=len(lying))
    with pytest.raises(CorruptBatchError, match=complaint):
        list(records_of(lying, header))
