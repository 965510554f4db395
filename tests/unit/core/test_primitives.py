"""Primitive types, against byte strings written out by hand."""

from __future__ import annotations

import pytest

from mirrorfleet.core import primitives as p

UNSIGNED = [
    (0, "00"),
    (127, "7f"),
    (128, "80 01"),
    (300, "ac 02"),
    (2**31 - 1, "ff ff ff ff 07"),
    (2**63, "80 80 80 80 80 80 80 80 80 01"),
]


@pytest.mark.parametrize(("value", "coded"), UNSIGNED)
def test_unsigned_varints_in_both_directions(value: int, coded: str) -> None:
    raw = bytes.fromhex(coded)
    assert p.uvarint(value) == raw
    assert p.read_uvarint(b"\xee" + raw + b"\xee", 1) == (value, 1 + len(raw))


def test_a_varint_that_never_ends_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than ten bytes"):
        p.read_uvarint(b"\x80" * 11, 0)


def test_a_varint_cut_short_is_refused() -> None:
    with pytest.raises(IndexError):
        p.read_uvarint(b"\x80\x80", 0)


@pytest.mark.parametrize(
    ("text", "coded"), [(None, b"\0"), ("", b"\1"), ("ab", b"\3ab"), ("é", b"\3\xc3\xa9")]
)
def test_compact_strings_in_both_directions(text: str | None, coded: bytes) -> None:
    assert p.compact_string(text) == coded
    assert p.read_compact_string(coded, 0) == (text, len(coded))


def test_a_string_longer_than_its_buffer_is_refused() -> None:
    with pytest.raises(IndexError):
        p.read_compact_string(b"\x09abc", 0)


def test_legacy_strings_have_a_length_of_two_bytes() -> None:
    assert p.legacy_string("ab") == b"\0\2ab"
    assert p.legacy_string(None) == b"\xff\xff"


def test_tags_are_skipped_whatever_they_hold() -> None:
    assert p.skip_tags(b"\0rest", 0) == 1
    assert p.skip_tags(b"\2" + b"\0\1x" + b"\7\2yz" + b"rest", 0) == 8
