"""Which topics of a source are copies, by what the catalogs there say of them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError
from mirrorfleet.core.ids import ClusterAlias, ClusterId, TopicId, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.configs import ConfigSource, ConfigValue
from mirrorfleet.kafka.metadata import Metadata, PartitionMeta, TopicMeta
from mirrorfleet.kafka.offsets import ListedOffset
from mirrorfleet.planning.book import CatalogBook
from mirrorfleet.records import catalog
from mirrorfleet.records.catalog import CatalogPartition, CatalogState
from mirrorfleet.watching import configs, source
from mirrorfleet.watching.configs import Configs
from mirrorfleet.watching.source import OtherCatalogs, SourceWatch, origins_in
from tests.unit.copying.making import entry

COPY = replace(entry(), origins=(ClusterId("EAST-ID"),))
ENDED = replace(COPY, state=CatalogState.REMOVED)
ITS_ID = COPY.identity.target_topic_id


def passed_by(topic_id: TopicId, *entries: CatalogPartition) -> tuple[ClusterId, ...]:
    """What a topic with the name of the copy is said to have passed."""
    book = CatalogBook()
    for each in entries:
        book.learn(each)
    topic = TopicMeta(COPY.target_topic, topic_id, ErrorCode.NONE, internal=False, partitions={})
    return origins_in([book]).of(topic)


def test_a_topic_with_the_name_of_a_copy_that_ended_is_not_one() -> None:
    assert passed_by(UUID(int=99), ENDED) == ()


def test_a_copy_that_ended_stays_a_copy() -> None:
    assert passed_by(ITS_ID, ENDED) == COPY.origins


def test_a_topic_into_which_a_fleet_copies_is_a_copy_also_when_it_was_made_again() -> None:
    assert passed_by(ITS_ID, COPY) == COPY.origins
    assert passed_by(UUID(int=99), COPY) == COPY.origins


async def test_a_topic_that_must_be_seen_twice_was_there_at_the_first_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or a rule that begins then would take it for one that came later."""
    partition = PartitionMeta(1, 0, (1,), (1,), (), ErrorCode.NONE)
    orders, stock = (
        TopicMeta(name, UUID(int=number), ErrorCode.NONE, internal=False, partitions={0: partition})
        for number, name in enumerate(("orders", "stock"), start=1)
    )

    async def metadata(_: object) -> Metadata:
        return Metadata(ClusterId("EAST-ID"), 1, {}, {"orders": orders, "stock": stock})

    async def refresh(*_: object) -> None:
        pass

    monkeypatch.setattr(OtherCatalogs, "refresh", refresh)
    monkeypatch.setattr(OtherCatalogs, "any", True)
    cluster = cast("Cluster", SimpleNamespace(metadata=metadata))
    watch = SourceWatch(cluster, lambda name: name == "orders", configs_a_look=1)

    seen = await watch.look()

    assert not seen.topics
    assert seen.waiting == {"orders", "stock"}
    assert seen.wanted == {"orders": orders.topic_id}
    assert watch.unconfirmed == 1


def test_a_partition_that_is_being_moved_has_no_more_replicas_than_the_others() -> None:
    """Those that it leaves and those that it comes to are all told."""
    moving = PartitionMeta(1, 0, (1, 2, 3, 4), (1, 2), (), ErrorCode.NONE)
    resting = PartitionMeta(1, 0, (1, 2), (1, 2), (), ErrorCode.NONE)
    topic = TopicMeta("orders", UUID(int=1), ErrorCode.NONE, False, {0: moving, 1: resting})

    assert source._source_topic(topic, Configs()).replicas == 2


