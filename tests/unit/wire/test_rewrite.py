"""The header that goes out: every field as a broker demands it, and sequences that wrap."""

from __future__ import annotations

import pytest

from mirrorfleet.core.ids import ProducerIdentity
from mirrorfleet.wire.batch import BatchHeader, verify
from mirrorfleet.wire.rewrite import next_sequence, stamp
from tests.unit.wire.batches import (
    CODECS,
    TIME,
    ZSTD,
    batch_of,
    fetched,
    golden,
    header_of,
    patched,
    seen_in,
    some,
)

PRODUCER = ProducerIdentity(9000, 2)


def test_every_field_of_the_header_is_ours_or_the_records() -> None:
    source = patched(batch_of(some(5, first=10), codec=ZSTD, producer_id=4), leader_epoch=6)
    (batch,) = fetched(source).batches
    target = stamp(batch, PRODUCER, 77, transactional=True) + batch.payload
    header = header_of(target)
    assert header == BatchHeader(
        start=0,
        end=len(source),
        base_offset=0,
        leader_epoch=-1,
        magic=2,
        crc=header.crc,
        attributes=0x10 | ZSTD,
        last_offset_delta=4,
        base_timestamp=TIME,
        max_timestamp=TIME + 40,
        producer_id=9000,
        producer_epoch=2,
        base_sequence=77,
        count=5,
    )
    verify(target, header)
    assert target[61:] == source[61:]


@pytest.mark.parametrize("codec", CODECS)
def test_a_stamped_batch_is_read_by_another_decoder(codec: int) -> None:
    (batch,) = fetched(batch_of(some(50), codec=codec)).batches
    assert seen_in(stamp(batch, PRODUCER, 0, transactional=False) + batch.payload) == some(50)


def test_the_source_transaction_is_not_the_targets() -> None:
    (batch,) = fetched(batch_of(some(2), producer_id=4)).batches
    target = stamp(batch, PRODUCER, 0, transactional=False) + batch.payload
    assert not header_of(target).is_transactional


def test_no_attribute_but_the_codec_is_sent() -> None:
    append_time_and_horizon = patched(batch_of(some(2)), attributes=0x7F78 & 0x58)
    (batch,) = fetched(append_time_and_horizon).batches
    target = stamp(batch, PRODUCER, 0, transactional=False) + batch.payload
    assert header_of(target).attributes == 0


def test_a_bit_that_flips_after_the_fetch_fails_the_crc_at_the_target() -> None:
    frame = batch_of(some(5))
    (batch,) = fetched(frame).batches
    payload = bytearray(batch.payload)
    payload[9] ^= 1
    batch.payload = bytes(payload)
    damaged = stamp(batch, PRODUCER, 0, transactional=True) + batch.payload
    with pytest.raises(AssertionError):
        seen_in(damaged)


def test_a_batch_without_idempotence_has_no_producer() -> None:
    (batch,) = fetched(golden("v2-lz4")[0]).batches
    target = stamp(batch, ProducerIdentity(-1, -1), -1, transactional=False) + batch.payload
    header = header_of(target)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


@pytest.mark.parametrize(
    ("sequence", "count", "expected"),
    [
        (0, 5, 5),
        (2_147_483_646, 1, 2_147_483_647),
        (2_147_483_647, 1, 0),
        (2_147_483_632, 32, 16),
    ],
)
def test_a_sequence_wraps_from_the_largest_int_to_zero(
    sequence: int, count: int, expected: int
) -> None:
    assert next_sequence(sequence, count) == expected
