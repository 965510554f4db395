"""Groups of others: how they are listed, and how their offsets are set from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from kio.schema.consumer_group_describe.v0.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v0.response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from kio.schema.describe_groups.v5.response import DescribedGroup as DescribedClassic
from kio.schema.describe_groups.v5.response import DescribeGroupsResponse
from kio.schema.errors import ErrorCode as Code
from kio.schema.list_groups.v4.response import ListedGroup as Listed
from kio.schema.list_groups.v4.response import ListGroupsResponse
from kio.schema.offset_commit.v8.request import OffsetCommitRequest
from kio.schema.offset_commit.v8.response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest
from kio.schema.streams_group_describe.v0.response import DescribedGroup as DescribedStreams
from kio.schema.streams_group_describe.v0.response import StreamsGroupDescribeResponse
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError, UnsupportedError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka import groups as module
from mirrorfleet.kafka.backoff import SystemDice
from mirrorfleet.kafka.codec import milliseconds
from mirrorfleet.kafka.group_members import GroupDescription, describe_groups
from mirrorfleet.kafka.groups import GroupState, commit_offsets, list_groups
from mirrorfleet.offsets.homes import Activity, GroupOffset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.kafka.codec import Request

ORDERS = TopicPartition("orders", 0)
PROTOCOLS = ("consumer", "", "connect", "streams", "share")
WANTED = {"a": {ORDERS: GroupOffset(5)}, "b": {ORDERS: GroupOffset(6)}}
MANY = {
    "a": {TopicPartition("orders", number): GroupOffset(number) for number in range(2_500)},
    "b": {ORDERS: GroupOffset(6)},
}


class Brokers:
    """A cluster of one broker, which answers about all groups but those it is silent about.

    `refuses` are answers to commits, by their number.
    """

    name = "west"
    brokers = (1,)

    def __init__(self, *silent: str, refuses: Mapping[int, Code] | None = None) -> None:
        self.silent, self.refuses = silent, refuses or {}
        self.commits: list[OffsetCommitRequest] = []

    async def metadata(self, _: object) -> None:
        pass

    async def ask(self, request: Request, *_: object, **__: object) -> object:
        if isinstance(request, OffsetCommitRequest):
            return self._commit(request)
        names = zip("abcde", PROTOCOLS, strict=True)
        listed = (
            Listed(group_id=GroupId(name), protocol_type=kind, group_state="Stable")
            for name, kind in names
        )
        return ListGroupsResponse(
            throttle_time=milliseconds(0), error_code=Code.none, groups=tuple(listed)
        )

    def _commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        self.commits.append(request)
        if request.group_id in self.silent:
            raise DeadlineError("west: no answer")
        code = self.refuses.get(len(self.commits), Code.none)
        done = OffsetCommitResponsePartition(partition_index=i32(0), error_code=code)
        topic = OffsetCommitResponseTopic(name=TopicName("orders"), partitions=(done,))
        return OffsetCommitResponse(throttle_time=milliseconds(0), topics=(topic,))

    def parts(self) -> list[tuple[str, list[int]]]:
        """Groups and partitions of each commit."""
        return [
            (str(one.group_id), [int(p.partition_index) for t in one.topics for p in t.partitions])
            for one in self.commits
        ]


class NoClassicGroups:
    """A cluster of Kafka 4, which has one code for whatever group of a newer protocol it is asked
    about: of KIP-848, or of Streams' own, of which older ones know nothing.
    """

    name = "west"
    dice = SystemDice()

    def __init__(self, code: Code, streams: Code | None = None) -> None:
        self.code, self.streams = code, streams

    async def ask(self, request: Request, *_: object, **__: object) -> object:
        if isinstance(request, ConsumerGroupDescribeRequest):
            return self._described()
        if isinstance(request, StreamsGroupDescribeRequest):
            return self._described_streams()
        none = DescribedClassic(
            error_code=Code.group_id_not_found,
            group_id=GroupId("g"),
            group_state="Dead",
            protocol_type="",
            protocol_data="",
            members=(),
        )
        return DescribeGroupsResponse(throttle_time=milliseconds(0), groups=(none,))

    def _described(self) -> ConsumerGroupDescribeResponse:
        found = DescribedGroup(
            error_code=self.code,
            error_message=None,
            group_id=GroupId("g"),
            group_state="Stable" if self.code is Code.none else "",
            group_epoch=i32(0),
            assignment_epoch=i32(0),
            assignor_name="",
            members=(),
        )
        return ConsumerGroupDescribeResponse(throttle_time=milliseconds(0), groups=(found,))

    def _described_streams(self) -> StreamsGroupDescribeResponse:
        if self.streams is None:
            raise UnsupportedError("west: not before 4.1")
        found = DescribedStreams(
            error_code=self.streams,
            error_message=None,
            group_id=GroupId("g"),
            group_state="NotReady" if self.streams is Code.none else "",
            group_epoch=i32(0),
            assignment_epoch=i32(0),
            members=(),
        )
        return StreamsGroupDescribeResponse(throttle_time=milliseconds(0), groups=(found,))


@pytest.fixture(autouse=True)
def _coordinators(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(_: object, names: Iterable[str], *__: object, **___: object) -> dict[str, int]:
        return dict.fromkeys(names, 1)

    monkeypatch.setattr(module, "find_coordinators", find)


async def test_only_who_asks_for_any_protocol_hears_of_groups_that_have_no_offsets_to_move() -> (
    None
):
    cluster = cast("Cluster", Brokers())

    assert set(await list_groups(cluster, deadline_s=1.0)) == {"a", "b", "d"}
    assert set(await list_groups(cluster, any_protocol=True, deadline_s=1.0)) == set("abcde")


async def test_an_offset_is_set_by_no_member_and_with_no_epoch_of_another_cluster() -> None:
    brokers = Brokers()
    done = await commit_offsets(cast("Cluster", brokers), WANTED, once=True, deadline_s=1.0)

    assert done == {"a": None, "b": None}
    for each in brokers.commits:
        assert (each.generation_id_or_member_epoch, each.member_id) == (-1, "")
        assert [p.committed_leader_epoch for t in each.topics for p in t.partitions] == [-1]


async def test_of_a_broker_that_falls_silent_what_it_set_counts_and_nothing_is_set_again() -> None:
    brokers = Brokers("b")
    done = await commit_offsets(cast("Cluster", brokers), WANTED, once=True, deadline_s=1.0)

    assert done["a"] is None
    assert isinstance(done["b"], BrokerError)
    assert done["b"].code is ErrorCode.NETWORK_EXCEPTION
    assert [str(each.group_id) for each in brokers.commits] == ["a", "b"]


async def test_a_group_of_many_partitions_is_set_a_part_after_the_other() -> None:
    """Its coordinator writes what a request has as one batch, which has a largest size."""
    brokers = Brokers()
    done = await commit_offsets(cast("Cluster", brokers), MANY, once=True, deadline_s=1.0)

    parts = brokers.parts()
    assert done == {"a": None, "b": None}
    assert [(group, len(part)) for group, part in parts] == [
        ("a", 1_000),
        ("a", 1_000),
        ("a", 500),
        ("b", 1),
    ]
    assert [at for group, part in parts if group == "a" for at in part] == list(range(2_500))


async def test_a_group_with_much_metadata_is_set_in_smaller_parts() -> None:
    brokers = Brokers()
    places = {TopicPartition("orders", n): GroupOffset(n, "m" * 4_000) for n in range(100)}

    await commit_offsets(cast("Cluster", brokers), {"a": places}, once=True, deadline_s=1.0)

    assert [len(part) for _, part in brokers.parts()] == [63, 37]


@pytest.mark.parametrize(
    ("refuses", "sent", "said"),
    [
        ({2: Code.unknown_member_id}, 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ({1: Code.invalid_commit_offset_size}, 1, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        ({1: Code.topic_authorization_failed}, 3, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (
            {1: Code.topic_authorization_failed, 2: Code.unknown_member_id},
            2,
            ErrorCode.UNKNOWN_MEMBER_ID,
        ),
    ],
    ids=["joined meanwhile", "refused at once", "a topic", "a topic, and joined meanwhile"],
)
async def test_of_a_group_that_is_refused_itself_no_more_is_sent_and_others_are_set(
    refuses: dict[int, Code], sent: int, said: ErrorCode
) -> None:
    brokers = Brokers(refuses=refuses)
    done = await commit_offsets(cast("Cluster", brokers), MANY, once=True, deadline_s=1.0)

    assert isinstance(done["a"], BrokerError)
    assert (done["a"].code, done["b"]) == (said, None)
    assert [group for group, _ in brokers.parts()] == ["a"] * sent + ["b"]


async def test_a_group_whose_members_are_kept_from_us_is_not_one_without_members() -> None:
    """It reads a topic that we may not describe: Kafka 4 answers without its members."""
    brokers = cast("Cluster", NoClassicGroups(Code.topic_authorization_failed))

    found = (await describe_groups(brokers, ["g"], deadline_s=1.0))["g"]

    assert isinstance(found, BrokerError)
    assert found.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("code", "streams", "state"),
    [
        (Code.group_id_not_found, None, GroupState.DEAD),
        (Code.group_id_not_found, Code.group_id_not_found, GroupState.DEAD),
        (Code.unsupported_version, Code.unsupported_version, GroupState.DEAD),
        (Code.invalid_group_id, Code.invalid_group_id, GroupState.DEAD),
        (Code.none, None, GroupState.STABLE),
        (Code.group_id_not_found, Code.none, GroupState.NOT_READY),
    ],
    ids=["before 4.1", "no such group", "off", "the empty name", "KIP-848", "KIP-1071"],
)
async def test_a_group_is_dead_only_where_no_protocol_has_it(
    code: Code, streams: Code | None, state: GroupState
) -> None:
    brokers = cast("Cluster", NoClassicGroups(code, streams))

    found = await describe_groups(brokers, ["g"], deadline_s=1.0)

    assert found == {"g": GroupDescription("g", state, ())}
    assert state.activity is (Activity.IDLE if state is GroupState.DEAD else Activity.ACTIVE)
