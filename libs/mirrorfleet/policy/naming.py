"""What a topic is called on the target, and what a name says about where a topic came from.

Prefix naming is MM2's DefaultReplicationPolicy (`<source alias>.<topic>`), identity naming its
IdentityReplicationPolicy: Java clients with RemoteClusterUtils read the names without us. Source:
ReplicationPolicy of connect-mirror-client.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from mirrorfleet.core.names import CONTROL_PREFIX

SEPARATOR: Final = "."
HEARTBEATS: Final = "heartbeats"
_CHECKPOINTS_SUFFIX: Final = ".checkpoints.internal"

MAX_NAME: Final = 249
"""Kafka's longest topic name (org.apache.kafka.common.internals.Topic): it names a directory."""
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


class Naming(StrEnum):
    """How target topics are named."""

    PREFIX = "prefix"
    IDENTITY = "identity"


def remote_name(naming: Naming, source_alias: str, topic: str) -> str:
    """The name on the target of the source's `topic`.

    Heartbeats are prefixed under identity naming, too: hops are counted by their names.
    """
    if naming is Naming.IDENTITY and not is_heartbeats_topic(topic):
        return topic
    return f"{source_alias}{SEPARATOR}{topic}"


def topic_source(topic: str) -> str | None:
    """The alias in front of a remote topic's name; None when the name has no separator.

    As Java's split, which forgets empty parts at the end: "a." has no source, ".b" has "".
    """
    parts = topic.rstrip(SEPARATOR).split(SEPARATOR)
    return parts[0] if len(parts) >= 2 else None


def upstream_topic(topic: str) -> str | None:
    """The name one hop back; None when the name has no separator."""
    source = topic_source(topic)
    return None if source is None else topic[len(source) + len(SEPARATOR) :]


def original_topic(topic: str) -> str:
    """The name at the first cluster of the chain."""
    upstream = upstream_topic(topic)
    while upstream is not None and upstream != topic:
        topic, upstream = upstream, upstream_topic(upstream)
    return topic


def is_heartbeats_topic(topic: str) -> bool:
    """`heartbeats` after any number of hops."""
    return original_topic(topic) == HEARTBEATS


def is_checkpoints_topic(topic: str) -> bool:
    """`<alias>.checkpoints.internal`."""
    return topic.endswith(_CHECKPOINTS_SUFFIX)


def is_internal_topic(topic: str) -> bool:
    """What no mirror copies, whatever its patterns say: Kafka's own, MM2's and ours.

    The rule of Kafka 4.x (KIP-1074): a user's `x.internal` is an ordinary topic.
    """
    return (
        topic.startswith(("__", "."))
        or (topic.startswith("mm2") and topic.endswith(f"{SEPARATOR}internal"))
        or is_checkpoints_topic(topic)
    )


def is_own_topic(topic: str) -> bool:
    """A control topic of any fleet."""
    return topic.startswith(CONTROL_PREFIX)


def why_illegal(topic: str) -> str | None:
    """Why Kafka would refuse the name; None when it would not."""
    if len(topic.encode()) > MAX_NAME:
        return f"{len(topic.encode())} bytes are more than the {MAX_NAME} that Kafka takes"
    if topic in {"", ".", ".."}:
        return f"{topic!r} is not a topic name"
    if _LEGAL.fullmatch(topic) is None:
        return "only letters, digits, '.', '_' and '-' may be in a topic name"
    return None
