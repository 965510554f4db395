"""Messages of magic 0 and 1 become records of one magic 2 batch, each at its own offset."""

from __future__ import annotations

import struct
import zlib

import pytest

from mirrorfleet.wire.batch import walk
from mirrorfleet.wire.copybatch import FaultKind, NullKeys, Terms
from tests.unit.wire.batches import (
    TIME,
    Seen,
    batch_of,
    copied,
    fetched,
    golden,
    some,
)


def message(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    magic: int = 1,
    attributes: int = 0,
    time: int = TIME,
) -> bytes:
    """One message, laid out by hand."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", time) if magic else b"")
    for field in (key, value):
        body += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def wrapper(offset: int, inner: bytes, *, magic: int = 1, codec: int = 1) -> bytes:
    """A compressed message, gzip unless another codec is claimed."""
    packed = zlib.compress(inner, wbits=31)
    return message(offset, None, packed, magic=magic, attributes=codec)


def test_messages_without_compression_go_into_one_batch() -> None:
    walked = fetched(message(7, b"a", b"1"), message(8, None, b"2"), message(9, b"c", None))
    assert copied(walked) == [
        Seen(7, TIME, b"a", b"1"),
        Seen(8, TIME, None, b"2"),
        Seen(9, TIME, b"c", None),
    ]
    assert len(walked.batches) == 1
    assert (walked.next_offset, walked.leader_epoch) == (10, -1)


def test_magic_0_has_no_time() -> None:
    (record,) = copied(fetched(message(7, b"a", b"1", magic=0)))
    assert record.timestamp == -1


def test_offsets_inside_a_magic_1_wrapper_are_relative_to_its_last_message() -> None:
    inner = message(0, b"a", b"1") + message(2, b"b", b"2") + message(5, b"c", b"3")
    walked = fetched(wrapper(105, inner), wanted=100)
    assert [record.offset for record in copied(walked)] == [100, 102, 105]
    assert walked.batches[0].holes == ((101, 1), (103, 2))


def test_offsets_inside_a_magic_0_wrapper_are_absolute() -> None:
    inner = message(100, b"a", b"1", magic=0) + message(103, b"b", b"2", magic=0)
    walked = fetched(wrapper(103, inner, magic=0), wanted=100)
    assert [record.offset for record in copied(walked)] == [100, 103]


def test_the_append_time_of_a_wrapper_is_that_of_every_message_inside() -> None:
    packed = zlib.compress(message(0, b"a", b"1") + message(1, b"b", b"2"), wbits=31)
    late = message(101, None, packed, attributes=0x08 | 1, time=TIME + 999)
    assert [record.timestamp for record in copied(fetched(late))] == [TIME + 999] * 2


def test_without_append_time_messages_in_a_wrapper_keep_their_own() -> None:
    inner = message(0, b"a", b"1", time=TIME - 5) + message(1, b"b", b"2", time=TIME - 9)
    times = [record.timestamp for record in copied(fetched(wrapper(101, inner)))]
    assert times == [TIME - 5, TIME - 9]


def test_a_wrapper_is_trimmed_to_the_wanted_offset() -> None:
    inner = message(0, b"a", b"1") + message(1, b"b", b"2") + message(2, b"c", b"3")
    walked = fetched(wrapper(102, inner), wanted=102)
    assert [record.offset for record in copied(walked)] == [102]


def test_an_old_batch_between_new_ones_keeps_its_place() -> None:
    walked = fetched(batch_of(some(2)), message(2, b"a", b"1"), batch_of(some(2, first=3)))
    assert [(batch.first, batch.count) for batch in walked.batches] == [(0, 2), (2, 1), (3, 2)]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_the_codec_of_a_wrapper_is_kept(magic: int, codec: str) -> None:
    (batch,) = fetched(golden(f"v{magic}-{codec}")[0]).batches
    assert batch.attributes == ["none", "gzip", "snappy", "lz4"].index(codec)


def test_a_message_of_another_codec_begins_another_batch() -> None:
    log = [message(0, b"a", b"1"), wrapper(1, message(0, b"b", b"2")), message(2, b"c", b"3")]
    assert [batch.attributes for batch in fetched(*log).batches] == [0, 1, 0]


def test_old_messages_are_gathered_up_to_the_targets_limit() -> None:
    log = [message(i, b"k", b"v" * 100) for i in range(50)]
    walked = fetched(*log, terms=Terms(max_batch_bytes=1000))
    assert len(copied(walked)) == 50
    assert 5 <= len(walked.batches) <= 10
    assert max(batch.size for batch in walked.batches) <= 1000


def test_an_old_record_without_key_is_dropped_or_stops_the_copy_by_policy() -> None:
    log = [message(0, b"a", b"1"), message(1, None, b"2"), message(2, b"c", b"3")]
    failed = fetched(*log, terms=Terms(null_keys=NullKeys.FAIL))
    assert [record.offset for record in copied(failed)] == [0]
    assert failed.fault is not None
    assert (failed.fault.offset, failed.next_offset) == (1, 1)
    dropped = fetched(*log, terms=Terms(null_keys=NullKeys.DROP_RECORDED))
    assert [record.offset for record in copied(dropped)] == [0, 2]
    assert [drop.offset for drop in dropped.dropped] == [1]


def test_an_old_record_that_is_too_large_is_a_fault_at_its_offset() -> None:
    log = [message(0, b"a", b"1"), message(1, b"b", b"x" * 500), message(2, b"c", b"3")]
    walked = fetched(*log, terms=Terms(max_batch_bytes=200))
    assert [record.offset for record in copied(walked)] == [0]
    assert walked.fault is not None
    assert (walked.fault.offset, walked.fault.kind) == (1, FaultKind.TOO_LARGE)
    assert walked.next_offset == 1


def test_a_fault_in_gathered_messages_stops_the_walk_before_the_next_batch() -> None:
    walked = fetched(
        message(0, b"b", b"x" * 500),
        message(1, None, b"x"),
        batch_of(some(1, first=2)),
        terms=Terms(max_batch_bytes=200, null_keys=NullKeys.DROP_RECORDED),
    )
    assert (walked.batches, walked.next_offset, walked.dropped) == ([], 0, ())


@pytest.mark.parametrize("behind", [1, 2, 3])
def test_nothing_behind_a_fault_in_gathered_messages_is_copied_however_much_comes(
    behind: int,
) -> None:
    walked = fetched(
        message(0, b"a", b"1"),
        message(1, b"b", b"x" * 5000),
        *(batch_of(some(1, first=2 + i)) for i in range(behind)),
        terms=Terms(max_batch_bytes=2000),
    )
    assert walked.fault is not None
    assert (walked.fault.offset, walked.next_offset) == (1, 1)
    assert [record.offset for record in copied(walked)] == [0]


TWO = message(0, b"a", b"1") + message(1, b"b", b"2")


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (wrapper(101, TWO[:-1]), "cut or empty"),
        (wrapper(101, b""), "cut or empty"),
        (wrapper(101, message(0, b"a", b"1", magic=0)), "another magic"),
        (wrapper(101, wrapper(0, TWO)), "compressed again"),
        (wrapper(101, message(1, b"a", b"1") + message(0, b"b", b"2")), "out of order"),
        (wrapper(101, message(102, b"a", b"1", magic=0), magic=0), "out of order"),
        (wrapper(101, TWO[:-1] + b"\xff"), "CRC"),
        (wrapper(101, TWO, codec=4), "no message set"),
        (wrapper(101, TWO, codec=7), "codec id 7"),
        (message(101, None, None, attributes=1), "no message set"),
        (message(101, b"a", b"1")[:-1] + b"\xff", "CRC"),
    ],
)
def test_a_broken_old_message_is_a_fault_after_those_before_it(bad: bytes, complaint: str) -> None:
    walked = fetched(message(50, b"a", b"1"), bad)
    assert [record.offset for record in copied(walked)] == [50]
    assert walked.fault is not None
    assert (walked.fault.offset, walked.fault.kind) == (51, FaultKind.CORRUPT)
    assert complaint in walked.fault.detail


@pytest.mark.parametrize("length", [-2, 6, 2**31 - 1])
def test_a_field_length_that_does_not_fit_is_corrupt(length: int) -> None:
    body = struct.pack(">bbqi", 1, 0, TIME, length) + b"12345"
    bad = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
    assert len(list(walk(bad))) == 1
    walked = fetched(bad)
    assert walked.fault is not None
    assert walked.fault.kind is FaultKind.CORRUPT
