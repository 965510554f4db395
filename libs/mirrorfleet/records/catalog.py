"""`__mirrorfleet.F.catalog`: what is copied, by which slot, under which terms. Written by `sync`.

    key                                                              value
    ["partition", cluster.id, topic id, partition, topic id, inc.]   CatalogPartition
    ["link", source cluster.id]                                      CatalogLink
    ["acl", source cluster.id, what an ACL is, in seven parts]       CatalogAcl
    ["config"]                                                       CatalogConfig

JSON with "v". An unknown version, kind of key or word raises UnknownVersionError: a mirror that
skipped such an entry would copy under terms that nobody set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from sys import intern
from typing import Final

from mirrorfleet.core.access import (
    AclBinding,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
)
from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import (
    ClusterAlias,
    ClusterId,
    Link,
    PartitionIdentity,
    SlotNumber,
    TopicId,
    TopicPartition,
)
from mirrorfleet.records.formats import FIRST_LEVEL, formats_at
from mirrorfleet.records.identity import (
    identity_list,
    ids_text,
    parse_identity_list,
    parse_ids,
)
from mirrorfleet.records.incarnations import FROM_THE_START
from mirrorfleet.records.jsonvalue import Fields, parse_json, to_json
from mirrorfleet.records.packing import unknown_version

VERSION: Final = 1


class CatalogState(StrEnum):
    """What a mirror should do with a partition."""

    ACTIVE = "active"
    PAUSED = "paused"
    REMOVED = "removed"


class Priority(StrEnum):
    """Who goes first on start, take-over and catch-up."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogLoss:
    """Why a partition has an incarnation after its first: what the ledger is told with its start.

    Source offsets [first, end) of the incarnation before are what was lost; None where only the
    worker can know. `request` is the id of the command that asked for it, empty for a rule's.
    """

    cause: str
    """A `LossCause`, or a word of a later build."""
    first: int | None = None
    end: int | None = None
    records: int | None = None
    request: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogPartition:
    """One copied partition.

    `start` is "earliest", "latest", "timestamp:<ms>" or "offset:<n>". `on_source_loss`, `null_keys`
    are the rule's words. `throttle` is bytes a second, the rule's unless somebody has asked for it.
    `origins` are cluster ids: the link's source first, then where the source topic came from.
    `source_retention_ms` is -1 for unlimited, None when unknown; `source_compacted` is for audits.
    """

    identity: PartitionIdentity
    link: Link
    source_topic: str
    target_topic: str
    slot: SlotNumber
    state: CatalogState = CatalogState.ACTIVE
    priority: Priority = Priority.NORMAL
    rule: str = ""
    start: str = FROM_THE_START
    on_source_loss: str = "fail"
    null_keys: str = "allow"
    throttle: int | None = None
    throttle_asked: bool = False
    origins: tuple[ClusterId, ...] = ()
    target_max_batch_bytes: int = 1_048_588
    target_append_time: bool = False
    target_compacted: bool = False
    source_compacted: bool = False  # older builds say so
    source_retention_ms: int | None = None
    loss: CatalogLoss | None = None

    @property
    def is_active(self) -> bool:
        """Whether it is to be copied: not paused, and not removed."""
        return self.state is CatalogState.ACTIVE

    @property
    def source(self) -> TopicPartition:
        """The source partition by name."""
        return TopicPartition(self.source_topic, self.identity.partition)

    @property
    def target(self) -> TopicPartition:
        """The target partition by name; no incarnation changes it."""
        return TopicPartition(self.target_topic, self.identity.partition)


@dataclass(frozen=True, slots=True)
class RuleBeginning:
    """The topics that were there at the first look of a rule, under whatever name."""

    rule: str
    topics: frozenset[TopicId]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogLink:
    """One source of the fleet: what its alias means, and which slots are its own.

    `begun` is about rules that start elsewhere than at the begin; None: its writer did not say.
    """

    link: Link
    source_cluster: ClusterId
    target_cluster: ClusterId
    slots: tuple[SlotNumber, ...]
    begun: tuple[RuleBeginning, ...] | None = None


