"""Several processes of a service, one of them active: the others are ready and do nothing.

    standby ──(the group gives us the place)──> active ──(no word of the group for 6 s)──> standby

    await leadership(context, cluster, "checkpoint").run(self._work, stop, self._forget)

The place is slot 0 of a group of the service's own. A killed process loses it after 6 s, one that
ends gives it back at once. The lease is counted from the last request that was answered, so it ends
here before another process may begin. A process that was asleep learns that late: what must not be
written then is fenced by a transactional id as well.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.core.names import control_topic, service_id
from mirrorfleet.kafka.membership import HEARTBEAT_S, SESSION_S, Membership
from mirrorfleet.records.members import Carried, Known
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.runtime.health import Role
from mirrorfleet.runtime.log import fields, logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mirrorfleet.copying.sharing import Share
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.runtime.entry import Context
    from mirrorfleet.runtime.health import Health
    from mirrorfleet.runtime.lifecycle import Stop

GROUP: Final = "group"
"""What holds a process back that is not a member yet."""
_PLACE: Final = frozenset({SlotNumber(0)})

_log = logger(__name__)


class Member(Protocol):
    """What is asked of a `Membership`."""

    share: Share | None
    confirmed_at: float
    trouble: str

    @property
    def group(self) -> str:
        """The name of the group."""
        ...

    async def run(self) -> None:
        """Be a member until cancelled."""
        ...

    async def confirm(self) -> bool:
        """Ask the coordinator whether we are one."""
        ...

    async def changed(self, at_most_s: float) -> None:
        """Wait for news or the time."""
        ...


def leadership(context: Context, cluster: Cluster, service: str) -> Leadership:
    """The leadership of a service of the fleet whose target is `cluster`."""
    membership = Membership(
        cluster,
        group=service_id(context.fleet, service),
        topic=control_topic(context.fleet, ControlKind.SLOTS),
        owner=context.owner,
        clock=context.clock,
        known=lambda: Known(_PLACE, _PLACE),
        carried=Carried,
    )
    return Leadership(membership, context.health, context.clock, service)


class Leadership:
    """The active part of a service, run while this process leads."""

    def __init__(self, membership: Member, health: Health, clock: Clock, service: str) -> None:
        self._membership = membership
        self._health = health
        self._clock = clock
        self._service = service
        health.hold(GROUP, "not a member of the group of this service yet")

    async def run(
        self, active: Callable[[], Awaitable[None]], stop: Stop, forget: Callable[[], None]
    ) -> None:
        """Be active or standby until `stop`; `active` is cancelled when the place is lost.

        `active` must be able to begin anew, with nothing that it knew before; what it has to say is
        in `Health.active`, which ends with it. On `stop` it ends before the place is given back.
        When the place is lost, `forget` drops what it has seen: another process looks from then on,
        and what ours saw would be told as ever older.

        Raises: what `active` raises; BrokerError when the group is not allowed, and as
        `Membership.run`.
        """
        self._health.role = Role.STANDBY
        async with asyncio.TaskGroup() as group:
            member = group.create_task(self._membership.run(), name=f"group:{self._service}")
            lead = group.create_task(self._lead(active, forget), name=f"lead:{self._service}")
            await stop.wait()
            lead.cancel()
            await asyncio.wait((lead,))
            member.cancel()

    async def is_ours(self) -> bool:
        """Whether the coordinator says so now; asked before a fenced id is taken again."""
        return self._has_place and await self._membership.confirm()

    @property
    def _has_place(self) -> bool:
        share = self._membership.share
        return share is not None and bool(share.slots)

    async def _lead(
        self, active: Callable[[], Awaitable[None]], forget: Callable[[], None]
    ) -> None:
        while True:
            await self._until_ours()
            self._health.role = Role.ACTIVE
            _log.info("active", extra=fields(service=self._service))
            async with asyncio.TaskGroup() as group:
                work = group.create_task(_awaited(active), name=f"active:{self._service}")
                watch = group.create_task(self._until_lost(), name=f"lease:{self._service}")
                await asyncio.sleep(0)  # it says first what holds it back
                self._health.release(GROUP)
                await asyncio.wait((work, watch), return_when=asyncio.FIRST_COMPLETED)
                work.cancel()
                watch.cancel()
            self._health.active.clear()
            forget()
            self._health.role = Role.STANDBY
            _log.warning("the place is lost", extra=fields(service=self._service))

    async def _until_ours(self) -> None:
        membership, health = self._membership, self._health
        while True:
            if await membership.confirm():
                if self._has_place:
                    return
                health.release(GROUP)
            elif membership.trouble:
                health.hold(GROUP, membership.trouble)
            elif self._clock.monotonic() >= membership.confirmed_at + SESSION_S:
                health.hold(GROUP, f"{membership.group}: its coordinator names no member here")
            await membership.changed(HEARTBEAT_S)

    async def _until_lost(self) -> None:
        """Until the place is another's, or nobody could tell us for a session."""
        membership = self._membership
        while self._has_place:
            left_s = membership.confirmed_at + SESSION_S - self._clock.monotonic()
            if left_s <= 0:
                return
            with suppress(TimeoutError):  # the lease is over, whatever is still to be answered
                async with asyncio.timeout(left_s):
                    await membership.confirm()
                    await membership.changed(HEARTBEAT_S)


async def _awaited(active: Callable[[], Awaitable[None]]) -> None:
    await active()
