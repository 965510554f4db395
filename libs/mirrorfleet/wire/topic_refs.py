"""How Fetch and Produce name a topic: by name below version 13, by id from there on (KIP-516)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from mirrorfleet.core.ids import NO_TOPIC_ID, TopicId
from mirrorfleet.core.primitives import compact_string, read_uvarint

FIRST_WITH_TOPIC_IDS: Final = 13
"""The version of both Fetch and Produce that names topics by id."""


class TopicRef(NamedTuple):
    """A topic by name and by id."""

    topic: str
    topic_id: TopicId


class Leader(NamedTuple):
    """Where a partition is led now, as a broker that does not lead it says (KIP-951)."""

    node_id: int
    epoch: int


def topic_key(version: int, ref: TopicRef) -> bytes:
    """The bytes that stand for a topic in an answer of version `version`."""
    return ref.topic_id.bytes if version >= FIRST_WITH_TOPIC_IDS else ref.topic.encode()


def encode_topic(version: int, ref: TopicRef) -> bytes:
    """How a request names a topic. Raises: ValueError when an id is needed and there is none."""
    if version < FIRST_WITH_TOPIC_IDS:
        return compact_string(ref.topic)
    if not ref.topic_id.int:
        raise ValueError(f"version {version} needs the topic id of {ref.topic}")
    return ref.topic_id.bytes


def read_topic(
    version: int, buffer: bytes | bytearray, position: int, names: Mapping[bytes, TopicRef]
) -> tuple[TopicRef, int]:
    """The topic at `position` of an answer; one that is not in `names` has only what was sent."""
    if version >= FIRST_WITH_TOPIC_IDS:
        end = position + 16
        key = bytes(buffer[position:end])
        return names.get(key) or TopicRef("", UUID(bytes=key)), end
    size, position = read_uvarint(buffer, position)
    end = position + size - 1
    key = bytes(buffer[position:end])
    return names.get(key) or TopicRef(key.decode(), NO_TOPIC_ID), end
