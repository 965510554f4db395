"""Waiting ends at the first truthy value and fails with what was last seen."""

from __future__ import annotations

import asyncio

import pytest

from tests.faultkit.waiting import NotInTimeError, until, wait_until


class Falsy(str):
    __slots__ = ()

    def __bool__(self) -> bool:
        return False


def test_the_first_truthy_value_is_given_back() -> None:
    values = iter([0, "", None, "there"])
    assert wait_until(lambda: next(values), deadline_s=5, what="a value") == "there"


def test_a_coroutine_predicate_is_awaited() -> None:
    values = iter([0, 7])

    async def look() -> int:
        return next(values)

    assert asyncio.run(until(look, deadline_s=5, what="seven")) == 7


def test_the_failure_names_what_was_awaited_and_the_last_value() -> None:
    with pytest.raises(NotInTimeError, match=r"waited 0.02 s for the moon; last seen: 'half'"):
        wait_until(lambda: Falsy("half"), deadline_s=0.02, what="the moon")


def test_a_look_that_never_returns_meets_the_deadline() -> None:
    async def never() -> bool:
        await asyncio.Event().wait()
        return True

    with pytest.raises(NotInTimeError, match="the end of days"):
        asyncio.run(until(never, deadline_s=0.02, what="the end of days"))


def test_only_the_errors_that_were_named_are_looked_past() -> None:
    looks = iter([ConnectionError("starting"), ValueError("broken")])

    def look() -> bool:
        raise next(looks)

    with pytest.raises(ValueError, match="broken"):
        wait_until(look, deadline_s=5, what="it", ignoring=(ConnectionError,))


def test_an_error_that_was_looked_past_is_told_at_the_deadline() -> None:
    def look() -> bool:
        raise ConnectionError("refused by 1.2.3.4")

    with pytest.raises(NotInTimeError, match=r"refused by 1\.2\.3\.4"):
        asyncio.run(until(look, deadline_s=0.02, what="it", ignoring=(ConnectionError,)))


def test_a_timeout_of_the_predicate_is_its_own() -> None:
    def look() -> bool:
        raise TimeoutError("inner")

    with pytest.raises(TimeoutError, match="inner"):
        asyncio.run(until(look, deadline_s=5, what="it"))
