"""Archive blocks: exact bytes, every shape, damage."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorfleet.core.errors import CorruptBatchError, MirrorfleetError, UnknownVersionError
from mirrorfleet.core.ids import TargetOffset
from mirrorfleet.records.archive import Block, BlockKey, decode, decode_key, encode, encode_key
from tests.unit.offsets.making import run_of
from tests.unit.records.making import identity

BLOCK = Block(identity(2), (run_of(5, 15, 7, (8, 2), (12, 1)), run_of(16, 18, 15)))
KEY_HEX = "01" + "00" + "000102030405060708090a0b0c0d0e0f" + "11" * 16 + "22" * 16 + "0200" + "070a"


def key(first: int, end: int, partition: int = 0) -> BlockKey:
    return BlockKey(identity(partition), TargetOffset(first), TargetOffset(end))


def test_the_key_has_these_bytes() -> None:
    assert encode(BLOCK)[0].hex() == KEY_HEX
    assert decode_key(bytes.fromhex(KEY_HEX)) == key(7, 17, 2)


def test_a_block_comes_back() -> None:
    assert decode(*encode(BLOCK)) == BLOCK


def test_equal_blocks_are_equal_bytes() -> None:
    assert encode(BLOCK) == encode(Block(identity(2), BLOCK.runs))


def test_a_removed_block_is_its_key() -> None:
    assert decode(encode_key(key(7, 17)), None) == key(7, 17)


def test_a_run_takes_few_bytes() -> None:
    runs = tuple(run_of(10 * n, 10 * n + 10, 11 * n) for n in range(1000))
    assert len(encode(Block(identity(), runs))[1]) < 4_100  # 4,000 of them are CRCs


@pytest.mark.parametrize(
    ("wide", "narrow", "covers"),
    [
        (key(0, 10), key(0, 9), True),
        (key(0, 10), key(1, 10), True),
        (key(0, 10), key(0, 10), False),
        (key(0, 10), key(5, 11), False),
        (key(0, 10, 1), key(0, 9), False),
    ],
)
def test_only_a_wider_block_of_the_partition_covers(
    wide: BlockKey,
    narrow: BlockKey,
    covers: bool,  # noqa: FBT001 - a row of the table
) -> None:
    assert wide.covers(narrow) is covers


def test_a_newer_version_stops_us() -> None:
    raw, value = encode(BLOCK)
    with pytest.raises(UnknownVersionError):
        decode(raw, b"\x02" + value[1:])
    with pytest.raises(UnknownVersionError):
        decode(b"\x02" + raw[1:], value)


def test_a_key_of_other_runs_is_refused() -> None:
    with pytest.raises(CorruptBatchError, match="not those of its key"):
        decode(encode_key(key(7, 18, 2)), encode(BLOCK)[1])


@settings(max_examples=200)
@given(st.integers(0, len(encode(BLOCK)[1]) - 1), st.integers(0, 255))
def test_any_changed_byte_gives_a_block_or_an_error_of_ours(at: int, byte: int) -> None:
    raw, value = encode(BLOCK)
    data = bytearray(value)
    data[at] = byte
    try:
        decode(raw, bytes(data))
    except MirrorfleetError:
        return
