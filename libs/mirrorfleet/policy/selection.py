"""From the topics of a source cluster to claims: the whole chain of rules in one place.

Order matters: `never`, internal and own topics first (no pattern overrides them), then cycles by
name and by origin, then names and loops. What nobody asked for is not mentioned at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mirrorfleet.core.ids import ClusterAlias, ClusterId
from mirrorfleet.policy.claims import Claim
from mirrorfleet.policy.cycles import (
    goes_back,
    is_cycle_by_origin,
    loop_of,
    never_of,
    origins_by_name,
    passed,
)
from mirrorfleet.policy.flows import Flow, FlowRule
from mirrorfleet.policy.naming import Naming, is_internal_topic, remote_name, why_illegal


class Why(StrEnum):
    """Why a topic that a rule matches is not copied."""

    NEVER = "never"
    INTERNAL = "internal"
    CYCLE = "cycle"
    NAME = "name"
    IDENTITY_LOOP = "identity-loop"

    @property
    def expected(self) -> bool:
        """Whether it is the ordinary case, so that nobody needs to be told each time."""
        return self in {Why.INTERNAL, Why.CYCLE}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A topic that `rule` matches and that is not copied."""

    topic: str
    rule: str
    why: Why
    detail: str


@dataclass(frozen=True, slots=True)
class Selection:
    """`claims` in file order of rules, then by name; not yet settled against each other."""

    claims: tuple[Claim, ...]
    refusals: tuple[Refusal, ...]


def select(
    flow: Flow,
    topics: Sequence[str],
    *,
    estate: Sequence[Flow] = (),
    ids: Mapping[ClusterAlias, ClusterId] | None = None,
) -> Selection:
    """What `flow` copies of the source's `topics`.

    `estate` is every flow known (for loops over other links); `ids` what each alias means, as far
    as known, and must have both ends for the check by cluster.id.
    """
    claims: list[Claim] = []
    refusals: list[Refusal] = []
    for rule in flow.rules:
        for topic in sorted(topics):
            if not flow.takes(rule, topic):
                continue
            refusal = _refusal(flow, rule, topic, estate or (flow,), ids or {})
            if refusal is not None:
                refusals.append(refusal)
                continue
            target = remote_name(rule.naming, flow.link.source, topic)
            claims.append(Claim(flow.link, rule.name, topic, target))
    return Selection(tuple(claims), tuple(refusals))


def _refusal(
    flow: Flow,
    rule: FlowRule,
    topic: str,
    estate: Sequence[Flow],
    ids: Mapping[ClusterAlias, ClusterId],
) -> Refusal | None:
    source, target = flow.link
    if name := never_of(estate, flow, topic):
        what = "it is" if name == topic else f"by its name it is a copy of {name}, which is"
        return Refusal(topic, rule.name, Why.NEVER, f"{what} on a `never` list")
    if is_internal_topic(topic):
        return Refusal(topic, rule.name, Why.INTERNAL, "internal topics are never copied")
    if goes_back(estate, rule, topic, target):
        return Refusal(topic, rule.name, Why.CYCLE, f"by its name it came from {target}")
    if _was_there(flow, rule, topic, estate, ids):
        return Refusal(topic, rule.name, Why.CYCLE, f"it came from cluster {ids[target]}")
    copy = remote_name(rule.naming, source, topic)
    illegal = why_illegal(copy)
    if illegal is not None:
        return Refusal(topic, rule.name, Why.NAME, f"{copy[:60]!r} on {target}: {illegal}")
    way = loop_of(estate, flow, rule, topic)
    if way:
        path = ", ".join(map(str, way))
        return Refusal(topic, rule.name, Why.IDENTITY_LOOP, f"it would come back by {path}")
    return None


def _was_there(
    flow: Flow,
    rule: FlowRule,
    topic: str,
    estate: Sequence[Flow],
    ids: Mapping[ClusterAlias, ClusterId],
) -> bool:
    """By cluster.id: an alias in the name means the cluster that the target is."""
    source, target = flow.link
    if source not in ids or target not in ids:
        return False
    known = ids
    if rule.naming is Naming.IDENTITY:
        known = {alias: ids[alias] for alias in passed(estate, topic) if alias in ids}
    return is_cycle_by_origin(origins_by_name(topic, ids[source], known), ids[target])