@dataclass(frozen=True, slots=True)
class CatalogAcl:
    """An ACL that `sync` added on the target because a source has it, so that it may remove it.

    A record a source that has it. `origins` are the clusters that it passed before, nearest first:
    empty when nobody's fleet put it there.
    """

    source_cluster: ClusterId
    binding: AclBinding
    origins: tuple[ClusterId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogConfig:
    """`generation` grows with each change that `sync` publishes.

    `format_level` is raised by command after a rolling upgrade (`records.formats`); one that this
    build does not know is an UnknownVersionError, so that it refuses the whole catalog.
    """

    generation: int
    format_level: int = FIRST_LEVEL


@dataclass(frozen=True, slots=True)
class Removed:
    """A tombstone. `identity` is set when the key is a partition's, `acl` when it is an ACL's."""

    key: bytes
    identity: PartitionIdentity | None
    acl: CatalogAcl | None = None


CatalogEntry = CatalogPartition | CatalogLink | CatalogConfig | CatalogAcl


def encode(entry: CatalogEntry) -> tuple[bytes, bytes]:
    """Key and value."""
    match entry:
        case CatalogPartition():
            return partition_key(entry.identity), to_json(_partition_value(entry))
        case CatalogLink():
            return link_key(entry.source_cluster), to_json(_link_value(entry))
        case CatalogAcl():
            passed = {"origins": entry.origins} if entry.origins else {}
            return acl_key(entry), to_json({"v": VERSION, **passed})
        case CatalogConfig():
            told = {"generation": entry.generation, "format_level": entry.format_level}
            return to_json(["config"]), to_json({"v": VERSION, **told})


def decode(key: bytes | None, value: bytes | None) -> CatalogEntry | Removed:
    """The entry, or what was removed.

    Raises: UnknownVersionError, CorruptBatchError.
    """
    if key is None:
        raise CorruptBatchError("catalog: a record without key")
    parts = parse_json(key, "catalog key")
    match parts:
        case ["partition", *rest]:
            identity = parse_identity_list(rest)
            return Removed(key, identity) if value is None else _partition(identity, value)
        case ["link", str(cluster)]:
            return Removed(key, None) if value is None else _link(ClusterId(cluster), value)
        case ["acl", str(cluster), *rest]:
            return _acl(key, CatalogAcl(ClusterId(cluster), _binding(rest)), value)
        case ["config"]:
            return Removed(key, None) if value is None else _config(value)
    raise unknown_version("catalog key", parts, VERSION)


def partition_key(identity: PartitionIdentity) -> bytes:
    """The key of a partition's entry; with a null value it removes the entry."""
    return to_json(["partition", *identity_list(identity)])


def link_key(source_cluster: ClusterId) -> bytes:
    """The key of a link's entry."""
    return to_json(["link", source_cluster])


def acl_key(entry: CatalogAcl) -> bytes:
    """The key of an ACL's entry; with a null value it is forgotten."""
    resource, name, pattern, principal, host, operation, permission = entry.binding
    words = (resource.name, name, pattern.name, principal, host, operation.name, permission.name)
    return to_json(["acl", entry.source_cluster, *words])


def _partition_value(entry: CatalogPartition) -> dict[str, object]:
    return {
        "v": VERSION,
        "source": entry.link.source,
        "target": entry.link.target,
        "source_topic": entry.source_topic,
        "target_topic": entry.target_topic,
        "slot": entry.slot,
        "state": entry.state,
        "priority": entry.priority,
        "rule": entry.rule,
        "start": entry.start,
        "on_source_loss": entry.on_source_loss,
        "null_keys": entry.null_keys,
        "throttle": entry.throttle,
        "origins": entry.origins,
        "target_max_batch_bytes": entry.target_max_batch_bytes,
        "target_append_time": entry.target_append_time,
        "target_compacted": entry.target_compacted,
        "source_retention_ms": entry.source_retention_ms,
        **({"source_compacted": True} if entry.source_compacted else {}),
        **({"throttle_asked": True} if entry.throttle_asked else {}),
        **({} if entry.loss is None else {"loss": _loss_value(entry.loss)}),
    }


def _loss_value(loss: CatalogLoss) -> dict[str, object]:
    return {
        "cause": loss.cause,
        "first": loss.first,
        "end": loss.end,
        "records": loss.records,
        "request": loss.request,
        "detail": loss.detail,
    }


def _loss(values: object) -> CatalogLoss | None:
    if not isinstance(values, dict):
        return None
    fields = Fields(values, "catalog loss")
    return CatalogLoss(
        cause=fields.text("cause"),
        first=fields.maybe_integer("first"),
        end=fields.maybe_integer("end"),
        records=fields.maybe_integer("records"),
        request=fields.text("request"),
        detail=fields.text("detail"),
    )


def _partition(identity: PartitionIdentity, value: bytes) -> CatalogPartition:
    fields = Fields.parse(value, "catalog partition")
    fields.check_version(VERSION)
    return CatalogPartition(
        identity=identity,
        link=_link_of(fields),
        source_topic=fields.word("source_topic"),
        target_topic=fields.word("target_topic"),
        slot=SlotNumber(fields.integer("slot")),
        state=fields.choice("state", CatalogState),
        priority=fields.choice("priority", Priority),
        rule=fields.word("rule"),
        start=fields.word("start"),
        on_source_loss=fields.word("on_source_loss"),
        null_keys=fields.word("null_keys"),
        throttle=fields.maybe_integer("throttle"),
        throttle_asked="throttle_asked" in fields.values and fields.flag("throttle_asked"),
        origins=tuple(ClusterId(intern(origin)) for origin in fields.texts("origins")),
        target_max_batch_bytes=fields.integer("target_max_batch_bytes"),
        target_append_time=fields.flag("target_append_time"),
        target_compacted=fields.flag("target_compacted"),
        source_compacted="source_compacted" in fields.values and fields.flag("source_compacted"),
        source_retention_ms=fields.maybe_integer("source_retention_ms"),
        loss=_loss(fields.values.get("loss")),
    )


def _link_value(entry: CatalogLink) -> dict[str, object]:
    return {
        "v": VERSION,
        "source": entry.link.source,
        "target": entry.link.target,
        "target_cluster": entry.target_cluster,
        "slots": entry.slots,
        **({} if entry.begun is None else {"begun": _begun_value(entry.begun)}),
    }


def _begun_value(begun: tuple[RuleBeginning, ...]) -> dict[str, str]:
    """By rule its topic ids, as bytes in a row: of many thousands a list would be too long."""
    return {each.rule: ids_text(each.topics) for each in begun}


def _begun(values: object) -> tuple[RuleBeginning, ...] | None:
    if not isinstance(values, dict):
        return None
    fields = Fields(values, "catalog link")
    return tuple(RuleBeginning(str(rule), parse_ids(fields.text(rule))) for rule in values)


def _link(source_cluster: ClusterId, value: bytes) -> CatalogLink:
    fields = Fields.parse(value, "catalog link")
    fields.check_version(VERSION)
    return CatalogLink(
        link=_link_of(fields),
        source_cluster=source_cluster,
        target_cluster=ClusterId(fields.text("target_cluster")),
        slots=tuple(SlotNumber(slot) for slot in fields.integers("slots")),
        begun=_begun(fields.values.get("begun")),
    )


def _acl(key: bytes, entry: CatalogAcl, value: bytes | None) -> CatalogAcl | Removed:
    if value is None:
        return Removed(key, None, entry)
    fields = Fields.parse(value, "catalog acl")
    fields.check_version(VERSION)
    if "origins" not in fields.values:
        return entry
    origins = tuple(ClusterId(intern(origin)) for origin in fields.texts("origins"))
    return replace(entry, origins=origins)


def _binding(parts: list[object]) -> AclBinding:
    match parts:
        case [str(resource), str(name), str(pattern), str(who), str(host), str(what), str(how)]:
            try:
                return AclBinding(
                    AclResource[resource],
                    name,
                    AclPattern[pattern],
                    who,
                    host,
                    AclOperation[what],
                    AclPermission[how],
                )
            except KeyError as error:
                raise unknown_version("catalog acl", str(error), VERSION) from error
    raise CorruptBatchError("catalog: an ACL's key without its seven parts")


def _config(value: bytes) -> CatalogConfig:
    fields = Fields.parse(value, "catalog config")
    fields.check_version(VERSION)
    level = fields.integer("format_level")
    formats_at(level)
    return CatalogConfig(generation=fields.integer("generation"), format_level=level)


def _link_of(fields: Fields) -> Link:
    return _link_between(fields.text("source"), fields.text("target"))


@lru_cache(maxsize=256)
def _link_between(source: str, target: str) -> Link:
    return Link(ClusterAlias(source), ClusterAlias(target))
