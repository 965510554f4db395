"""Consumer groups of others: listed, their offsets read and set from outside.

An offset is set as `kafka-consumer-groups.sh --reset-offsets` does it: generation -1 and no member,
which the coordinator takes for a group without members only (UNKNOWN_MEMBER_ID otherwise), and
with leader epoch -1: an epoch of another cluster would send consumers into false truncation.
Works for groups of the classic, the consumer (KIP-848) and the streams protocol (KIP-1071).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar

from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v4.response import FindCoordinatorResponse
from kio.schema.list_groups.v4.request import ListGroupsRequest
from kio.schema.list_groups.v4.response import ListGroupsResponse
from kio.schema.offset_commit.v8.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_commit.v8.response import OffsetCommitResponse
from kio.schema.offset_fetch.v8.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.offset_fetch.v8.response import OffsetFetchResponse, OffsetFetchResponseGroup
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i64

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.codec import code_of
from mirrorfleet.kafka.coordinator import CoordinatorKind
from mirrorfleet.kafka.each import (
    Results,
    each_once,
    each_until_deadline,
    in_turn,
    of_each_node,
    verdict,
)
from mirrorfleet.offsets.homes import Activity, GroupOffset

V = TypeVar("V")

_NO_GENERATION: Final = -1
_NO_EPOCH: Final = -1
_MOST_PLACES: Final = 1_000
_MOST_BYTES: Final = 256 * 1024
"""Of one OffsetCommit, as its coordinator writes it down: see `commit_offsets`."""
_RECORD_BYTES: Final = 100
"""What the record of an offset takes beside its names and its metadata, and some more."""
OF_PARTITIONS: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    }
)
"""Answers to a commit that concern a partition alone; any other one is about its group."""
_UNSTABLE: Final = ErrorCode.UNSTABLE_OFFSET_COMMIT
_CONSUMER_PROTOCOLS: Final = frozenset({"consumer", "streams", ""})
"""A group that only ever had offsets set from outside has no protocol. Kafka Streams' groups are of
"consumer" by the classic protocol and of "streams" by their own; both keep offsets alike."""


class GroupState(StrEnum):
    """States of groups that have offsets (GroupState of the Java admin client)."""

    EMPTY = "Empty"
    DEAD = "Dead"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"
    """Of Streams: it has members, but topics that it needs are missing."""
    UNKNOWN = "Unknown"

    @property
    def activity(self) -> Activity:
        """Whether the group has members; an unknown word counts as active."""
        empty = self in {GroupState.EMPTY, GroupState.DEAD}
        return Activity.IDLE if empty else Activity.ACTIVE


class ListedGroup(NamedTuple):
    """A consumer group and the broker that coordinates it."""

    group: str
    state: GroupState
    node_id: int


GroupOffsets = dict[TopicPartition, GroupOffset]


async def list_groups(
    cluster: Cluster, *, any_protocol: bool = False, deadline_s: float | None = None
) -> dict[str, ListedGroup]:
    """All consumer groups, by name; groups of Connect and share groups are left out unless
    `any_protocol`.

    Raises: BrokerError of a broker that refuses or still loads its groups, and as `Cluster.ask`:
    a part is not an answer.
    """
    await cluster.metadata(())
    found: dict[str, ListedGroup] = {}
    for node in cluster.brokers:
        answer = await cluster.ask(
            ListGroupsRequest(), ListGroupsResponse, node=node, deadline_s=deadline_s
        )
        error = verdict(code_of(answer.error_code), f"{cluster.name}: ListGroups at {node}")
        if error is not None:
            raise error
        for each in answer.groups:
            if any_protocol or each.protocol_type in _CONSUMER_PROTOCOLS:
                name = str(each.group_id)
                found[name] = ListedGroup(name, group_state(each.group_state), int(node))
    return found


def state_of(listed: Mapping[str, ListedGroup], group: str) -> GroupState:
    """The state of a group of `list_groups`; DEAD of one that is not there."""
    return listed[group].state if group in listed else GroupState.DEAD


async def fetch_offsets(
    cluster: Cluster,
    groups: Iterable[str],
    *,
    once: bool = False,
    stable: bool = False,
    deadline_s: float | None = None,
) -> Results[str, GroupOffsets]:
    """Every committed offset of each group; an unknown group has none. `once`: no refusal is waited
    out. `stable`: UNSTABLE_OFFSET_COMMIT (retriable) while a transaction that commits offsets of
    it is not over; without it the ones before are answered (KIP-447).
    """

    async def ask(node: int, names: Sequence[str], left_s: float) -> Results[str, GroupOffsets]:
        asked = (OffsetFetchRequestGroup(group_id=GroupId(name), topics=None) for name in names)
        request = OffsetFetchRequest(groups=tuple(asked), require_stable=stable)
        answer = await cluster.ask(request, OffsetFetchResponse, node=node, deadline_s=left_s)
        return {str(group.group_id): _offsets_of(group) for group in answer.groups}

    return await at_coordinators(cluster, "OffsetFetch", groups, ask, deadline_s, once=once)


async def commit_offsets(
    cluster: Cluster,
    wanted: Mapping[str, Mapping[TopicPartition, GroupOffset]],
    *,
    once: bool = False,
    deadline_s: float | None = None,
) -> Results[str, None]:
    """Set offsets of groups that have no members; all of a group or, for the first error, unknown.

    A coordinator writes what one request commits as one batch, which max.message.bytes of
    __consumer_offsets limits (1,048,588): a group of some 7,000 partitions would be refused whole,
    for ever. So a group is set in parts, one after the other, and where it is refused itself
    nothing more of it is sent. UNKNOWN_MEMBER_ID: it has members by now. `once`: nothing is set
    again after a refusal or no answer, when the group may have moved.
    """

    async def set_one(node: int, name: str, left_s: float) -> BrokerError | None:
        codes: list[ErrorCode] = []
        for part in _parts(name, wanted[name]):
            request = _commit_request(name, part)
            answer = await cluster.ask(request, OffsetCommitResponse, node=node, deadline_s=left_s)
            codes += [code_of(p.error_code) for topic in answer.topics for p in topic.partitions]
            if not OF_PARTITIONS.issuperset(codes):
                break
        codes.sort(key=OF_PARTITIONS.__contains__)  # what is said of the group itself counts
        first = next((code for code in codes if code is not ErrorCode.NONE), ErrorCode.NONE)
        return verdict(first, f"{cluster.name}: OffsetCommit of group {name}")

    async def ask(node: int, names: Sequence[str], left_s: float) -> Results[str, None]:
        return await in_turn("OffsetCommit", names, lambda name: set_one(node, name, left_s))

    return await at_coordinators(cluster, "OffsetCommit", wanted, ask, deadline_s, once=once)


async def find_coordinators(
    cluster: Cluster, groups: Sequence[str], deadline_s: float
) -> Results[str, int]:
    """The node that coordinates each group now. Raises: as `Cluster.ask`."""
    request = FindCoordinatorRequest(
        key_type=i8(CoordinatorKind.GROUP), coordinator_keys=tuple(groups)
    )
    answer = await cluster.ask(request, FindCoordinatorResponse, deadline_s=deadline_s)
    return {
        one.key: verdict(
            code_of(one.error_code), f"{cluster.name}: coordinator of {one.key}", one.error_message
        )
        or int(one.node_id)
        for one in answer.coordinators
    }


async def at_coordinators(
    cluster: Cluster,
    what: str,
    groups: Iterable[str],
    ask: Callable[[int, Sequence[str], float], Awaitable[Results[str, V]]],
    deadline_s: float | None,
    *,
    once: bool = False,
) -> Results[str, V]:
    """`each_until_deadline` or `each_once` for groups, asked of their coordinators side by side."""

    async def attempt(left: list[str], left_s: float) -> Results[str, V]:
        found: Results[str, V] = {}
        nodes: dict[int, list[str]] = {}
        for name, node in (await find_coordinators(cluster, left, left_s)).items():
            if isinstance(node, BrokerError):
                found[name] = node
            else:
                nodes.setdefault(node, []).append(name)
        return found | await of_each_node(what, nodes, lambda node: ask(node, nodes[node], left_s))

    if once:
        return await each_once(cluster, what, groups, attempt, deadline_s)
    return await each_until_deadline(cluster, what, groups, attempt, deadline_s)


def group_state(word: str) -> GroupState:
    """The state for the broker's word."""
    try:
        return GroupState(word)
    except ValueError:
        return GroupState.UNKNOWN


