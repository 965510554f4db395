"""`mirrorfleet failback` beside a checkpoint at work, on real brokers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import pytest

from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.groups import commit_offsets, fetch_offsets
from mirrorfleet.offsets.homes import GroupOffset
from services.cli.__main__ import main
from tests.integration.checkpoint.fleet import World


async def check_a_group_comes_home(
    world: World, clusters: Mapping[str, Cluster], capsys: pytest.CaptureFixture[str]
) -> None:
    """Where it has read to on the target; of 200 that read at home nothing is set."""
    way, group = world.ways[0], f"{world.name}-g-home"
    source, target = clusters[way.source.name], clusters[way.target.name]
    topic = way.topics[0]
    lasts = {
        TopicPartition(way.there(topic), number): GroupOffset(copy[-1].offset, "kept")
        for number, copy in enumerate(way.copy(topic))
    }
    homes = {
        TopicPartition(topic, number): GroupOffset(log[-1].offset, "kept")
        for number, log in enumerate(way.log(topic))
    }
    estate = ["--estate", str(world.estate), "--target", way.target.name, "-o", "json", "--yes"]

    async def outcomes(*groups: str) -> tuple[int, list[tuple[str, str]]]:
        capsys.readouterr()
        code = await asyncio.to_thread(main, ["failback", *groups, *estate])
        rows = json.loads(capsys.readouterr().out)
        return code, sorted({(row["group"], row["outcome"]) for row in rows})

    assert await commit_offsets(target, {group: lasts}) == {group: None}
    assert await outcomes() == (0, [(group, "set")])
    assert (await fetch_offsets(source, [group]))[group] == homes
    assert await outcomes(group) == (0, [])
