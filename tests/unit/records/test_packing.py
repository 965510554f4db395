"""Numbers and texts in few bytes, and damage that is noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorfleet.core.errors import CorruptBatchError, UnknownVersionError
from mirrorfleet.records.packing import Reader, Writer


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**63 - 1, "ffffffffffffffff7f")],
)
def test_small_numbers_are_short(value: int, written: str) -> None:
    out = Writer(1)
    out.unsigned(value)
    assert out.done().hex() == "01" + written


@pytest.mark.parametrize(("value", "written"), [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f")])
def test_signed_numbers_are_short_either_way(value: int, written: str) -> None:
    out = Writer(1)
    out.signed(value)
    assert out.done().hex() == "01" + written


def test_a_negative_number_is_not_written_as_unsigned() -> None:
    with pytest.raises(ValueError, match="-1 is negative"):
        Writer(1).unsigned(-1)


@given(st.integers(min_value=-(2**62), max_value=2**62), st.text())
def test_what_is_written_is_read(number: int, text: str) -> None:
    out = Writer(7)
    out.signed(number)
    out.text(text)
    out.crc(0xFFFFFFFF)
    data = Reader(out.done(), "x", version=7)
    assert (data.signed(), data.text(), data.crc()) == (number, text, 0xFFFFFFFF)
    data.end()


def test_another_version_says_so() -> None:
    with pytest.raises(UnknownVersionError, match="x: version 2 is not known to this build"):
        Reader(b"\x02\x00", "x", version=1)


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x01\x80", b"\x01\x05ab"])
def test_bytes_that_end_too_early_are_damage(data: bytes) -> None:
    with pytest.raises(CorruptBatchError):
        Reader(data, "x", version=1).text()


def test_a_number_that_never_ends_is_damage() -> None:
    with pytest.raises(CorruptBatchError, match="never ends"):
        Reader(b"\x01" + b"\xff" * 20, "x", version=1).unsigned()


def test_bytes_left_over_are_damage() -> None:
    with pytest.raises(CorruptBatchError, match="1 bytes too many"):
        Reader(b"\x01\x00", "x", version=1).end()


def test_text_that_is_not_utf8_is_damage() -> None:
    with pytest.raises(CorruptBatchError, match="not UTF-8"):
        Reader(b"\x01\x01\xff", "x", version=1).text()
