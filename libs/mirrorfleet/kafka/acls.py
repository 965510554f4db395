"""ACLs: listed, created, deleted. The protocol's numbers as enums; unknown ones stay UNKNOWN."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar

from kio.schema.create_acls.v2.request import AclCreation, CreateAclsRequest
from kio.schema.create_acls.v2.response import CreateAclsResponse
from kio.schema.delete_acls.v2.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.delete_acls.v2.response import DeleteAclsResponse
from kio.schema.describe_acls.v2.request import DescribeAclsRequest
from kio.schema.describe_acls.v2.response import DescribeAclsResponse
from kio.static.primitive import i8

from mirrorfleet.core.errors import BrokerError
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.codec import code_of
from mirrorfleet.kafka.each import each_until_deadline, verdict

E = TypeVar("E", bound=IntEnum)


class AclResource(IntEnum):
    """What an ACL protects."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPattern(IntEnum):
    """How an ACL's resource name is meant."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What an ACL is about."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    """What an ACL says."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """One ACL."""

    resource: AclResource
    name: str
    pattern: AclPattern
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission


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

    async def attempt(
        left: list[AclBinding], left_s: float
    ) -> dict[AclBinding, BrokerError | None]:
        request = CreateAclsRequest(creations=tuple(_creation(binding) for binding in left))
        answer = await cluster.ask(request, CreateAclsResponse, deadline_s=left_s)
        return {
            binding: verdict(code_of(r.error_code), f"create {show(binding)}", r.error_message)
            for binding, r in zip(left, answer.results, strict=True)
        }

    return await each_until_deadline(cluster, "CreateAcls", bindings, attempt, deadline_s)


async def delete_acls(
    cluster: Cluster, bindings: Sequence[AclBinding], *, deadline_s: float | None = None
) -> dict[AclBinding, BrokerError | None]:
    """Delete exactly these ACLs; one that is not there is a success."""

    async def attempt(
        left: list[AclBinding], left_s: float
    ) -> dict[AclBinding, BrokerError | None]:
        request = DeleteAclsRequest(filters=tuple(_filter(binding) for binding in left))
        answer = await cluster.ask(request, DeleteAclsResponse, deadline_s=left_s)
        return {
            binding: verdict(code_of(r.error_code), f"delete {show(binding)}", r.error_message)
            for binding, r in zip(left, answer.filter_results, strict=True)
        }

    return await each_until_deadline(cluster, "DeleteAcls", bindings, attempt, deadline_s)


def show(binding: AclBinding) -> str:
    """An ACL in words: "ALLOW User:x READ on TOPIC LITERAL orders from *"."""
    return (
        f"{binding.permission.name} {binding.principal} {binding.operation.name} on"
        f" {binding.resource.name} {binding.pattern.name} {binding.name} from {binding.host}"
    )


def _creation(binding: AclBinding) -> AclCreation:
    return AclCreation(
        resource_type=i8(binding.resource),
        resource_name=binding.name,
        resource_pattern_type=i8(binding.pattern),
        principal=binding.principal,
        host=binding.host,
        operation=i8(binding.operation),
        permission_type=i8(binding.permission),
    )


def _filter(binding: AclBinding) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=i8(binding.resource),
        resource_name_filter=binding.name,
        pattern_type_filter=i8(binding.pattern),
        principal_filter=binding.principal,
        host_filter=binding.host,
        operation=i8(binding.operation),
        permission_type=i8(binding.permission),
    )


def _member(enum: type[E], number: int) -> E:
    try:
        return enum(int(number))
    except ValueError:
        return enum(0)
