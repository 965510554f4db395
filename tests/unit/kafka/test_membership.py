"""A member of a group for weeks: aiokafka's own coordinator on a network that is a stub."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from aiokafka.cluster import ClusterMetadata
from aiokafka.consumer import subscription_state

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.copying.sharing import Share
from mirrorfleet.core.errors import (
    AuthenticationError,
    ConfigError,
    DeadlineError,
    MirrorfleetError,
)
from mirrorfleet.core.ids import ClusterAlias, SlotNumber
from mirrorfleet.kafka import membership
from mirrorfleet.kafka.membership import Membership
from mirrorfleet.runtime.clock import SystemClock
from tests.faultkit.waiting import until

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster

A_MONTH_S = 31 * 86_400.0
SLOTS = frozenset({SlotNumber(0)})


class Network:
    """A client of aiokafka with one broker, which coordinates a group of one."""

    def __init__(self, **_: object) -> None:
        self.cluster = ClusterMetadata(metadata_max_age_ms=1_000_000)
        self.asked: list[str] = []

    def set_topics(self, _: object) -> asyncio.Future[bool]:
        return done()

    def force_metadata_update(self) -> asyncio.Future[bool]:
        return done()

    async def bootstrap(self) -> None:
        pass

    async def _maybe_wait_metadata(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def coordinator_lookup(self, *_: object) -> int:
        return 1

    async def ready(self, *_: object, **__: object) -> bool:
        return True

    async def send(self, _: int, request: object, **__: object) -> object:
        name = type(request).__name__
        self.asked.append(name)
        if name == "JoinGroupRequest":
            protocol, metadata = vars(request)["_group_protocols"][0]
            return SimpleNamespace(
                error_code=0,
                generation_id=1,
                member_id="me",
                leader_id="me",
                group_protocol=protocol,
                members=[("me", None, metadata)],
                API_VERSION=5,
            )
        if name == "SyncGroupRequest":
            given = dict(vars(request)["_group_assignment"])["me"]
            return SimpleNamespace(error_code=0, member_assignment=given)
        return SimpleNamespace(error_code=0, throttle_time_ms=0)


def done() -> asyncio.Future[bool]:
    answer = asyncio.get_running_loop().create_future()
    answer.set_result(True)
    return answer


def member() -> Membership:
    settings = ClusterSettings(alias=ClusterAlias("west"), bootstrap=("x:1",))
    return Membership(
        cast("Cluster", SimpleNamespace(settings=settings)),
        group="mirrorfleet.f.sync",
        topic="t",
        owner="sync:h:1:aa",
        clock=SystemClock(),
        known=lambda: (SLOTS, SLOTS),
    )


async def test_a_member_stays_one_for_weeks_without_reading_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + passed)
    network = Network()
    monkeypatch.setattr(subscription_state, "time", clock)
    monkeypatch.setattr(membership, "AIOKafkaClient", lambda **_: network)
    monkeypatch.setattr(membership, "read_secret_again", lambda *_: None)
    monkeypatch.setattr(membership, "remove_leftovers", done_for)
    monkeypatch.setattr(membership, "HEARTBEAT_S", 0.05)
    mine = member()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(mine.run())
        await until(lambda: mine.share, deadline_s=10, what="a share")
        passed = A_MONTH_S
        network.asked.clear()
        await until(lambda: len(network.asked) >= 5, deadline_s=10, what="heartbeats")
        assert set(network.asked) == {"HeartbeatRequest"}
        running.cancel()


async def done_for(*_: object) -> list[object]:
    return []


async def test_a_client_that_is_no_member_and_says_nothing_is_begun_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(membership, "_OUTSIDE_S", 0.3)
    mine = member()
    silent = SimpleNamespace(generation=-1, check_errors=lambda: None, request_rejoin=lambda: None)
    with pytest.raises(DeadlineError, match="no member"):
        async with asyncio.timeout(5):
            await mine._watch(cast("membership._Coordinator", silent))


@pytest.mark.parametrize("error", [AuthenticationError("wrong password"), ConfigError("no key")])
async def test_who_was_a_member_waits_for_secrets_that_are_half_renewed(
    monkeypatch: pytest.MonkeyPatch, error: MirrorfleetError
) -> None:
    mine = member()
    tries = 0

    async def be_member() -> None:
        nonlocal tries
        tries += 1
        raise error

    monkeypatch.setattr(mine, "_be_member", be_member)
    monkeypatch.setattr(membership, "_AGAIN_S", 0.01)
    with pytest.raises(type(error)):
        await mine.run()

    mine.share, tries = Share(SLOTS, frozenset()), 0
    async with asyncio.TaskGroup() as group:
        running = group.create_task(mine.run())
        await until(lambda: tries > 2, deadline_s=5, what="another try")
        assert mine.trouble == str(error)
        running.cancel()
