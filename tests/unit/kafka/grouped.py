"""A member of a group of one: aiokafka's own coordinator on a network that is a stub."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from aiokafka.cluster import ClusterMetadata
from kio.schema.leave_group.v3.request import LeaveGroupRequest

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.core.ids import ClusterAlias, SlotNumber
from mirrorfleet.kafka.membership import Membership
from mirrorfleet.records.members import Carried, Known
from mirrorfleet.runtime.clock import SystemClock

if TYPE_CHECKING:
    from mirrorfleet.core.error_codes import ErrorCode
    from mirrorfleet.kafka.cluster import Cluster

SLOTS = frozenset({SlotNumber(0)})


class Network:
    """A client of aiokafka with one broker, which coordinates a group of one."""

    def __init__(self, **_: object) -> None:
        self.cluster = ClusterMetadata(metadata_max_age_ms=1_000_000)
        self.asked: list[str] = []
        self.joined: list[int] = []
        self.coordinator = 1
        self.silent: int | None = None
        """A node whose answers never come."""
        self.is_held = False
        """Whether answers to JoinGroup are held back: a member is slow, or dead."""

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
        return self.coordinator

    async def ready(self, *_: object, **__: object) -> bool:
        return True

    async def send(self, node: int, request: object, **_: object) -> object:
        name = type(request).__name__
        self.asked.append(name)
        if node == self.silent:
            await asyncio.Event().wait()
        if name == "JoinGroupRequest":
            self.joined.append(node)
            if self.is_held:
                await asyncio.Event().wait()
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
        known=lambda: Known(SLOTS, SLOTS),
        carried=Carried,
    )


class Asked:
    """The connection to a coordinator: unreachable, or of one that gives `code` as its answer."""

    def __init__(self, code: ErrorCode | None) -> None:
        self.code = code
        self.node = 1
        self.tries = 0
        self.left: list[str] = []
        """Members of whose leaving it was told."""

    async def get(self, deadline_s: float) -> object:
        self.tries += 1
        if self.code is None:
            await asyncio.sleep(0.01)
            raise DeadlineError(f"no connection in {deadline_s} s")
        return self

    async def answer(self, _: object, request: object, *__: object) -> object:
        if isinstance(request, LeaveGroupRequest):
            self.left += [member.member_id for member in request.members]
        return SimpleNamespace(error_code=self.code)

    def drop(self) -> None:
        pass
