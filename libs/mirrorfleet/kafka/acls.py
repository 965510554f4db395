"""ACLs on a cluster: listed, created, deleted. What an ACL is: `core.access`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from typing import Protocol, TypeVar

from kio.schema.create_acls.v2.request import AclCreation, CreateAclsRequest
from kio.schema.create_acls.v2.response import CreateAclsResponse
from kio.schema.delete_acls.v2.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.delete_acls.v2.response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from kio.schema.describe_acls.v2.request import DescribeAclsRequest
from kio.schema.describe_acls.v2.response import DescribeAclsResponse
from kio.schema.errors import ErrorCode as SchemaErrorCode
from kio.static.primitive import i8

from mirrorfleet.core.access import (
    AclBinding,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    show,
)
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.codec import code_of
from mirrorfleet.kafka.each import each_until_deadline, verdict

__all__ = [
    "AclBinding",
    "AclOperation",
    "AclPattern",
    "AclPermission",
    "AclResource",
    "create_acls",
    "delete_acls",
    "describe_acls",
    "show",
]

E = TypeVar("E", bound=IntEnum)


async def describe_acls(
    cluster: Cluster,
    *,
    resource: AclResource = AclResource.ANY,
    deadline_s: float | None = None,
) -> list[AclBinding]:
    """All ACLs (of one kind of resource).

    Raises: BrokerError: SECURITY_DISABLED without an authorizer, CLUSTER_AUTHORIZATION_FAILED
    without DESCRIBE on the cluster; and as `Cluster.ask`.
    """
    request = DescribeAclsRequest(
        resource_type_filter=i8(resource),
        resource_name_filter=None,
        pattern_type_filter=i8(AclPattern.ANY),
        principal_filter=None,
        host_filter=None,
        operation=i8(AclOperation.ANY),
        permission_type=i8(AclPermission.ANY),
    )
    answer = await cluster.ask(request, DescribeAclsResponse, deadline_s=deadline_s)
    error = verdict(code_of(answer.error_code), f"{cluster.name}: ACLs", answer.error_message)
    if error is not None:
        raise error
    return [
        AclBinding(
            _member(AclResource, found.resource_type),
            found.resource_name,
            _member(AclPattern, found.pattern_type),
            acl.principal,
            acl.host,
            _member(AclOperation, acl.operation),
            _member(AclPermission, acl.permission_type),
        )
        for found in answer.resources
        for acl in found.acls
    ]


async def create_acls(
    cluster: Cluster, bindings: Sequence[AclBinding], *, deadline_s: float | None = None
) -> dict[AclBinding, BrokerError | None]:
    """Create ACLs; one that is there already is a success. Raises: as `each_until_deadline`."""

    async def ask(left: list[AclBinding], left_s: float) -> Sequence[_Answer]:
        request = CreateAclsRequest(
            creations=tuple(
                AclCreation(
                    resource_type=i8(binding.resource),
                    resource_name=binding.name,
                    resource_pattern_type=i8(binding.pattern),
                    principal=binding.principal,
                    host=binding.host,
                    operation=i8(binding.operation),
                    permission_type=i8(binding.permission),
                )
                for binding in left
            )
        )
        return (await cluster.ask(request, CreateAclsResponse, deadline_s=left_s)).results

    return await _change(cluster, "CreateAcls", bindings, ask, deadline_s)


async def delete_acls(
    cluster: Cluster, bindings: Sequence[AclBinding], *, deadline_s: float | None = None
) -> dict[AclBinding, BrokerError | None]:
    """Delete exactly these ACLs; one that is not there is a success."""

    async def ask(left: list[AclBinding], left_s: float) -> Sequence[_Answer]:
        filters = tuple(_filter(*binding) for binding in left)
        request = DeleteAclsRequest(filters=filters)
        answer = await cluster.ask(request, DeleteAclsResponse, deadline_s=left_s)
        return [_worst(result) for result in answer.filter_results]

    return await _change(cluster, "DeleteAcls", bindings, ask, deadline_s)


class _Answer(Protocol):
    """What the broker says of one ACL."""

    @property
    def error_code(self) -> SchemaErrorCode: ...
    @property
    def error_message(self) -> str | None: ...


async def _change(
    cluster: Cluster,
    what: str,
    bindings: Sequence[AclBinding],
    ask: Callable[[list[AclBinding], float], Awaitable[Sequence[_Answer]]],
    deadline_s: float | None,
) -> dict[AclBinding, BrokerError | None]:
    """Answers come in the order of what was asked."""

    async def attempt(
        left: list[AclBinding], left_s: float
    ) -> dict[AclBinding, BrokerError | None]:
        return {
            binding: verdict(code_of(r.error_code), f"{what} {show(binding)}", r.error_message)
            for binding, r in zip(left, await ask(left, left_s), strict=True)
        }

    return await each_until_deadline(cluster, what, bindings, attempt, deadline_s)


def _worst(result: DeleteAclsFilterResult) -> DeleteAclsFilterResult | DeleteAclsMatchingAcl:
    """What went wrong with a filter, or with an ACL that it found.

    An authorizer in ZooKeeper takes the filter and says per ACL that it was not written
    (AclAuthorizer.deleteAcls).
    """
    told: tuple[DeleteAclsFilterResult | DeleteAclsMatchingAcl, ...]
    told = (result, *result.matching_acls)
    return next((each for each in told if code_of(each.error_code) is not ErrorCode.NONE), result)


def _filter(
    resource: AclResource,
    name: str,
    pattern: AclPattern,
    principal: str,
    host: str,
    operation: AclOperation,
    permission: AclPermission,
) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=i8(resource),
        resource_name_filter=name,
        pattern_type_filter=i8(pattern),
        principal_filter=principal,
        host_filter=host,
        operation=i8(operation),
        permission_type=i8(permission),
    )


def _member(enum: type[E], number: int) -> E:
    try:
        return enum(int(number))
    except ValueError:
        return enum(0)
