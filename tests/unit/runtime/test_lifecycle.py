"""A service is run to its end: drained when asked, cancelled if it overstays, loud if it fails."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping

import pytest

from mirrorfleet.core.errors import RefusedError
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.runtime.health import Health
from mirrorfleet.runtime.lifecycle import (
    Draining,
    Failed,
    Lifecycle,
    Serving,
    Starting,
    Stop,
    Stopped,
    describe,
    supervise,
)


class Scripted:
    """A service whose `serve` is the given function."""

    def __init__(self, script: Callable[[Stop], Awaitable[None]]) -> None:
        self._script = script

    async def serve(self, stop: Stop) -> None:
        await self._script(stop)

    def status(self) -> Mapping[str, object]:
        return {}


async def run(
    script: Callable[[Stop], Awaitable[None]], *, drain_s: float = 5.0
) -> tuple[int, Lifecycle]:
    life = Lifecycle()
    code = await supervise(Scripted(script), drain_s=drain_s, clock=SystemClock(), lifecycle=life)
    return code, life


async def test_a_service_that_ends_by_itself_exits_with_0() -> None:
    async def script(stop: Stop) -> None:
        assert not stop.is_set()

    code, life = await run(script)

    assert (code, life.state) == (0, Stopped())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_asks_for_the_end_and_a_drain_in_time_exits_with_0(number: int) -> None:
    async def script(stop: Stop) -> None:
        os.kill(os.getpid(), number)
        await stop.wait()
        assert 4.0 < stop.remaining() <= 5.0

    code, life = await run(script)

    assert (code, life.state) == (0, Stopped())


async def test_a_service_that_overstays_its_drain_is_cancelled() -> None:
    cancelled: list[bool] = []

    async def script(stop: Stop) -> None:
        stop.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    code, life = await run(script, drain_s=0.02)

    assert code == 1
    assert cancelled == [True]
    assert life.state == Failed("not drained within 0.02 s; cancelled")


async def test_a_second_signal_does_not_wait_for_the_deadline() -> None:
    async def script(stop: Stop) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    code, _ = await asyncio.wait_for(run(script, drain_s=600), timeout=5)

    assert code == 1


async def test_an_error_in_one_task_of_a_group_fails_the_service_with_its_message() -> None:
    async def refuse() -> None:
        raise RefusedError("both ends are one cluster.", hint="Fix bootstrap.")

    async def script(stop: Stop) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(refuse())
            group.create_task(stop.wait())

    code, life = await run(script)

    assert (code, life.state) == (1, Failed("both ends are one cluster. Fix bootstrap."))


async def test_a_time_out_of_the_service_itself_is_not_taken_for_the_drain() -> None:
    async def script(stop: Stop) -> None:
        raise TimeoutError("mine")

    _, life = await run(script)

    assert life.state == Failed("TimeoutError: mine")


async def test_a_stop_set_before_the_start_still_gives_a_deadline() -> None:
    clock = SystemClock()
    stop = Stop(clock, 0.02)
    stop.set()

    async def script(_: Stop) -> None:
        await asyncio.Event().wait()

    code = await supervise(Scripted(script), drain_s=0.02, clock=clock, stop=stop)

    assert code == 1


def test_an_ended_life_takes_no_other_state() -> None:
    life = Lifecycle()
    life.move(Serving())
    life.move(Draining(1.0))
    life.move(Stopped())

    with pytest.raises(ValueError, match="no way from Stopped"):
        life.move(Serving())


def test_equal_errors_of_a_group_are_said_once() -> None:
    group = ExceptionGroup("", [RefusedError("a"), RefusedError("a"), RefusedError("b")])

    assert describe(group) == "a; b"


def test_a_service_is_ready_only_while_it_serves_and_nothing_holds_it() -> None:
    life = Lifecycle()
    health = Health(life)
    assert health.reasons() == {"lifecycle": "starting"}

    life.move(Serving())
    health.hold("catalog", "not read yet")
    assert health.reasons() == {"catalog": "not read yet"}

    health.release("catalog")
    assert health.ready

    life.move(Failed("disk"))
    assert health.reasons() == {"lifecycle": "failed: disk"}


def test_a_new_life_is_starting() -> None:
    assert Lifecycle().state == Starting()


async def test_waiting_at_most_says_whether_the_stop_came() -> None:
    stop = Stop(SystemClock(), 1.0)
    assert not await stop.wait_at_most(0.001)

    stop.set()
    assert await stop.wait_at_most(60)


async def test_work_is_done_unless_the_stop_comes() -> None:
    stop = Stop(SystemClock(), 1.0)
    given_up = asyncio.Event()

    async def quick() -> int:
        return 7

    async def refused() -> int:
        raise RefusedError("not you.")

    async def endless() -> int:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
        return 0

    assert await stop.unless(quick()) == 7
    with pytest.raises(RefusedError):
        await stop.unless(refused())
    asyncio.get_running_loop().call_soon(stop.set)
    assert await stop.unless(endless()) is None
    assert given_up.is_set()
