"""The access that each service of a fleet needs, and nothing beyond it.

Source side: READ and DESCRIBE only; nothing is written at a source but heartbeats, and those only
where the tuning has them there. Target side: the names that the rules can produce, the fleet's
control topics, and MM2's topics of its links. READ, WRITE and ALTER imply DESCRIBE (AclAuthorizer),
so that is not granted twice. Source: Kafka's table of operations by API (Kafka documentation,
Security).

Kafka knows names and prefixes, rules know patterns: a pattern that is written like a name gives a
literal grant, another one a prefix grant of what all its matches begin with ('*' when nothing).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Final

from mirrorfleet.core.ids import ClusterAlias, FleetName
from mirrorfleet.core.names import ID_PREFIX, control_topic, service_id
from mirrorfleet.policy.cycles import heartbeats_at, is_cycle_by_name
from mirrorfleet.policy.filters import literal_prefix
from mirrorfleet.policy.flows import AclPolicy, Flow
from mirrorfleet.policy.naming import HEARTBEATS, Naming, remote_name


class Resource(StrEnum):
    """Kafka's resource types that we need, as `kafka-acls.sh` spells its options."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"
    CLUSTER = "cluster"
    """Its name is always `CLUSTER_NAME`."""


CLUSTER_NAME: Final = "kafka-cluster"


class Pattern(StrEnum):
    """How the resource's name is meant."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


class Operation(StrEnum):
    """Kafka's operations, as `kafka-acls.sh` spells them."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"


class Service(StrEnum):
    """The services of a fleet, and its Spark jobs as one more."""

    MIRROR = "mirror"
    SYNC = "sync"
    HEARTBEAT = "heartbeat"
    CHECKPOINT = "checkpoint"
    LAG = "lag"
    CONSOLE = "console"
    SPARK = "spark"


