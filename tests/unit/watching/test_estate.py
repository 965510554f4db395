"""An estate held against clusters that answer: what each one is, whatever it is called."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.config.flows import all_flows
from mirrorfleet.config.load import parse_estate
from mirrorfleet.watching.estate import Report, check_live

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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

    @asynccontextmanager
    async def opened(_: Estate, alias: str) -> AsyncIterator[object]:
        async def metadata(_: None) -> SimpleNamespace:
            return SimpleNamespace(brokers={1: None}, topics=dict.fromkeys(topics))

        yield SimpleNamespace(cluster_id=f"{alias.rstrip('2').upper()}-ID", metadata=metadata)

    estate = parse_estate(ESTATE.format(source=source, target=target), "e", directory=Path())
    report = Report()

    def opener(estate: Estate, alias: str) -> Cluster:
        return cast("Cluster", opened(estate, alias))

    await check_live(estate, all_flows(estate), report, opener)
    return report


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
