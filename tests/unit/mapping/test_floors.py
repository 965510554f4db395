"""Where the logs of copied partitions begin: the right clusters are asked, the others left out."""

from __future__ import annotations

from dataclasses import replace
from typing import cast
from uuid import UUID

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.core.ids import NO_TOPIC_ID, ClusterAlias, ClusterId, Link, TopicId, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.metadata import Metadata, TopicMeta
from mirrorfleet.kafka.offsets import ListedOffset
from mirrorfleet.mapping import floors as module
from mirrorfleet.mapping.floors import LogFloors
from mirrorfleet.offsets.packing import GONE
from mirrorfleet.records.catalog import CatalogPartition, CatalogState
from tests.unit.copying.making import SOURCE_TOPIC, TARGET_TOPIC, entry, identity

EAST, NORTH, WEST = (ClusterAlias(name) for name in ("east", "north", "west"))
ANOTHER = UUID(int=0xC)
REMOVED = entry(0, state=CatalogState.REMOVED)
NOW = entry(identity=replace(identity(), incarnation=1))
ANEW = entry(identity=replace(identity(), source_topic_id=ANOTHER, incarnation=1))


class Log:
    """A cluster whose logs all begin at one offset, of topics with one id."""

    def __init__(
        self,
        start: int,
        cluster_id: str,
        *,
        topic_id: TopicId = SOURCE_TOPIC,
        is_away: bool = False,
    ) -> None:
        self.start, self.is_away = start, is_away
        self.cluster_id = ""
        self.topic_id, self.error = topic_id, ErrorCode.NONE
        self._id = cluster_id

    async def open(self) -> None:
        self.cluster_id = self._id

    async def metadata(self, names: list[str]) -> Metadata:
        if self.is_away:
            raise DeadlineError("no answer.")
        topic = TopicMeta("", self.topic_id, self.error, internal=False, partitions={})
        topics = {name: topic._replace(name=name) for name in names}
        return Metadata(ClusterId(self._id), 1, {}, topics)


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def listed(
        cluster: Log, wanted: dict[TopicPartition, object]
    ) -> dict[TopicPartition, ListedOffset]:
        assert not (wanted and cluster.error)
        return {at: ListedOffset(cluster.start, -1, 0) for at in wanted}

    monkeypatch.setattr(module, "list_offsets", listed)


class Looks:
    """Looks at clusters that change in between."""

    def __init__(self, *entries: CatalogPartition) -> None:
        self.source, self.target = Log(5, "source"), Log(7, "target", topic_id=TARGET_TOPIC)
        self.entries = entries
        self._floors = LogFloors(cast("Cluster", self.target))

    async def look(self) -> dict[int, tuple[int, int]]:
        """By incarnation."""
        sources = {EAST: cast("Cluster", self.source)}
        found = await self._floors.look(sources, self.entries)
        return {at.incarnation: (one.source, one.target) for at, one in found.items()}


async def floors(**sources: Log) -> dict[int, tuple[int, int]]:
    """By partition: 0 is of the east, 1 of the north."""
    other = replace(entry(1), link=Link(NORTH, WEST))
    clusters = {ClusterAlias(alias): cast("Cluster", log) for alias, log in sources.items()}
    target = cast("Cluster", Log(7, "target", topic_id=TARGET_TOPIC))
    found = await LogFloors(target).look(clusters, [entry(0), other])
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


async def test_the_log_of_another_topic_of_the_name_says_nothing_of_a_copy() -> None:
    found = await floors(east=Log(5, "source", topic_id=ANOTHER), north=Log(6, "source"))
    assert found == {1: (6, 7)}


async def test_a_removed_partition_is_asked_for_as_one_that_is_copied() -> None:
    assert await Looks(REMOVED, NOW).look() == {0: (5, 7), 1: (5, 7)}


async def test_of_a_source_that_was_made_anew_only_the_targets_log_keeps_what_was_before() -> None:
    looks = Looks(REMOVED, ANEW)
    looks.source.topic_id = ANOTHER
    assert await looks.look() == {1: (5, 7)}
    assert await looks.look() == {0: (GONE, 7), 1: (5, 7)}


async def test_where_both_topics_are_gone_no_log_is_asked() -> None:
    looks = Looks(REMOVED)
    looks.source.error = looks.target.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [await looks.look() for _ in range(2)] == [{}, {0: (GONE, GONE)}]


@pytest.mark.parametrize(
    "error", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.LEADER_NOT_AVAILABLE]
)
async def test_a_topic_that_may_be_hidden_is_not_gone(error: ErrorCode) -> None:
    looks = Looks(REMOVED)
    looks.source.error = error
    assert [await looks.look() for _ in range(3)] == [{}, {}, {}]


async def test_a_broker_that_tells_no_id_says_nothing() -> None:
    looks = Looks(REMOVED)
    looks.source.topic_id = NO_TOPIC_ID
    assert [await looks.look() for _ in range(3)] == [{}, {}, {}]


async def test_a_look_that_failed_in_between_begins_anew() -> None:
    looks = Looks(REMOVED)
    looks.target.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = []
    for is_away in (False, True, False, False):
        looks.source.is_away = is_away
        found.append(await looks.look())
    assert found == [{}, {}, {}, {0: (5, GONE)}]