PROCESSES: Final = tuple(one for one in Service if one is not Service.SPARK)
"""Those that run all the time, and can be tuned."""


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One thing that one service may do on one cluster."""

    cluster: ClusterAlias
    service: Service
    resource: Resource
    pattern: Pattern
    name: str
    operation: Operation


_R = Operation.READ
_W = Operation.WRITE
_TARGET_OF_SYNC: Final = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.ALTER_CONFIGS,
    Operation.DESCRIBE_CONFIGS,
)

_CONTROL: Final[dict[Service, tuple[tuple[str, tuple[Operation, ...]], ...]]] = {
    Service.MIRROR: (
        ("catalog", (_R,)),
        ("positions", (_R, _W)),
        # read to find what a loss is about: the map, the last numbers of a topic that is gone
        ("segments", (_R, _W)),
        ("archive", (_R,)),
        ("progress", (_R, _W)),
        ("commands", (_R, _W)),
        ("events", (_W,)),
    ),
    Service.SYNC: (("catalog", (_R, _W)), ("commands", (_R,)), ("events", (_W,))),
    Service.HEARTBEAT: (),
    # DeleteRecords frees what is packed
    Service.CHECKPOINT: (
        ("catalog", (_R,)),
        ("segments", (_R, Operation.DELETE)),
        ("archive", (_R, _W)),
    ),
    Service.LAG: (
        ("progress", (_R,)),
        ("catalog", (_R,)),
        ("samples", (_R, _W)),
        ("events", (_W,)),
    ),
    Service.CONSOLE: (),
    # DeleteRecords frees what is packed
    Service.SPARK: (
        ("catalog", (_R,)),
        ("positions", (_R,)),
        ("segments", (_R, Operation.DELETE)),
        ("archive", (_R, _W)),
        ("samples", (_R,)),
        ("events", (_R,)),
        ("reports", (_W,)),
    ),
}
"""Control topics by the last part of their names; `sync` creates all of them."""

_GROUPS_AT_TARGET: Final = {
    Service.CHECKPOINT: Operation.READ,
    Service.CONSOLE: Operation.DESCRIBE,
}
"""What services that look at the groups of others do with them on the target."""

_IN_GROUPS: Final = frozenset({Service.MIRROR, Service.SYNC, Service.HEARTBEAT, Service.CHECKPOINT})
"""Services whose processes find out in a group which of them is active, or has which slots."""


def grants(
    fleet: FleetName,
    flows: Sequence[Flow],
    services: Iterable[Service],
    *,
    other_fleets: Mapping[ClusterAlias, FleetName] | None = None,
    traced: Mapping[ClusterAlias, FleetName] | None = None,
    estate: Sequence[Flow] = (),
    beaten: Collection[ClusterAlias] = (),
) -> list[Grant]:
    """What `services` of the fleet need on the target and on each source; sorted, each once.

    `flows` are those into the fleet's target, at least one. `other_fleets` are the fleets that
    have one of our sources as their target: `sync` reads their catalogs to know copies. `traced`
    are those of them whose traces are joined: `mirror` reads which batches they sampled. `estate`
    is every flow known: heartbeats come over them to our sources. `beaten` are the sources that
    `heartbeat` writes to, instead of the target.
    """
    wanted = set(services)
    found: set[Grant] = set()
    for service in wanted:
        for flow in flows:
            beats = _heartbeats(service, flow, estate or flows)
            found.update(_at_source(service, flow, beats))
            source = flow.link.source
            if service is Service.SYNC and other_fleets and source in other_fleets:
                found.add(
                    _may_read(source, service, control_topic(other_fleets[source], "catalog"))
                )
            if service is Service.MIRROR and traced and source in traced:
                found.add(_may_read(source, service, control_topic(traced[source], "progress")))
            found.update(_at_target(service, flow, beats))
            if service is Service.HEARTBEAT:
                found.update(_to_beat(flow, beaten))
            if service is Service.SYNC and flow.acls is not AclPolicy.IGNORE:
                found.update(_to_follow_acls(flow))
        found.update(_control(service, fleet, flows[0].link.target))
    return sorted(_without_covered(found))


def _may_read(cluster: ClusterAlias, service: Service, topic: str) -> Grant:
    return Grant(cluster, service, Resource.TOPIC, Pattern.LITERAL, topic, _R)


def kafka_acls_lines(
    wanted: Sequence[Grant], *, principal: str, host: str, bootstrap: str
) -> list[str]:
    """`kafka-acls.sh` commands for the grants of one cluster, one a resource, ready to paste."""
    unique = sorted({(g.resource, g.pattern, g.name, g.operation) for g in wanted})
    lines: list[str] = []
    for (resource, pattern, name), group in groupby(unique, key=lambda entry: entry[:3]):
        operations = " ".join(f"--operation {one}" for one in _not_implied(e[3] for e in group))
        lines.append(
            f"kafka-acls.sh --bootstrap-server {bootstrap} --command-config admin.properties"
            f" --add --allow-principal {_quoted(principal)} --allow-host {_quoted(host)}"
            f" {operations} {_resource_option(resource, pattern, name)}"
        )
    return lines


def _resource_option(resource: Resource, pattern: Pattern, name: str) -> str:
    if resource is Resource.CLUSTER:
        return "--cluster"
    return f"--{resource} {_quoted(name)} --resource-pattern-type {pattern}"


def _not_implied(operations: Iterable[Operation]) -> list[Operation]:
    found = list(operations)
    implies = {Operation.READ, Operation.WRITE, Operation.ALTER} & set(found)
    return [one for one in found if one is not Operation.DESCRIBE or not implies]


def _at_source(service: Service, flow: Flow, beats: Sequence[str]) -> Iterator[Grant]:
    operations: dict[Service, tuple[Operation, ...]] = {
        Service.MIRROR: (Operation.READ,),
        Service.SYNC: (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
        Service.CHECKPOINT: (Operation.DESCRIBE,),
        Service.LAG: (Operation.DESCRIBE,),
        Service.CONSOLE: (Operation.DESCRIBE,),
        Service.SPARK: (Operation.READ,),
    }
    cluster = flow.link.source
    patterns = [pattern for rule in flow.rules for pattern in rule.topics.include]
    for pattern, name in map(_resource, [*patterns, *beats]):
        for operation in operations.get(service, ()):
            yield Grant(cluster, service, Resource.TOPIC, pattern, name, operation)
    if service in _GROUPS_AT_TARGET:
        for pattern, name in _groups(flow):
            yield Grant(cluster, service, Resource.GROUP, pattern, name, Operation.DESCRIBE)
    if service is Service.CHECKPOINT:
        # what the fleet of the other way wrote for groups here is not their progress
        echoes = _checkpoints(flow.link.target)
        yield Grant(cluster, service, Resource.TOPIC, Pattern.LITERAL, echoes, Operation.READ)


def _at_target(service: Service, flow: Flow, beats: Sequence[str]) -> Iterator[Grant]:
    operations: dict[Service, tuple[Operation, ...]] = {
        # configs: what a partition that takes nothing asks for (min.insync.replicas)
        Service.MIRROR: (Operation.READ, Operation.WRITE, Operation.DESCRIBE_CONFIGS),
        Service.SYNC: _TARGET_OF_SYNC,
        Service.CHECKPOINT: (Operation.READ,),
        Service.CONSOLE: (Operation.DESCRIBE,),
        Service.SPARK: (Operation.READ,),
    }
    source, target = flow.link
    patterns = [(rule.naming, pattern) for rule in flow.rules for pattern in rule.topics.include]
    patterns += [(Naming.PREFIX, beat) for beat in beats]
    for pattern, name in (_renamed(naming, source, one) for naming, one in patterns):
        for operation in operations.get(service, ()):
            yield Grant(target, service, Resource.TOPIC, pattern, name, operation)
    if service in _GROUPS_AT_TARGET:
        for pattern, name in _groups(flow):
            operation = _GROUPS_AT_TARGET[service]
            yield Grant(target, service, Resource.GROUP, pattern, name, operation)
    for name, operation in _mm2(service, source):
        yield Grant(target, service, Resource.TOPIC, Pattern.LITERAL, name, operation)


def _groups(flow: Flow) -> Iterator[tuple[Pattern, str]]:
    return (_resource(pattern) for rule in flow.rules for pattern in rule.groups.include)


def _heartbeats(service: Service, flow: Flow, estate: Sequence[Flow]) -> Sequence[str]:
    """Heartbeats topics of the source that are copied, which no pattern needs to name."""
    if service in _GROUPS_AT_TARGET:
        return ()
    there = heartbeats_at(estate, flow.link.source)
    return [name for name in there if not is_cycle_by_name(name, flow.link.target)]


def _to_follow_acls(flow: Flow) -> Iterator[Grant]:
    """DescribeAcls, CreateAcls and DeleteAcls; ALTER implies DESCRIBE."""
    needed = (flow.link.source, Operation.DESCRIBE), (flow.link.target, Operation.ALTER)
    for cluster, operation in needed:
        resource, name = Resource.CLUSTER, CLUSTER_NAME
        yield Grant(cluster, Service.SYNC, resource, Pattern.LITERAL, name, operation)


def _to_beat(flow: Flow, beaten: Collection[ClusterAlias]) -> Iterator[Grant]:
    source, target = flow.link
    cluster = source if source in beaten else target
    for operation in (Operation.CREATE, _W):
        resource = Resource.TOPIC
        yield Grant(cluster, Service.HEARTBEAT, resource, Pattern.LITERAL, HEARTBEATS, operation)


def _mm2(service: Service, source: ClusterAlias) -> Iterator[tuple[str, Operation]]:
    syncs = f"mm2-offset-syncs.{source}.internal"
    if service is Service.LAG:
        yield f"{source}.{HEARTBEATS}", _R
    elif service is Service.CHECKPOINT:
        create = Operation.CREATE
        yield from ((_checkpoints(source), operation) for operation in (create, _R, _W))
        yield from ((syncs, operation) for operation in (create, _W))


def _checkpoints(alias: ClusterAlias) -> str:
    return f"{alias}.checkpoints.internal"


def _control(service: Service, fleet: FleetName, target: ClusterAlias) -> Iterator[Grant]:
    for kind, operations in _CONTROL[service]:
        for operation in operations:
            name = control_topic(fleet, kind)
            yield Grant(target, service, Resource.TOPIC, Pattern.LITERAL, name, operation)
    everything = control_topic(fleet, "")
    prefixed: tuple[Operation, ...] = ()
    if service is Service.SYNC:
        prefixed = (Operation.CREATE, Operation.ALTER, Operation.DESCRIBE_CONFIGS)
    elif service is Service.CONSOLE:
        prefixed = (Operation.READ,)
    for operation in prefixed:
        yield Grant(target, service, Resource.TOPIC, Pattern.PREFIXED, everything, operation)
    if service in _IN_GROUPS or service is Service.LAG:
        group = service_id(fleet, service)
        yield Grant(target, service, Resource.GROUP, Pattern.LITERAL, group, Operation.READ)
    if service in _IN_GROUPS:
        slots = control_topic(fleet, "slots")
        describe = Operation.DESCRIBE
        yield Grant(target, service, Resource.TOPIC, Pattern.LITERAL, slots, describe)
    resource = Resource.TRANSACTIONAL_ID
    if service is Service.MIRROR:
        ids = f"{ID_PREFIX}{fleet}."
        yield Grant(target, service, resource, Pattern.PREFIXED, ids, Operation.WRITE)
    elif service is Service.SYNC:
        own = service_id(fleet, service)
        yield Grant(target, service, resource, Pattern.LITERAL, own, Operation.WRITE)


def _resource(pattern: str) -> tuple[Pattern, str]:
    prefix, whole = literal_prefix(pattern)
    if whole:
        return Pattern.LITERAL, prefix
    return (Pattern.PREFIXED, prefix) if prefix else (Pattern.LITERAL, "*")


def _renamed(naming: Naming, source: ClusterAlias, pattern: str) -> tuple[Pattern, str]:
    prefix, whole = literal_prefix(pattern)
    if naming is Naming.IDENTITY:
        return _resource(pattern)
    return (Pattern.LITERAL if whole else Pattern.PREFIXED), remote_name(naming, source, prefix)


def _without_covered(found: set[Grant]) -> Iterator[Grant]:
    """Leaves out what a wider grant to the same service already gives."""
    for grant in found:
        if not any(_covers(other, grant) for other in found):
            yield grant


def _covers(wide: Grant, narrow: Grant) -> bool:
    same = (wide.cluster, wide.service, wide.resource, wide.operation) == (
        narrow.cluster,
        narrow.service,
        narrow.resource,
        narrow.operation,
    )
    if not same or wide == narrow:
        return False
    if (wide.pattern, wide.name) == (Pattern.LITERAL, "*"):
        return True
    return wide.pattern is Pattern.PREFIXED and narrow.name.startswith(wide.name)


def _quoted(text: str) -> str:
    """For a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"
