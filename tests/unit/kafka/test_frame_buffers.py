"""Memory of large answers is used again when nobody holds it, and never before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirrorfleet.kafka.frame_buffers import SMALLEST, FrameBuffers, allocation

MB = 1 << 20


class Segment:
    """Something that keeps a part of an answer."""

    def __init__(self, part: object) -> None:
        self.part = part


HOLDERS: dict[str, Callable[[bytearray], object]] = {
    "itself": lambda frame: frame,
    "a view": memoryview,
    "a view of a view": lambda frame: memoryview(frame)[10:20][3:4],
    "a view of other items": lambda frame: memoryview(frame)[:8].cast("i"),
    "an attribute": Segment,
    "an attribute with a view": lambda frame: Segment(memoryview(frame)[1:]),
    "an iterator": iter,
    "a closure": lambda frame: lambda: frame,
    "a list": lambda frame: [frame],
    "a generator": lambda frame: (each for each in frame),
    "an exception": ValueError,
}


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS.keys())
def test_what_is_held_in_any_way_is_not_used_again_until_it_is_let_go_of(
    hold: Callable[[bytearray], object],
) -> None:
    buffers = FrameBuffers()
    frame = buffers.take(MB)
    frame[:4] = b"kept"
    held, name = hold(frame), id(frame)
    del frame
    other = buffers.take(MB)
    other[:4] = b"else"
    assert id(other) != name
    del other, held
    taken = [buffers.take(MB), buffers.take(MB)]
    assert name in [id(each) for each in taken]


@pytest.mark.parametrize("size", [MB, MB - 1, MB * 5 // 8, MB * 17 // 16])
def test_one_that_nobody_holds_gets_the_length_asked_for_where_it_is(size: int) -> None:
    buffers = FrameBuffers()
    frame = buffers.take(MB * 17 // 16)
    name, allocated = id(frame), frame.__alloc__()
    del frame
    again = buffers.take(size)
    assert (id(again), len(again), again.__alloc__()) == (name, size, allocated)


@pytest.mark.parametrize("size", [MB * 9 // 16, MB * 5 // 4 + 1, 5 * MB])
def test_one_that_is_too_small_or_more_than_twice_as_large_is_left(size: int) -> None:
    buffers = FrameBuffers()
    name = id(buffers.take(MB * 5 // 4))
    again = buffers.take(size)
    assert (id(again) != name, len(again)) == (True, size)


def test_of_those_that_fit_the_smallest_is_taken() -> None:
    buffers = FrameBuffers()
    three = [buffers.take(size * MB // 4) for size in (7, 5, 6)]
    name = id(three[1])
    del three
    assert id(buffers.take(MB)) == name


def test_of_those_that_nobody_holds_so_many_bytes_are_kept_and_the_last_taken_ones() -> None:
    buffers = FrameBuffers(free_kept=3 * MB + 3)
    five = [buffers.take(MB) for _ in range(5)]
    names = [id(each) for each in five]
    del five
    taken = [buffers.take(4 * MB)]  # looks at what is free, and keeps three
    taken += [buffers.take(MB) for _ in range(3)]
    assert {id(each) for each in taken[1:]} == set(names[2:])


def test_small_ones_are_made_each_time() -> None:
    buffers = FrameBuffers()
    frame = buffers.take(SMALLEST - 1)
    assert (len(frame), frame.__alloc__()) == (SMALLEST - 1, SMALLEST)
    assert [len(buffers.take(size)) for size in (0, 1, 40_000)] == [0, 1, 40_000]


@pytest.mark.parametrize(
    ("size", "made"),
    [
        (SMALLEST, SMALLEST),
        (SMALLEST + 1, SMALLEST * 5 // 4),
        (MB - 1, MB),
        (MB, MB),
        (MB * 3 // 2, MB * 3 // 2),
        (MB * 3 // 2 + 1, MB * 7 // 4),
        (50 * MB + 1, 56 * MB),
    ],
)
def test_sizes_are_a_quarter_of_a_power_of_two_apart(size: int, made: int) -> None:
    assert allocation(size) == made
