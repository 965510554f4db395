"""Services that are started while their target is away are up, and at work once it is there."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.errors import AuthenticationError, ConnectionLostError
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.runtime.lifecycle import Failed, Lifecycle, Stop, supervise
from tests.faultkit.waiting import until
from tests.unit.config.making import RIGHT, parse
from tests.unit.standby.test_demotion import Fleet, for_ever, nothing
from tests.unit.standby.test_leading import PLACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mirrorfleet.core.errors import MirrorfleetError
    from mirrorfleet.runtime.entry import Context
    from mirrorfleet.runtime.lifecycle import Service

NEXT = {
    "mirror": "_serve_with",
    "sync": "_open_sources",
    "checkpoint": "_read",
    "lag": "_work",
    "heartbeat": "_beat",
}
"""What each does first when the target is there."""

HOLD = "target west"
AWAY = ConnectionLostError("west: cannot connect.")


class Started:
    """A service as its program runs it."""

    def __init__(self, name: str, fleet: Fleet, context: Context) -> None:
        self.context = context
        module = importlib.import_module(f"services.{name}.service")
        self.service = cast("Service", module.build(context))
        self.lifecycle, self.stop = Lifecycle(), Stop(fleet.context.clock, 5.0)

    def run(self) -> asyncio.Task[int]:
        code = supervise(
            self.service,
            drain_s=5.0,
            clock=self.context.clock,
            lifecycle=self.lifecycle,
            stop=self.stop,
        )
        return asyncio.create_task(code)

    @property
    def reasons(self) -> dict[str, str]:
        return dict(self.context.health.reasons())


@pytest.fixture(params=NEXT)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fleet(name: str, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    made = Fleet()
    if name in ("sync", "checkpoint", "heartbeat"):
        monkeypatch.setattr(f"services.{name}.service.leadership", made.leadership)
    if name == "heartbeat":
        made.group.give(PLACE)
    return made


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port of which nobody takes connections."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_service_without_its_target_is_up_says_why_it_is_not_ready_and_ends_when_asked(
    name: str, fleet: Fleet, nobody: int, number: int
) -> None:
    text = RIGHT.replace('["127.0.0.1:29092", "127.0.0.1:29093"]', f'"127.0.0.1:{nobody}"')
    estate = parse(text, env={"WEST_PASSWORD": "x"})
    started = Started(name, fleet, replace(fleet.context, estate=estate))

    running = started.run()
    await until(lambda: HOLD in started.reasons or running.done(), deadline_s=5, what="the reason")
    assert not running.done()
    said = f"127.0.0.1:{nobody} (west): cannot connect: Connection refused."
    assert started.reasons[HOLD].startswith(said)
    assert started.service.status() is not None
    os.kill(os.getpid(), number)

    assert await asyncio.wait_for(running, timeout=2) == 0


async def test_a_service_is_at_work_once_its_target_is_there(
    name: str, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[MirrorfleetError] = [AWAY, AWAY]
    at_work = asyncio.Event()
    started = Started(name, fleet, fleet.context)

    async def begin(*_: object) -> dict[str, str]:
        at_work.set()
        await started.stop.wait()
        return {}

    monkeypatch.setattr(Cluster, "open", failing(errors))
    monkeypatch.setattr(type(started.service), NEXT[name], begin)

    running = started.run()
    await until(lambda: at_work.is_set() or running.done(), deadline_s=5, what="its work")
    assert not running.done()
    assert (errors, HOLD in started.reasons) == ([], False)
    started.stop.set()
    assert await asyncio.wait_for(running, timeout=2) == 0


async def test_a_target_that_refuses_a_service_ends_it_though_it_was_away_before(
    name: str, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = AuthenticationError("west: SASL as User:copier failed.")
    errors: list[MirrorfleetError] = [AWAY, refusal]
    monkeypatch.setattr(Cluster, "open", failing(errors))
    started = Started(name, fleet, fleet.context)

    assert await asyncio.wait_for(started.run(), timeout=5) == 1
    assert errors == []
    assert started.lifecycle.state == Failed(str(refusal))


@pytest.mark.parametrize("name", ["mirror"], indirect=True)
async def test_a_mirror_waits_for_a_broker_that_is_named_and_away(
    name: str, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[MirrorfleetError] = [AWAY, AWAY]
    monkeypatch.setattr(Cluster, "open", nothing)
    monkeypatch.setattr(Cluster, "broker_versions", failing(errors))
    monkeypatch.setattr(Cluster, "transaction_version", for_ever)
    started = Started(name, fleet, fleet.context)

    running = started.run()
    await until(lambda: not errors or running.done(), deadline_s=5, what="both to have failed")
    assert not running.done()
    running.cancel()
    await asyncio.wait((running,))


def failing(errors: list[MirrorfleetError]) -> object:
    """An `open` that fails with each in turn, then succeeds."""

    async def open_or_fail(_: Cluster) -> None:
        if errors:
            raise errors.pop(0)

    return open_or_fail


async def test_a_service_is_not_ready_while_its_target_has_said_nothing_yet(
    name: str, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence is no refusal: that it is away shows only when a deadline is over."""
    asked = asyncio.Event()

    async def silent(_: Cluster) -> None:
        asked.set()
        await for_ever()

    monkeypatch.setattr(Cluster, "open", silent)
    started = Started(name, fleet, fleet.context)
    running = started.run()
    await until(lambda: asked.is_set() or running.done(), deadline_s=5, what="a first question")
    assert not running.done()

    assert started.reasons.keys() - {"lifecycle"}

    started.stop.set()
    await asyncio.wait_for(running, timeout=10)
