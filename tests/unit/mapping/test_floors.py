"""Where the logs of copied partitions begin: the right clusters are asked, the others left out."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.core.ids import ClusterAlias, Link, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.offsets import ListedOffset
from mirrorfleet.mapping import packing
from mirrorfleet.mapping.packing import log_floors
from tests.unit.copying.making import entry, identity

EAST, NORTH, WEST = (ClusterAlias(name) for name in ("east", "north", "west"))


class Log:
    """A cluster whose logs all begin at one offset."""

    def __init__(self, start: int, cluster_id: str, *, is_away: bool = False) -> None:
        self.start, self.is_away = start, is_away
        self.cluster_id = ""
        self._id = cluster_id

    async def open(self) -> None:
        if self.is_away:
            raise DeadlineError("east: no answer.")
        self.cluster_id = self._id


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def listed(
        cluster: Log, wanted: dict[TopicPartition, object]
    ) -> dict[TopicPartition, ListedOffset]:
        return {at: ListedOffset(cluster.start, -1, 0) for at in wanted}

    monkeypatch.setattr(packing, "list_offsets", listed)


async def floors(**sources: Log) -> dict[int, tuple[int, int]]:
    """By partition: 0 is of the east, 1 of the north."""
    other = replace(entry(1), link=Link(NORTH, WEST))
    clusters = {ClusterAlias(alias): cast("Cluster", log) for alias, log in sources.items()}
    found = await log_floors(clusters, cast("Cluster", Log(7, "target")), [entry(0), other])
    return {at.partition: (one.source, one.target) for at, one in found.items()}


async def test_both_logs_of_every_partition_are_asked() -> None:
    assert identity().source_cluster == "source"
    found = await floors(east=Log(5, "source"), north=Log(6, "source"))
    assert found == {0: (5, 7), 1: (6, 7)}


async def test_a_source_that_is_away_does_not_keep_the_others_from_being_known() -> None:
    found = await floors(east=Log(5, "source", is_away=True), north=Log(6, "source"))
    assert found == {1: (6, 7)}


async def test_an_alias_that_means_another_cluster_now_says_nothing() -> None:
    found = await floors(east=Log(5, "a new one"), north=Log(6, "source"))
    assert found == {1: (6, 7)}


async def test_a_source_that_nobody_knows_is_left_out() -> None:
    assert await floors(east=Log(5, "source")) == {0: (5, 7)}
