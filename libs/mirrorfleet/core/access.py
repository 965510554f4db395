"""What an ACL is: Kafka's access control entries as values. No I/O, no decision.

The numbers are the protocol's (org.apache.kafka.common.acl, .resource); unknown ones stay UNKNOWN.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


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


def show(binding: AclBinding) -> str:
    """An ACL in words: "ALLOW User:x READ on TOPIC LITERAL orders from *"."""
    return (
        f"{binding.permission.name} {binding.principal} {binding.operation.name} on"
        f" {binding.resource.name} {binding.pattern.name} {binding.name} from {binding.host}"
    )