async def test_who_begins_anew_believes_no_config_that_was_read_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of two topics is read again with each look: the other would have its former value."""
    partition = PartitionMeta(1, 0, (1,), (1,), (), ErrorCode.NONE)
    topics = {
        name: TopicMeta(name, UUID(int=number), ErrorCode.NONE, False, {0: partition})
        for number, name in enumerate(("orders", "stock"), start=1)
    }
    retention = ["86400000"]

    async def metadata(_: object) -> Metadata:
        return Metadata(ClusterId("EAST-ID"), 1, {}, topics)

    async def describe(_: Cluster, names: list[str]) -> dict[str, dict[str, ConfigValue]]:
        value = ConfigValue(retention[0], ConfigSource.TOPIC, False, False)
        return {name: {"retention.ms": value} for name in names}

    monkeypatch.setattr(configs, "describe_configs", describe)
    cluster = cast("Cluster", SimpleNamespace(metadata=metadata))
    watch = SourceWatch(cluster, lambda _: True, configs_a_look=1)
    await watch.look()
    retention[0] = "2592000000"

    watch.begin_anew()
    seen = await watch.look()

    told = {name: (topic.overrides or {})["retention.ms"] for name, topic in seen.topics.items()}
    assert told == {"orders": "2592000000", "stock": "2592000000"}


async def test_a_look_that_is_given_up_confirms_no_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = PartitionMeta(1, 0, (1,), (1,), (), ErrorCode.NONE)
    names, fails = ["orders"], [False, True, False, False]

    async def metadata(_: object) -> Metadata:
        found = {
            name: TopicMeta(name, UUID(int=number), ErrorCode.NONE, False, {0: partition})
            for number, name in enumerate(names, start=1)
        }
        return Metadata(ClusterId("EAST-ID"), 1, {}, found)

    async def describe(_: Cluster, names: list[str]) -> dict[str, dict[str, ConfigValue]]:
        if fails.pop(0):
            raise DeadlineError("east does not answer.")
        return {name: {} for name in names}

    async def refresh(*_: object) -> None:
        pass

    monkeypatch.setattr(OtherCatalogs, "refresh", refresh)
    monkeypatch.setattr(OtherCatalogs, "any", True)
    monkeypatch.setattr(configs, "describe_configs", describe)
    cluster = cast("Cluster", SimpleNamespace(metadata=metadata))
    watch = SourceWatch(cluster, lambda _: True, configs_a_look=1)
    await watch.look()
    await watch.look()

    names.append("stock")
    with pytest.raises(DeadlineError):
        await watch.look()
    first, second = await watch.look(), await watch.look()

    assert first.waiting == {"stock"}
    assert set(second.topics) == {"orders", "stock"}


class Catalogs:
    """Those of the source, which has nine records in each, and lets us read them or not."""

    def __init__(self) -> None:
        self.denied = False
        self.read: list[tuple[str, int]] = []

    async def ends(
        self, _: object, wanted: dict[TopicPartition, object]
    ) -> dict[TopicPartition, object]:
        return {at: ListedOffset(9, -1, 0) for at in wanted}

    async def read_below(self, _: object, at: TopicPartition, end: int) -> list[object]:
        if self.denied:
            raise BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, at.topic)
        self.read.append((at.topic, end))
        return []


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Catalogs:
    made = Catalogs()
    monkeypatch.setattr(source, "list_offsets", made.ends)
    monkeypatch.setattr(source, "read_below", made.read_below)
    return made


async def test_a_catalog_that_we_may_not_read_any_more_is_remembered_and_read_once_we_may(
    there: Catalogs,
) -> None:
    watch = OtherCatalogs(cast("Cluster", SimpleNamespace(settings=None)))
    await watch._read("catalog")
    book = watch._books["catalog"]

    there.denied = True
    watch._ends["catalog"] = 8  # it has grown
    await watch._read("catalog")
    assert watch._books["catalog"] is book

    there.denied = False
    await watch._read("catalog")
    assert there.read == [("catalog", 9)] * 2


@pytest.mark.parametrize("ends_by", ["the right", "deletion"])
async def test_a_catalog_that_we_may_not_read_is_trouble_until_we_may_or_it_is_gone(
    there: Catalogs, ends_by: str
) -> None:
    topic = "__mirrorfleet.other.catalog"
    east = ClusterSettings(alias=ClusterAlias("east"), bootstrap=("nowhere:1",))
    watch = SourceWatch(Cluster(east), lambda _: True, configs_a_look=1)
    catalogs = watch._catalogs

    there.denied = True
    await catalogs.refresh([topic, "orders"])
    told = watch.loop_trouble
    there.denied = ends_by == "deletion"
    await catalogs.refresh(["orders"] if there.denied else [topic, "orders"])

    assert f"may not READ Topic:{topic} on east" in told
    assert "could go back to where it came from. Grant this READ" in told
    assert watch.loop_trouble == ""


async def test_a_look_that_is_given_up_forgets_no_configs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, fails = list[int](), [False, True, True, False]

    async def describe(_: Cluster, names: list[str]) -> dict[str, dict[str, ConfigValue]]:
        asked.append(len(names))
        if fails.pop(0):
            raise DeadlineError("east does not answer.")
        return {name: {} for name in names}

    monkeypatch.setattr(configs, "describe_configs", describe)
    memory = configs.ConfigMemory(cast("Cluster", SimpleNamespace()), 1)
    topics = [
        TopicMeta(f"t{number}", UUID(int=number), ErrorCode.NONE, internal=False, partitions={})
        for number in range(4)
    ]
    await memory.of(topics)
    for _ in range(2):
        with pytest.raises(DeadlineError):
            await memory.of(topics)

    assert (await memory.of(topics)).keys() == {"t0", "t1", "t2", "t3"}
    assert asked == [4, 1, 1, 1]


async def test_what_was_read_before_a_look_was_given_up_counts_in_the_next_one(
    there: Catalogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (f"__mirrorfleet.{name}.catalog" for name in ("one", "two"))
    key, value = catalog.encode(COPY)

    async def read(_: object, at: TopicPartition, end: int) -> list[SimpleNamespace]:
        if at.topic == two:
            raise DeadlineError("east does not answer.")
        return [SimpleNamespace(key=key, value=value)]

    monkeypatch.setattr(source, "read_below", read)
    watch = OtherCatalogs(cast("Cluster", SimpleNamespace(settings=None)))
    with pytest.raises(DeadlineError):
        await watch.refresh([one, two])

    await watch.refresh([one])

    copy = TopicMeta(COPY.target_topic, ITS_ID, ErrorCode.NONE, internal=False, partitions={})
    assert watch.origins_of([copy]) == {COPY.target_topic: COPY.origins}
