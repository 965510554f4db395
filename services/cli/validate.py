"""`validate`: the estate by itself, and with --live against the clusters. Writes nothing."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path

from mirrorfleet.config.connect import cluster_settings
from mirrorfleet.config.flows import all_flows
from mirrorfleet.config.load import load_estate
from mirrorfleet.config.model import Estate
from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.core.ids import ClusterAlias, ClusterId
from mirrorfleet.policy.claims import Claim, settle
from mirrorfleet.policy.flows import Flow
from mirrorfleet.policy.selection import Selection, Why, select
from services.cli.connecting import open_cluster
from services.cli.output import (
    EXIT_ERROR,
    EXIT_OK,
    Output,
    print_json,
    print_table,
    say,
    say_error,
    say_note,
)
from services.cli.run import check_service

_READ_COMMITTED = (
    "note: exactly once is what a consumer with isolation.level=read_committed sees;"
    " Kafka's default is read_uncommitted."
)


class Depth(Enum):
    """How far to look."""

    FILE = auto()
    LIVE = auto()


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


def run(estate_file: Path, target: str | None, output: Output, depth: Depth) -> int:
    """Loads, checks, prints; 0 or 1."""
    estate = load_estate(estate_file)
    if target is not None:
        estate.cluster(target)
    flows = [flow for flow in all_flows(estate) if target in {None, flow.link.target}]
    report = Report()
    _check_file(estate, flows, report)
    if depth is Depth.LIVE and not report.problems:
        asyncio.run(_check_live(estate, flows, report))
    elif depth is Depth.FILE:
        report.rules = [_rule_row(flow, rule.name, None) for flow in flows for rule in flow.rules]
    _print(estate_file, report, output)
    return EXIT_ERROR if report.problems else EXIT_OK


def _check_file(estate: Estate, flows: Sequence[Flow], report: Report) -> None:
    """What the models cannot know: names of services, secrets that are there."""
    if not flows:
        report.warnings.append("no link: nothing will be copied. Add one under `links`.")
    for name in estate.services:
        try:
            check_service(name)
        except MirrorfleetError as error:
            line = estate.line_of(f"services.{name}")
            report.problems.append(f"line {line} services.{name}: {error}")
    for alias in _aliases(flows):
        try:
            cluster_settings(estate, alias)
        except MirrorfleetError as error:
            report.problems.append(str(error))


async def _check_live(estate: Estate, flows: Sequence[Flow], report: Report) -> None:
    seen: dict[ClusterAlias, Seen] = {}
    for alias in _aliases(flows):
        try:
            seen[alias] = await _look(estate, alias)
        except MirrorfleetError as error:
            line = estate.line_of(f"clusters.{alias}.bootstrap")
            hint = f"Check clusters.{alias} (line {line}), and that the cluster is up."
            report.problems.append(f"{alias}: {error} {hint}")
    report.clusters = [
        {"cluster": s.alias, "cluster_id": s.cluster_id, "brokers": s.brokers}
        for s in seen.values()
    ]
    selections = {
        flow: _check_flow(flow, flows, seen, report)
        for flow in flows
        if flow.link.source in seen and flow.link.target in seen
    }
    _check_claims(selections, report)


async def _look(estate: Estate, alias: ClusterAlias) -> Seen:
    async with open_cluster(estate, alias) as cluster:
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
        report.rules.append(_rule_row(flow, rule.name, topics))
        matched = [topic for topic in source.topics if rule.topics.matches(topic)]
        if not matched:
            report.problems.append(_nothing_matches(flow, rule.name, source))
    for refusal in selection.refusals:
        text = f"{flow.link}, rule {refusal.rule!r}: {refusal.topic!r}: {refusal.detail}"
        if refusal.why is Why.IDENTITY_LOOP:
            report.problems.append(text)
        elif not refusal.why.expected:
            report.warnings.append(text)
    return selection


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


def _check_claims(selections: Mapping[Flow, Selection], report: Report) -> None:
    by_target: dict[ClusterAlias, list[Claim]] = {}
    for flow, selection in selections.items():
        by_target.setdefault(flow.link.target, []).extend(selection.claims)
    for claims in by_target.values():
        report.problems.extend(map(str, settle((), claims).clashes))


def _aliases(flows: Iterable[Flow]) -> list[ClusterAlias]:
    return list(dict.fromkeys(alias for flow in flows for alias in flow.link))


def _rule_row(flow: Flow, name: str, topics: Sequence[str] | None) -> dict[str, object]:
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


def _print(estate_file: Path, report: Report, output: Output) -> None:
    if output is Output.JSON:
        print_json(
            {
                "ok": not report.problems,
                "problems": report.problems,
                "warnings": report.warnings,
                "clusters": report.clusters,
                "rules": report.rules,
            }
        )
        return
    if report.clusters:
        print_table(list(report.clusters[0]), report.clusters)
    if report.rules:
        print_table(list(report.rules[0]), report.rules)
    for warning in report.warnings:
        say_note(f"warning: {warning}")
    for problem in report.problems:
        say_error(f"{estate_file}: {problem}")
    if not report.problems:
        say(f"{estate_file} is valid.")
        say_note(_READ_COMMITTED)
