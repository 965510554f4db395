"""The error that decides comes out of a task group alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.errors import DeadlineError, FencedError, MirrorfleetError, ungrouped

if TYPE_CHECKING:
    from collections.abc import Coroutine


class _DoneError(Exception):
    """An end that is wanted."""


async def fail(error: Exception) -> None:
    raise error


async def last() -> None:
    await asyncio.Event().wait()


async def side_by_side(*tasks: Coroutine[None, None, None]) -> None:
    with ungrouped(_DoneError):
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(task)


async def test_the_error_that_decides_is_raised_without_its_group() -> None:
    late, fenced = DeadlineError("late"), FencedError("another one has it")
    with pytest.raises(MirrorfleetError) as raised:
        await side_by_side(fail(late), fail(fenced), fail(_DoneError()))

    assert raised.value is fenced
    assert isinstance(raised.value.__cause__, ExceptionGroup)


async def test_an_end_that_is_wanted_is_none() -> None:
    await side_by_side(fail(_DoneError()), last())


async def test_a_group_with_another_error_than_ours_stays_one() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        await side_by_side(fail(DeadlineError("late")), fail(ValueError("a bug")))

    assert raised.group_contains(ValueError)


def test_what_is_in_no_group_passes() -> None:
    late = DeadlineError("late")
    with pytest.raises(DeadlineError) as raised, ungrouped():
        raise late

    assert raised.value is late
