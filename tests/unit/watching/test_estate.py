"""An estate held against clusters that answer: what each one is, whatever it is called."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.config.flows import all_flows
from mirrorfleet.config.load import parse_estate
from mirrorfleet.watching.estate import Report, check_live

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from mirrorfleet.config.model import Estate
    from mirrorfleet.kafka.cluster import Cluster

ESTATE = """
estate: e
clusters:
  east: {{bootstrap: "h:1"}}
  east2: {{bootstrap: "h:2"}}
  west: {{bootstrap: "h:3"}}
  west2: {{bootstrap: "h:4"}}
links:
  - {{from: east, to: west, rules: [{{name: all, topics: [orders]}}]}}
  - {{from: {source}, to: {target}, rules: [{{name: more, topics: [orders]}}]}}
"""


async def problems(source: str, target: str) -> list[str]:
    """Aliases that begin alike are one cluster."""
    return (await looked(source, target, "orders")).problems


async def looked(source: str, target: str, *topics: str) -> Report:
    """What is said of clusters that all have `topics`."""
    return await looked_at(ESTATE.format(source=source, target=target), topics)


async def looked_at(text: str, topics: Sequence[str], only: str = "") -> Report:
    """The same of any estate, or of the links into one target."""

    @asynccontextmanager
    async def opened(_: Estate, alias: str) -> AsyncIterator[object]:
        async def metadata(_: None) -> SimpleNamespace:
            return SimpleNamespace(brokers={1: None}, topics=dict.fromkeys(topics))

        yield SimpleNamespace(cluster_id=f"{alias.rstrip('2').upper()}-ID", metadata=metadata)

    estate = parse_estate(text, "e", directory=Path())
    report = Report()

    def opener(estate: Estate, alias: str) -> Cluster:
        return cast("Cluster", opened(estate, alias))

    flows = [flow for flow in all_flows(estate) if only in ("", flow.link.target)]
    await check_live(estate, flows, report, opener)
    return report


@pytest.mark.parametrize("only", ["", "west"])
async def test_topics_that_would_come_back_by_other_links_are_a_problem_also_of_one_target(
    only: str,
) -> None:
    ring = """
estate: e
clusters: {east: {bootstrap: "h:1"}, west: {bootstrap: "h:2"}, north: {bootstrap: "h:3"}}
links:
  - {from: east, to: west, rules: [{name: a, naming: identity, topics: ["orders.*"]}]}
  - {from: west, to: north, rules: [{name: b, naming: identity, topics: ["order.*"]}]}
  - {from: north, to: east, rules: [{name: c, naming: identity, topics: ["ord.*"]}]}
"""
    found = (await looked_at(ring, ["orders"], only)).problems

    assert any("'a'" in one and "would come back" in one for one in found)


async def test_two_targets_that_are_one_cluster_are_a_problem_with_the_topics_that_clash() -> None:
    twins, clash = await problems("east", "west2")

    assert "'west' and 'west2' are both cluster.id WEST-ID" in twins
    assert "rule 'all' of east->west (orders -> east.orders) has it already" in clash


async def test_two_sources_of_a_target_that_are_one_cluster_are_a_problem() -> None:
    (twins,) = await problems("east2", "west")

    assert "'east' and 'east2' are both cluster.id EAST-ID" in twins


async def test_a_cluster_may_have_another_name_for_the_way_back() -> None:
    assert await problems("west2", "east") == []


async def test_a_source_without_topics_is_a_warning_and_a_pattern_beside_topics_a_problem() -> None:
    fresh = await looked("west", "east")
    inner = await looked(
        "west", "east", "__consumer_offsets", "heartbeats", "west.checkpoints.internal"
    )
    typed = await looked("west", "east", "ordres")

    said = "east->west, rule 'all': no topic of east matches orders"
    assert fresh.problems == []
    assert fresh.warnings[0].startswith(f"{said} (0 topics are visible). ")
    assert inner.problems == []
    assert inner.warnings[0].startswith(f"{said} (3 topics are visible). ")
    assert typed.warnings == []
    assert typed.problems[0] == f"{said} (1 topics are visible). Nearest: 'ordres'."
