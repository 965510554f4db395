"""Garbage that only the collector finds goes when the process grows."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from mirrorfleet.runtime import memory
from mirrorfleet.runtime.memory import Growth
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


class Frame:
    """What a traceback holds."""


async def test_a_cycle_goes_when_the_process_has_grown_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = 100 * MB
    monkeypatch.setattr(memory, "_resident_bytes", lambda: size)
    monkeypatch.setattr(memory, "_LOOK_S", 0.001)
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
