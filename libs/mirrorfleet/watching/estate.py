"""An estate held against its clusters: who answers, what the rules match, who clashes.

Nothing is written, and no service asks: problems are for who starts a fleet, to be corrected first.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from mirrorfleet.config.connect import cluster_settings
from mirrorfleet.config.flows import all_flows
from mirrorfleet.config.model import Estate
from mirrorfleet.config.telemetry import telemetry_settings
from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.core.ids import ClusterAlias, ClusterId
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.tls import make_context
from mirrorfleet.policy.claims import Claim, settle
from mirrorfleet.policy.flows import Flow
from mirrorfleet.policy.naming import is_internal_topic
from mirrorfleet.policy.selection import Selection, Why, select
from mirrorfleet.records import heartbeat

Opener = Callable[[Estate, str], Cluster]
"""Gives a client of a cluster by its alias, not connected."""


@dataclass(slots=True)
class Report:
    """What was found: problems make the exit code 1, warnings do not."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    clusters: list[dict[str, object]] = field(default_factory=list)
    rules: list[dict[str, object]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Seen:
    """A cluster that answered."""

    alias: ClusterAlias
    cluster_id: ClusterId
    brokers: int
    topics: tuple[str, ...]


async def check_live(estate: Estate, flows: Sequence[Flow], report: Report, opened: Opener) -> None:
    """Look at every cluster of the flows; what is found goes into `report`. Loops may also go by
    links that are not among them.
    """
    seen: dict[ClusterAlias, Seen] = {}
    for alias in aliases(flows):
        try:
            seen[alias] = await _look(estate, alias, opened)
        except MirrorfleetError as error:
            line = estate.line_of(f"clusters.{alias}.bootstrap")
            hint = f"Check clusters.{alias} (line {line}), and that the cluster is up."
            report.problems.append(f"{alias}: {error} {hint}")
    report.clusters = [
        {"cluster": s.alias, "cluster_id": s.cluster_id, "brokers": s.brokers}
        for s in seen.values()
    ]
    selections = {
        flow: _check_flow(flow, all_flows(estate), seen, report)
        for flow in flows
        if flow.link.source in seen and flow.link.target in seen
    }
    report.problems.extend(_twins(flows, seen))
    _check_claims(selections, seen, report)


async def _look(estate: Estate, alias: ClusterAlias, opened: Opener) -> Seen:
    async with opened(estate, alias) as cluster:
        found = await cluster.metadata(None)
        return Seen(alias, cluster.cluster_id, len(found.brokers), tuple(sorted(found.topics)))


def _check_flow(
    flow: Flow, flows: Sequence[Flow], seen: Mapping[ClusterAlias, Seen], report: Report
) -> Selection:
    source, target = seen[flow.link.source], seen[flow.link.target]
    if source.cluster_id == target.cluster_id:
        report.problems.append(
            f"{flow.link}: both ends are cluster.id {source.cluster_id}: one cluster under two"
            " names. Correct `bootstrap` of one of them."
        )
        return Selection((), ())
    ids = {alias: one.cluster_id for alias, one in seen.items()}
    selection = select(flow, source.topics, estate=flows, ids=ids)
    for rule in flow.rules:
        topics = [claim.source_topic for claim in selection.claims if claim.rule == rule.name]
        report.rules.append(rule_row(flow, rule.name, topics))
        matched = [topic for topic in source.topics if rule.topics.matches(topic)]
        if not matched:
            # on a source without any topic of its users nothing is mistyped: they are made later
            told = report.problems if any(map(_is_of_users, source.topics)) else report.warnings
            told.append(_nothing_matches(flow, rule.name, source))
    for refusal in selection.refusals:
        text = f"{flow.link}, rule {refusal.rule!r}: {refusal.topic!r}: {refusal.detail}"
        if refusal.why is Why.IDENTITY_LOOP:
            report.problems.append(text)
        elif not refusal.why.expected:
            report.warnings.append(text)
    return selection


def _is_of_users(topic: str) -> bool:
    return not is_internal_topic(topic) and topic != heartbeat.TOPIC


def _nothing_matches(flow: Flow, rule: str, source: Seen) -> str:
    wanted = next(one.topics for one in flow.rules if one.name == rule)
    patterns = ", ".join(wanted.include)
    near = [
        name
        for pattern in wanted.include
        for name in difflib.get_close_matches(pattern.rstrip(".*"), source.topics, n=1)
    ]
    hint = (
        f"Nearest: {near[0]!r}."
        if near
        else "Patterns match whole names; without the right to DESCRIBE it a topic is not visible."
    )
    return (
        f"{flow.link}, rule {rule!r}: no topic of {source.alias} matches {patterns}"
        f" ({len(source.topics)} topics are visible). {hint}"
    )


def _twins(flows: Sequence[Flow], seen: Mapping[ClusterAlias, Seen]) -> Iterator[str]:
    """Two targets that are one cluster, and two sources of one target."""
    targets = dict.fromkeys(flow.link.target for flow in flows)
    ends: dict[ClusterAlias | None, list[ClusterAlias]] = {None: list(targets)}
    for flow in flows:
        ends.setdefault(flow.link.target, []).append(flow.link.source)
    found = {
        pair: seen[pair[0]].cluster_id
        for aliases_there in ends.values()
        for pair in combinations(dict.fromkeys(aliases_there), 2)
        if seen.keys() >= set(pair) and seen[pair[0]].cluster_id == seen[pair[1]].cluster_id
    }
    for (first, second), cluster in found.items():
        yield (
            f"{first!r} and {second!r} are both cluster.id {cluster}: one cluster under two names,"
            " and each record would be copied twice. Use one of them in all links."
        )


def _check_claims(
    selections: Mapping[Flow, Selection], seen: Mapping[ClusterAlias, Seen], report: Report
) -> None:
    """By cluster.id: whatever a target is called, a topic there is written by one rule."""
    by_target: dict[ClusterId, list[Claim]] = {}
    for flow, selection in selections.items():
        by_target.setdefault(seen[flow.link.target].cluster_id, []).extend(selection.claims)
    for claims in by_target.values():
        report.problems.extend(map(str, settle((), claims).clashes))


def aliases(flows: Iterable[Flow]) -> list[ClusterAlias]:
    """Every cluster of the flows, once."""
    return list(dict.fromkeys(alias for flow in flows for alias in flow.link))


def rule_row(flow: Flow, name: str, topics: Sequence[str] | None) -> dict[str, object]:
    """A rule, and what it matches as far as that was looked at."""
    rule = next(one for one in flow.rules if one.name == name)
    row: dict[str, object] = {
        "link": str(flow.link),
        "rule": name,
        "patterns": list(rule.topics.include),
        "naming": rule.naming,
    }
    if topics is not None:
        row["topics"] = len(topics)
        row["examples"] = list(topics[:3])
    return row


def check_file(estate: Estate, flows: Sequence[Flow], report: Report) -> None:
    """What the models cannot know: whether secrets are there, those of traces included, and whether
    certificates and keys can be used.
    """
    if not flows:
        report.warnings.append("no link: nothing will be copied. Add one under `links`.")
    report.warnings.extend(filter(None, map(groups_missing, flows)))
    for alias in aliases(flows):
        try:
            security = cluster_settings(estate, alias).security
        except MirrorfleetError as error:
            report.problems.append(str(error))
            continue
        try:
            if security.protocol.tls:
                make_context(security)
        except MirrorfleetError as error:
            report.problems.append(f"clusters.{alias}.{error}")
    try:
        telemetry_settings(estate)
    except MirrorfleetError as error:
        report.problems.append(str(error))


def groups_missing(flow: Flow) -> str:
    """Says that no consumer group can move over, "" where a rule names some.

    MM2 takes all by default: who comes from there finds it out when a region is lost.
    """
    if any(rule.groups.include for rule in flow.rules):
        return ""
    return (
        f"no rule of {flow.link} has `groups`: no consumer group's offsets cross."
        ' `groups: [".*"]` in a rule takes those of all.'
    )