def _offsets_of(group: OffsetFetchResponseGroup) -> GroupOffsets | BrokerError:
    code = code_of(group.error_code)
    if code is ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    if any(code_of(p.error_code) is _UNSTABLE for t in group.topics for p in t.partitions):
        code = _UNSTABLE
    error = verdict(code, f"OffsetFetch of group {group.group_id}")
    if error is not None:
        return error
    return {
        TopicPartition(str(topic.name), int(p.partition_index)): GroupOffset(
            int(p.committed_offset), p.metadata or ""
        )
        for topic in group.topics
        for p in topic.partitions
        if code_of(p.error_code) is ErrorCode.NONE and p.committed_offset >= 0
    }


def _parts(
    group: str, offsets: Mapping[TopicPartition, GroupOffset]
) -> Iterator[dict[TopicPartition, GroupOffset]]:
    """Offsets of a group, as many at a time as its coordinator surely takes at once."""
    part: dict[TopicPartition, GroupOffset] = {}
    size = 0
    for at, place in offsets.items():
        # each record has the name of the group, too
        texts = (group, at.topic, place.metadata)
        more = _RECORD_BYTES + sum(len(text.encode()) for text in texts)
        if part and (len(part) == _MOST_PLACES or size + more > _MOST_BYTES):
            yield part
            part, size = {}, 0
        part[at] = place
        size += more
    if part:
        yield part


def _commit_request(
    group: str, offsets: Mapping[TopicPartition, GroupOffset]
) -> OffsetCommitRequest:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for tp, (offset, metadata) in offsets.items():
        topics.setdefault(tp.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=i32(tp.partition),
                committed_offset=i64(offset),
                committed_leader_epoch=i32(_NO_EPOCH),
                committed_metadata=metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=GroupId(group),
        generation_id_or_member_epoch=i32(_NO_GENERATION),
        member_id="",
        topics=tuple(
            OffsetCommitRequestTopic(name=TopicName(name), partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )
