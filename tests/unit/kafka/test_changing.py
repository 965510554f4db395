"""Changes of a cluster: how long a broker may take for one, and what it says of each part."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

import pytest
from kio.schema.create_partitions.v3.request import CreatePartitionsRequest
from kio.schema.create_topics.v5.request import CreateTopicsRequest
from kio.schema.delete_acls.v2.response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from kio.schema.delete_records.v2.request import DeleteRecordsRequest
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest
from kio.schema.errors import ErrorCode as Code
from kio.schema.metadata.v10.request import MetadataRequest
from kio.static.primitive import i8
from kio.static.protocol import Entity

from mirrorfleet.core.access import (
    AclBinding,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
)
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import DeadlineError, RefusedError
from mirrorfleet.core.ids import ClusterId, TopicPartition
from mirrorfleet.kafka.acls import delete_acls
from mirrorfleet.kafka.admin import (
    NewTopic,
    create_partitions,
    create_topics,
    default_configs,
    delete_topics,
)
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.codec import Request, count_ms, milliseconds
from mirrorfleet.kafka.metadata import Broker, Metadata
from mirrorfleet.kafka.offsets import delete_records
from tests.unit.kafka.test_asking_leaders import West

R = TypeVar("R", bound=Entity)

AT = TopicPartition("orders", 0)
ACL = AclBinding(
    AclResource.TOPIC,
    "orders",
    AclPattern.LITERAL,
    "User:till",
    "*",
    AclOperation.READ,
    AclPermission.ALLOW,
)

Timed = CreateTopicsRequest | CreatePartitionsRequest | DeleteTopicsRequest | DeleteRecordsRequest


class Answering(West):
    """Leaders are known; a change is answered as a subclass says. `nodes`: who was asked for it."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[int | None] = []

    async def ask(
        self,
        request: Request,
        expect: type[R],
        *,
        node: int | None = None,
        deadline_s: float | None = None,
        accept: Callable[[R], None] | None = None,
    ) -> R:
        del accept
        if isinstance(request, MetadataRequest):
            return await super().ask(request, expect, node=node, deadline_s=deadline_s)
        self.nodes.append(node)
        return cast("R", self.answer(request, deadline_s or 0.0))

    def answer(self, request: Request, deadline_s: float) -> Entity:
        raise NotImplementedError


class Slow(Answering):
    """Of a change it notes what time the broker is given, and refuses it."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[tuple[float, float]] = []

    def answer(self, request: Request, deadline_s: float) -> Entity:
        assert isinstance(request, Timed)
        self.times.append((count_ms(request.timeout) / 1000, deadline_s))
        raise RefusedError("not today", hint="")


CHANGES: dict[str, Callable[[Cluster], Awaitable[object]]] = {
    "create": lambda c: create_topics(c, [NewTopic(name="orders")], deadline_s=16.0),
    "defaults": lambda c: default_configs(c, "orders", deadline_s=16.0),
    "grow": lambda c: create_partitions(c, {"orders": 9}, deadline_s=16.0),
    "delete": lambda c: delete_topics(c, ["orders"], deadline_s=16.0),
    "records": lambda c: delete_records(c, {AT: 7}, deadline_s=16.0),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_broker_that_waits_for_others_says_so_before_we_call_it_silent(
    change: str,
) -> None:
    west = Slow()

    with pytest.raises(RefusedError, match="not today"):
        await CHANGES[change](west)

    ((broker_s, ours_s),) = west.times
    assert 0 < broker_s <= ours_s - 1.5


class Frozen(Answering):
    """Broker 1 is the controller and says nothing, as long as nobody looks who is it now."""

    def __init__(self) -> None:
        super().__init__()
        self._brokers = {n: Broker(n, f"broker-{n}", 9092, None) for n in (1, 2)}
        self._controller = 1
        self.given: list[float] = []

    async def metadata(
        self, topics: Sequence[str] | None, *, deadline_s: float | None = None
    ) -> Metadata:
        assert topics == ()
        self._controller = 2
        return Metadata(ClusterId("west-id"), 2, self._brokers, {})

    def answer(self, request: Request, deadline_s: float) -> Entity:
        del request
        self.given.append(deadline_s)
        if self.nodes[-1] == 1:
            raise DeadlineError("no answer.")
        raise RefusedError("not today", hint="")


async def test_a_controller_that_is_frozen_has_half_of_the_time_and_then_another_is_asked() -> None:
    west = Frozen()

    with pytest.raises(RefusedError, match="not today"):
        await create_topics(west, [NewTopic(name="orders")], deadline_s=30.0)

    assert west.nodes == [1, 2]
    assert 14 < west.given[0] <= 15


async def test_what_a_topic_would_get_is_asked_of_the_controller() -> None:
    west = Frozen()

    with pytest.raises(RefusedError, match="not today"):
        await default_configs(west, "orders", deadline_s=30.0)

    assert west.nodes == [1, 2]


async def test_records_are_not_waited_for_on_every_replica_for_long() -> None:
    west = Slow()

    with pytest.raises(RefusedError):
        await delete_records(west, {AT: 7}, deadline_s=60.0)

    assert west.times[0][0] <= 5.0


class Zoo(Answering):
    """It takes the filter, and says of the ACL that it found that it was not written."""

    def __init__(self, code: Code) -> None:
        super().__init__()
        found = DeleteAclsMatchingAcl(
            error_code=code,
            error_message="the path is busy",
            resource_type=i8(ACL.resource),
            resource_name=ACL.name,
            pattern_type=i8(ACL.pattern),
            principal=ACL.principal,
            host=ACL.host,
            operation=i8(ACL.operation),
            permission_type=i8(ACL.permission),
        )
        self._result = DeleteAclsFilterResult(
            error_code=Code.none, error_message=None, matching_acls=(found,)
        )

    def answer(self, request: Request, deadline_s: float) -> Entity:
        del request, deadline_s
        return DeleteAclsResponse(throttle_time=milliseconds(0), filter_results=(self._result,))


async def test_an_acl_that_was_found_and_not_deleted_is_not_called_deleted() -> None:
    told = (await delete_acls(Zoo(Code.security_disabled), [ACL]))[ACL]

    assert told is not None
    assert told.code is ErrorCode.SECURITY_DISABLED
    assert "the path is busy" in str(told)


async def test_an_acl_that_was_found_and_deleted_is_done() -> None:
    assert await delete_acls(Zoo(Code.none), [ACL]) == {ACL: None}
