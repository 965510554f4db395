"""Members of a group that are dead processes of this host: taken out, so that nobody waits.

A killed member is missed after its session of 6 s, and until then whoever joins waits. A process
that is started again on the same host need not: the name of the dead one says host and pid, and in
which namespace of pids (a container that was started again has another one, and waits). Whatever
this gets wrong costs a rebalance only; writing is fenced.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from typing import Final

from kio.schema.leave_group.v3.request import LeaveGroupRequest, MemberIdentity
from kio.schema.leave_group.v3.response import LeaveGroupResponse
from kio.schema.types import GroupId

from mirrorfleet.core.errors import BrokerError
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.coordinator import CoordinatorKind, find_coordinator
from mirrorfleet.kafka.group_members import describe_groups

_NAME_PARTS: Final = 4
_DEADLINE_S: Final = 3.0


async def remove_leftovers(cluster: Cluster, group: str, owner: str) -> list[str]:
    """Take dead members out of `group`; their client ids. `owner` is our own name.

    Raises: MirrorfleetError when the coordinator does not answer or refuses.
    """
    found = (await describe_groups(cluster, [group], deadline_s=_DEADLINE_S))[group]
    if isinstance(found, BrokerError):
        raise found
    dead = [m for m in found.members if is_dead(m.client_id, owner, is_alive=_is_alive)]
    if dead:
        node = await find_coordinator(cluster, group, CoordinatorKind.GROUP, _DEADLINE_S)
        request = goodbye(group, (member.member_id for member in dead))
        # a member that is gone meanwhile is an error of that member alone, and no trouble
        await cluster.ask(request, LeaveGroupResponse, node=node, deadline_s=_DEADLINE_S)
    return [member.client_id for member in dead]


def goodbye(group: str, member_ids: Iterable[str]) -> LeaveGroupRequest:
    """What takes members out of a group, whoever sends it."""
    leaving = tuple(MemberIdentity(member_id=member_id) for member_id in member_ids)
    return LeaveGroupRequest(group_id=GroupId(group), members=leaving)


def is_dead(
    client_id: str, owner: str, *, is_alive: Callable[[int], bool], host: str | None = None
) -> bool:
    """Whether a client id is the name of a process that is no more: one of this host and place.

    `program:host:pid:place-nonce`, where the place is that of `runtime.entry.place`. A process that
    has our pid now, by chance or because it was our exec, is told from us by its nonce.
    """
    parts = client_id.split(":")
    ours = owner.split(":")
    if len(parts) != _NAME_PARTS or client_id == owner or not parts[2].isdecimal():
        return False
    if parts[1] != (host or socket.gethostname()) or _place(parts[3]) != _place(ours[3]):
        return False
    return parts[2] == ours[2] or not is_alive(int(parts[2]))


def _place(unique: str) -> str | None:
    place, dash, _ = unique.rpartition("-")
    return place if dash else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
