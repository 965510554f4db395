"""Does a copy go back to where it came from? By name, as MM2, and by cluster.id, which is sure.

By name, for a flow source -> target (vectors of MirrorSourceConnectorTest):
    not copied   target.topic1  target.source.topic1  source.target.topic1  ...
    copied       topic1  source.topic1

Names fail when two people use one alias for two clusters, or one cluster has two aliases; origins
do not: they are the cluster ids that a topic's records passed. Identity naming leaves no trace in
a name, so there the whole estate is walked: a topic that would reach its own cluster again, under
whatever name, is a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mirrorfleet.core.ids import ClusterAlias, ClusterId, Link
from mirrorfleet.policy.flows import Flow, FlowRule
from mirrorfleet.policy.naming import (
    HEARTBEATS,
    Naming,
    is_heartbeats_topic,
    remote_name,
    topic_source,
    upstream_topic,
    why_illegal,
)


@dataclass(frozen=True, slots=True)
class Leg:
    """One hop of a way: a rule of a link."""

    link: Link
    rule: str

    def __str__(self) -> str:
        return f"{self.link} ({self.rule})"


def is_cycle_by_name(topic: str, target_alias: str) -> bool:
    """Whether a hop in the name of the source's `topic` is the target (MM2's isCycle)."""
    while True:
        source = topic_source(topic)
        if source is None:
            return False
        if source == target_alias:
            return True
        upstream = upstream_topic(topic)
        if upstream is None or upstream == topic:
            return False
        topic = upstream


def is_cycle_by_origin(origins: Sequence[ClusterId], target: ClusterId) -> bool:
    """Whether the records already passed the target."""
    return target in origins


def origins_by_name(
    topic: str, source: ClusterId, known: Mapping[ClusterAlias, ClusterId]
) -> tuple[ClusterId, ...]:
    """The clusters that the source's `topic` passed: the source, then each known alias in front.

    The first part of a name that is no known alias ends the chain: users' names have dots, too.
    """
    origins = [source]
    while (alias := topic_source(topic)) is not None and ClusterAlias(alias) in known:
        origins.append(known[ClusterAlias(alias)])
        topic = upstream_topic(topic) or ""
    return tuple(origins)


def passed(flows: Sequence[Flow], topic: str) -> tuple[ClusterAlias, ...]:
    """The aliases in front of the name that a prefix rule of the estate can have put there."""
    found: list[ClusterAlias] = []
    while (alias := topic_source(topic)) is not None:
        upstream = upstream_topic(topic) or ""
        if not any(_prefixes(flow, alias, upstream) for flow in flows):
            break
        found.append(ClusterAlias(alias))
        topic = upstream
    return tuple(found)


def never_of(flows: Sequence[Flow], flow: Flow, topic: str) -> str:
    """The name by which `flow` never copies a topic: its own, or one that it had before a prefix
    was put there; "" when it may. What must not leave a cluster does not as a copy, either.

    Any source in the estate counts as a prefix: held back too much is seen, too little is not.
    """
    sources = {each.link.source for each in flows}
    while not flow.never.matches(topic):
        alias, upstream = topic_source(topic), upstream_topic(topic)
        if alias is None or not upstream or ClusterAlias(alias) not in sources:
            return ""
        topic = upstream
    return topic


def goes_back(flows: Sequence[Flow], rule: FlowRule, topic: str, target: ClusterAlias) -> bool:
    """Whether the name says that `topic` already was on `target`.

    Under identity naming only hops that the estate can have made count, because there a name with
    dots may well be a user's. Heartbeats have every hop in their name under each naming.
    """
    if rule.naming is Naming.PREFIX or is_heartbeats_topic(topic):
        return is_cycle_by_name(topic, target)
    return target in passed(flows, topic)


def loop_of(flows: Sequence[Flow], flow: Flow, rule: FlowRule, topic: str) -> tuple[Leg, ...]:
    """The way home of a topic that `rule` of `flow` would copy; empty when there is none.

    Later hops are any in `flows`. Ends because names only grow, up to Kafka's longest.
    """
    home = flow.link.source
    first = (flow.link.target, remote_name(rule.naming, home, topic))
    ways: list[tuple[ClusterAlias, str, tuple[Leg, ...]]] = [(*first, (Leg(flow.link, rule.name),))]
    seen = {first}
    while ways:
        cluster, name, way = ways.pop()
        if cluster == home:
            return way
        for leg, copied in _copies(flows, cluster, name):
            step = (leg.link.target, copied)
            if step not in seen and why_illegal(copied) is None:
                seen.add(step)
                ways.append((*step, (*way, leg)))
    return ()


def heartbeats_at(flows: Sequence[Flow], cluster: ClusterAlias) -> tuple[str, ...]:
    """Every heartbeats topic that the fleets of `flows` can bring to a cluster; sorted."""
    todo = [(alias, HEARTBEATS) for flow in flows for alias in flow.link]
    found = set(todo)
    while todo:
        for leg, copied in _copies(flows, *todo.pop()):
            step = (leg.link.target, copied)
            if step not in found:
                found.add(step)
                todo.append(step)
    return tuple(sorted(name for alias, name in found if alias == cluster))


def _prefixes(flow: Flow, alias: str, topic: str) -> bool:
    return flow.link.source == alias and any(
        flow.takes(rule, topic) and remote_name(rule.naming, alias, topic) != topic
        for rule in flow.rules
    )


def _copies(flows: Sequence[Flow], cluster: ClusterAlias, topic: str) -> Iterator[tuple[Leg, str]]:
    for flow in flows:
        if flow.link.source != cluster or never_of(flows, flow, topic):
            continue
        for rule in flow.rules:
            if flow.takes(rule, topic) and not goes_back(flows, rule, topic, flow.link.target):
                yield Leg(flow.link, rule.name), remote_name(rule.naming, cluster, topic)
