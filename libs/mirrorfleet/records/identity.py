"""How a `PartitionIdentity` is written: as bytes in binary topics, as a list in JSON topics.

A cluster.id is nearly always a UUID in 22 characters of URL-safe base64 (Kafka's form); it then
takes 17 bytes: length 0 and the 16 bytes. Any other text is kept as text.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from functools import lru_cache
from sys import intern

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import ClusterId, PartitionIdentity, TopicId
from mirrorfleet.records.packing import Reader, Writer, shared_uuid

_KAFKA_UUID_LENGTH = 22
_ID_SIZE = 16


def topic_id_text(topic_id: TopicId) -> str:
    """Kafka's form of a topic id: base64, URL-safe, without padding (Uuid.toString)."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def parse_topic_id(text: str) -> TopicId:
    """The topic id for Kafka's form of it.

    Raises: CorruptBatchError when it is not one.
    """
    raw = _uuid_bytes(text)
    if raw is None:
        raise CorruptBatchError(f"{text!r} is not a topic id")
    return shared_uuid(raw)


def ids_text(ids: Iterable[TopicId]) -> str:
    """Many topic ids in one text: base64 of their bytes in a row, sorted."""
    return base64.urlsafe_b64encode(b"".join(sorted(each.bytes for each in ids))).decode()


def parse_ids(text: str) -> frozenset[TopicId]:
    """The ids that `ids_text` wrote.

    Raises: CorruptBatchError when it is no such text.
    """
    try:
        raw = base64.b64decode(text, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raw = b"?"
    if len(raw) % _ID_SIZE:
        raise CorruptBatchError(f"{text[:40]!r} is not topic ids in a row")
    return frozenset(
        shared_uuid(raw[start : start + _ID_SIZE]) for start in range(0, len(raw), _ID_SIZE)
    )


def write_cluster_id(out: Writer, cluster: ClusterId) -> None:
    """See the module's head.

    Raises: ValueError when empty (length 0 means a UUID).
    """
    if not cluster:
        raise ValueError("a cluster.id is never empty")
    raw = _uuid_bytes(cluster)
    if raw is None:
        out.text(cluster)
    else:
        out.unsigned(0)
        out.out += raw


def read_cluster_id(data: Reader) -> ClusterId:
    """The cluster.id that `write_cluster_id` wrote."""
    size = data.length()
    if size == 0:
        return _cluster_id(data.take(16))
    try:
        return ClusterId(data.take(size).decode())
    except UnicodeDecodeError:
        raise CorruptBatchError(f"{data.what}: a cluster.id that is not UTF-8") from None


def write_identity(out: Writer, identity: PartitionIdentity) -> None:
    """Cluster, source topic id, target topic id, partition, incarnation."""
    write_cluster_id(out, identity.source_cluster)
    out.uuid(identity.source_topic_id)
    out.uuid(identity.target_topic_id)
    out.unsigned(identity.partition)
    out.unsigned(identity.incarnation)


def read_identity(data: Reader) -> PartitionIdentity:
    """What `write_identity` wrote."""
    source_cluster = read_cluster_id(data)
    source_topic_id = data.uuid()
    target_topic_id = data.uuid()
    return PartitionIdentity(
        source_cluster=source_cluster,
        source_topic_id=source_topic_id,
        target_topic_id=target_topic_id,
        partition=data.unsigned(),
        incarnation=data.unsigned(),
    )


def identity_list(identity: PartitionIdentity) -> list[str | int]:
    """For JSON: [source cluster.id, source topic id, partition, target topic id, incarnation]."""
    return [
        identity.source_cluster,
        topic_id_text(identity.source_topic_id),
        identity.partition,
        topic_id_text(identity.target_topic_id),
        identity.incarnation,
    ]


def parse_identity_list(values: list[object]) -> PartitionIdentity:
    """The identity for its JSON list.

    Raises: CorruptBatchError when the list has another shape.
    """
    match values:
        case [str(cluster), str(source), int(partition), str(target), int(incarnation)]:
            return PartitionIdentity(
                source_cluster=ClusterId(intern(cluster)),
                source_topic_id=parse_topic_id(source),
                partition=partition,
                target_topic_id=parse_topic_id(target),
                incarnation=incarnation,
            )
    raise CorruptBatchError(f"{values!r} is not a partition identity")


@lru_cache(maxsize=64)
def _cluster_id(raw: bytes) -> ClusterId:
    return ClusterId(topic_id_text(shared_uuid(raw)))


@lru_cache(maxsize=1024)
def _uuid_bytes(text: str) -> bytes | None:
    """The 16 bytes, only when the text is exactly what they would be printed as."""
    if len(text) != _KAFKA_UUID_LENGTH:
        return None
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.urlsafe_b64encode(raw).decode().rstrip("=") == text else None
