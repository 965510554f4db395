"""Groups with their members, whichever protocol they speak: each has a request of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kio.schema.consumer_group_describe.v0.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v0.response import ConsumerGroupDescribeResponse
from kio.schema.consumer_group_describe.v0.response import DescribedGroup as ConsumerGroup
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.describe_groups.v5.response import DescribeGroupsResponse
from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest
from kio.schema.streams_group_describe.v0.response import DescribedGroup as StreamsGroup
from kio.schema.streams_group_describe.v0.response import StreamsGroupDescribeResponse
from kio.schema.types import GroupId

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, UnsupportedError
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.codec import code_of
from mirrorfleet.kafka.each import Results, verdict
from mirrorfleet.kafka.groups import GroupState, at_coordinators, group_state

_OF_ANOTHER: Final = frozenset(
    {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_GROUP_ID}
)
"""No such group of that protocol, a broker where the protocol is off, or the empty name, which only
the classic one takes."""


class GroupMember(NamedTuple):
    """A member, as far as people want to see it."""

    member_id: str
    client_id: str
    host: str
    brings: bytes = b""
    """What it joined with, in the format of its protocol; empty while the group is not stable."""


class GroupDescription(NamedTuple):
    """A group with its members; an unknown group is DEAD."""

    group: str
    state: GroupState
    members: tuple[GroupMember, ...]


class _Protocol(NamedTuple):
    """How groups of a newer protocol are asked for; the schemas are alike."""

    request: type[ConsumerGroupDescribeRequest | StreamsGroupDescribeRequest]
    answer: type[ConsumerGroupDescribeResponse | StreamsGroupDescribeResponse]


_NEWER: Final = (
    _Protocol(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
    _Protocol(StreamsGroupDescribeRequest, StreamsGroupDescribeResponse),
)
"""KIP-848, from Kafka 4.0; KIP-1071, from 4.1."""

Described = Results[str, GroupDescription]


async def describe_groups(
    cluster: Cluster, groups: Iterable[str], *, deadline_s: float | None = None
) -> Described:
    """Groups with their members, from their coordinators.

    TOPIC_AUTHORIZATION_FAILED: it reads a topic that we may not describe, and its members are kept
    from us. Such a group is not one without members.
    """

    async def ask(node: int, names: Sequence[str], left_s: float) -> Described:
        found = await _classic(cluster, node, names, left_s)
        for protocol in _NEWER:
            unknown = [name for name, one in found.items() if _may_be_of_another(one)]
            if unknown:
                found |= await _newer(cluster, node, unknown, left_s, protocol)
        return found

    return await at_coordinators(cluster, "DescribeGroups", groups, ask, deadline_s)


async def _classic(cluster: Cluster, node: int, names: Sequence[str], left_s: float) -> Described:
    request = DescribeGroupsRequest(
        groups=tuple(map(GroupId, names)), include_authorized_operations=False
    )
    answer = await cluster.ask(request, DescribeGroupsResponse, node=node, deadline_s=left_s)
    found: Described = {}
    for one in answer.groups:
        name = str(one.group_id)
        members = tuple(
            GroupMember(
                each.member_id, each.client_id, each.client_host, bytes(each.member_metadata)
            )
            for each in one.members
        )
        description = GroupDescription(name, group_state(one.group_state), members)
        found[name] = verdict(code_of(one.error_code), f"group {name}") or description
    return found


async def _newer(
    cluster: Cluster, node: int, names: Sequence[str], left_s: float, protocol: _Protocol
) -> Described:
    """Groups of a protocol that is younger than a broker may be: those have none of it."""
    request = protocol.request(
        group_ids=tuple(map(GroupId, names)), include_authorized_operations=False
    )
    unknown: Described = {name: GroupDescription(name, GroupState.DEAD, ()) for name in names}
    try:
        answer = await cluster.ask(request, protocol.answer, node=node, deadline_s=left_s)
    except UnsupportedError:
        return unknown
    return unknown | _told(answer.groups)


def _told(groups: Iterable[ConsumerGroup | StreamsGroup]) -> Described:
    """What is said of groups by a newer protocol, without those that are of another one."""
    found: Described = {}
    for one in groups:
        name, code = str(one.group_id), code_of(one.error_code)
        if code in _OF_ANOTHER:
            continue
        members = tuple(
            GroupMember(each.member_id, each.client_id, each.client_host) for each in one.members
        )
        description = GroupDescription(name, group_state(one.group_state), members)
        found[name] = verdict(code, f"group {name}", one.error_message) or description
    return found


def _may_be_of_another(found: GroupDescription | BrokerError) -> bool:
    """Whether another protocol may have it.

    Kafka 4 answers GROUP_ID_NOT_FOUND, older ones DEAD, for what is no classic group.
    """
    if isinstance(found, BrokerError):
        return found.code is ErrorCode.GROUP_ID_NOT_FOUND
    return found.state is GroupState.DEAD
