"""Garbage that only the collector finds goes when the process grows; holes in the heap do, too."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import weakref

import pytest

from mirrorfleet.runtime import memory
from mirrorfleet.runtime.memory import Growth, Regrowth
from tests.faultkit.waiting import until

MB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "due"),
    [
        ([80, 95, 96, 97], [False, True, False]),
        ([80, 96, 90, 96, 111, 112], [True, False, False, False, True]),
        ([80, 300, 301, 80, 315, 316], [True, False, False, False, True]),
        ([0, 0, 0], [False, False]),
    ],
    ids=["once", "never for what it had before", "from there on", "where nobody says it"],
)
def test_growth_is_a_reason_once_for_each_step_above_all_before(
    sizes: list[int], due: list[bool]
) -> None:
    growth = Growth(sizes[0] * MB)
    assert [growth.is_due(each * MB) for each in sizes[1:]] == due


@pytest.mark.parametrize(
    ("sizes", "due"),
    [
        ([70, 119, 120], [False, False, True]),
        ([150, 115, 122, 123], [True, False, False, True]),
        ([140, 139, 147, 148], [True, False, False, True]),
        ([400, 400, 424, 425], [True, False, False, True]),
        ([200, 200, 130, 137, 139], [True, False, False, False, True]),
    ],
    ids=["small", "after it helped", "by 8 MB", "by a sixteenth", "from the least since"],
)
def test_holes_are_due_where_a_large_process_grew_since_the_last_time(
    sizes: list[int], due: list[bool]
) -> None:
    regrowth = Regrowth()
    told: list[bool] = []
    for index, size in enumerate(sizes):
        told.append(regrowth.is_due(size * MB))
        if told[-1]:
            regrowth.settled(sizes[min(index + 1, len(sizes) - 1)] * MB)
    assert told == due


async def test_a_large_process_gives_holes_back_when_it_grows_and_not_because_it_stays_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size, holes = 119 * MB, 20 * MB
    asked: list[int] = []
    glances = 0

    def give_back(least: int) -> bool:
        nonlocal size
        asked.append(least)
        size -= holes
        return True

    def resident() -> int:
        nonlocal glances
        glances += 1
        return size

    async def some_glances() -> None:
        enough = glances + 10
        await until(lambda: glances > enough, deadline_s=5, what="some looks at its size")

    monkeypatch.setattr(memory, "_resident_bytes", resident)
    monkeypatch.setattr(memory, "_GLANCE_S", 0.001)
    monkeypatch.setattr(memory, "give_back", give_back)
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(memory.watch())
        await some_glances()
        assert not asked
        for _ in range(2):
            asked.clear()
            size = 130 * MB
            await some_glances()
            assert (asked, size) == ([12 * MB], 110 * MB)
        holes = 0
        size = 140 * MB
        await some_glances()
        assert len(asked) == 2
        watch.cancel()


class Frame:
    """What a traceback holds."""


async def test_a_cycle_goes_when_the_process_has_grown_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = 100 * MB
    monkeypatch.setattr(memory, "_resident_bytes", lambda: size)
    monkeypatch.setattr(memory, "_GLANCE_S", 0.0001)
    looks = 0

    def looked() -> bool:
        nonlocal looks
        looks += 1
        return looks > 5

    frame = Frame()
    frame.__dict__["itself"] = frame
    left = weakref.ref(frame)
    gc.disable()
    try:
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(memory.watch())
            del frame
            await until(looked, deadline_s=5, what="some looks at a process that does not grow")
            assert left() is not None
            size += 16 * MB
            await until(lambda: left() is None, deadline_s=5, what="the cycle to go")
            watch.cancel()
    finally:
        gc.enable()


HOLED = """
import resource
from pathlib import Path
from mirrorfleet.runtime import memory

def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20

memory.prepare()
began = resident()
frames = [bytearray(b"x") * (1 << 20) for _ in range(%d)]
del frames[:-1]  # what is left is at the top: nothing below it goes by itself
holed = resident() - began
given = memory.give_back(64 << 20)
print(holed, given, resident() - began)
"""


@pytest.mark.parametrize(("frames", "given"), [(150, True), (40, False)], ids=["many", "few"])
def test_holes_in_the_heap_are_given_back_when_there_are_many(frames: int, *, given: bool) -> None:
    command = [sys.executable, "-c", HOLED % frames]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    holed, after = int(told[0]), int(told[2])

    assert holed >= frames - 10
    assert told[1] == str(given)
    assert after <= 10 if given else after >= holed - 10


async def test_growth_is_measured_anew_when_holes_were_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = {"now": 100 * MB}
    given: list[int] = []
    collected: list[int] = []

    def give_back(least: int) -> bool:
        assert least == 64 * MB
        if not given:
            sizes["now"] = 60 * MB
            given.append(sizes["now"])
            return True
        return False

    monkeypatch.setattr(memory, "_resident_bytes", lambda: sizes["now"])
    monkeypatch.setattr(memory, "_GLANCE_S", 0.0001)
    monkeypatch.setattr(memory, "_LOOKS", 3)
    monkeypatch.setattr(memory, "give_back", give_back)
    monkeypatch.setattr(gc, "collect", lambda: collected.append(sizes["now"]))

    async with asyncio.TaskGroup() as group:
        watch = group.create_task(memory.watch())
        await until(lambda: bool(given), deadline_s=5, what="holes to be given back")
        assert not collected
        sizes["now"] = 80 * MB
        await until(lambda: bool(collected), deadline_s=5, what="a look for garbage")
        watch.cancel()

    assert collected == [80 * MB]
