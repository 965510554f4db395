"""Joining two CRC-32C values gives what one pass over both byte strings gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorfleet.wire.checksum import combine, crc32c

HEADER = b"forty bytes of a record batch's header.."


def test_crc32c_is_castagnoli() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize(
    "size", [0, 1, 8191, 8192, 8193, 65_536, 127 << 13, (127 << 13) + 5, 3_000_000]
)
def test_a_joined_checksum_is_the_checksum_of_both_parts(size: int) -> None:
    payload = bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert combine(crc32c(HEADER), crc32c(payload), size) == crc32c(HEADER + payload)


@given(st.binary(max_size=60), st.binary(max_size=300))
def test_a_joined_checksum_is_right_for_any_bytes(first: bytes, second: bytes) -> None:
    assert combine(crc32c(first), crc32c(second), len(second)) == crc32c(first + second)
