"""Cutting frames out of a byte stream, in whatever pieces it comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorfleet.kafka.frames import BIG_FRAME, SCRATCH_BYTES, Frame, FrameReader, NotAFrameError


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def feed(reader: FrameReader, stream: bytes, piece: int) -> list[Frame]:
    """What comes out when the transport brings at most `piece` bytes at a time."""
    found: list[Frame] = []
    while stream:
        room = reader.buffer()
        count = min(len(room), piece, len(stream))
        room[:count] = stream[:count]
        found += reader.received(count)
        stream = stream[count:]
    return found


@given(
    st.lists(
        st.integers(4, 300) | st.sampled_from([BIG_FRAME, BIG_FRAME + 1, 200_000]), max_size=6
    ),
    st.sampled_from([1000, 4096, 65_536, 1 << 20]),
)
def test_frames_come_out_whole_whatever_the_pieces(sizes: list[int], piece: int) -> None:
    bodies = [bytes([65 + n]) * size for n, size in enumerate(sizes)]
    assert feed(FrameReader(), b"".join(map(framed, bodies)), piece) == bodies


def test_a_stream_that_comes_byte_by_byte_is_understood() -> None:
    bodies = [b"abcd", b"efghij", b"klmno"]
    assert feed(FrameReader(), b"".join(map(framed, bodies)), 1) == bodies


def test_a_big_frame_gets_a_buffer_of_its_own() -> None:
    big = bytes(3 * SCRATCH_BYTES)
    small, found = feed(FrameReader(), framed(b"small") + framed(big), 1 << 20)
    assert (type(small), type(found)) == (bytes, bytearray)
    assert found == big


def test_a_big_frame_is_written_once_into_what_its_taker_gets() -> None:
    reader = FrameReader()
    head = framed(bytes(BIG_FRAME + 100))[:10]
    reader.buffer()[:10] = head
    assert reader.received(10) == []
    room = reader.buffer()
    room[:] = b"x" * len(room)
    (frame,) = reader.received(len(room))
    assert room.obj is frame


def test_a_frame_is_not_changed_by_what_comes_after_it() -> None:
    reader = FrameReader()
    (first,) = feed(reader, framed(b"first"), 100)
    feed(reader, framed(b"other"), 100)
    assert first == b"first"


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x46", "a TLS alert"),
        (b"HTTP/1.1 400", "a web server"),
        (b"\xff\xff\xff\xff", "a negative size"),
        (b"\0\0\0\3abc", "no room for a correlation id"),
    ],
)
def test_what_is_no_frame_is_refused_before_anything_is_allocated(first: bytes, why: str) -> None:
    with pytest.raises(NotAFrameError) as caught:
        feed(FrameReader(), first, 100)
    assert caught.value.first == first[:8], why
