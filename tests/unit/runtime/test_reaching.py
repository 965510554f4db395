"""A target that is away at the start is waited for, and said; only a refusal or a stop ends it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import (
    AuthenticationError,
    BrokerError,
    ConfigError,
    ConnectionLostError,
    DeadlineError,
    MirrorfleetError,
    RefusedError,
    UnsupportedError,
)
from mirrorfleet.runtime.lifecycle import Stop
from mirrorfleet.runtime.reaching import reached
from tests.faultkit.waiting import until
from tests.unit.standby.test_demotion import Fleet, for_ever

HOLD = "target west"
AWAY = ConnectionLostError("h:1 (west): cannot connect: Connection refused.")
NO_ANSWER = DeadlineError("west: no connection to h:1 within 0.5 s.")


class Target:
    """Fails with each of the errors in turn, then answers; `health` sees what was said of each."""

    def __init__(self, *errors: MirrorfleetError) -> None:
        self.context = Fleet().context
        self.stop = Stop(self.context.clock, 5.0)
        self.errors = list(errors)
        self.said: list[str] = []

    async def open(self) -> None:
        self.said.append(self.reason)
        if self.errors:
            raise self.errors.pop(0)

    @property
    def reason(self) -> str:
        return self.context.health.reasons().get(HOLD, "")

    async def reached(self) -> bool:
        return await reached(self.context, self.stop, self.open)


async def test_a_target_that_is_away_is_waited_for_and_its_last_reason_is_said_until_it_is_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    target = Target(AWAY, NO_ANSWER, AWAY)

    assert await target.reached()

    assert target.said == ["", str(AWAY), str(NO_ANSWER), str(AWAY)]
    assert target.context.health.ready
    assert [record.message for record in caplog.records] == [
        "waiting for the target",
        "the target is there",
    ]
    assert caplog.records[0].__dict__["error"] == str(AWAY)


async def test_of_a_target_that_answers_at_once_nothing_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    assert await Target().reached()
    assert caplog.records == []


@pytest.mark.parametrize(
    "refusal",
    [
        AuthenticationError("SASL as User:copier failed."),
        BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "west"),
        UnsupportedError("the broker speaks no Metadata that we know."),
        ConfigError("secret file /run/password: No such file."),
        RefusedError("the address is another cluster now."),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_refusal_ends_it_at_once_and_after_a_while(refusal: MirrorfleetError) -> None:
    for before in ([], [AWAY, AWAY]):
        target = Target(*before, refusal)
        with pytest.raises(type(refusal), match=str(refusal)[:20]):
            await target.reached()
        assert len(target.said) == len(before) + 1


async def test_a_stop_ends_an_attempt_that_gets_no_answer() -> None:
    target, asked = Target(), asyncio.Event()

    async def hang() -> None:
        asked.set()
        await for_ever()

    waiting = asyncio.create_task(reached(target.context, target.stop, hang))
    await asked.wait()
    target.stop.set()
    assert not await asyncio.wait_for(waiting, timeout=1)


async def test_a_stop_ends_the_pause_between_two_attempts() -> None:
    target = Target(*[AWAY] * 1000)
    waiting = asyncio.create_task(target.reached())
    await until(lambda: len(target.said) > 1, deadline_s=5, what="a second attempt")
    target.stop.set()
    tries = len(target.said)
    assert not await asyncio.wait_for(waiting, timeout=1)
    assert len(target.said) == tries


async def test_a_target_that_came_with_the_stop_is_not_begun_with() -> None:
    target = Target()
    target.stop.set()
    assert not await target.reached()
