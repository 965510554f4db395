"""Events of the fleet's links are written once each, whoever's look comes to an end first.

And control topics get the replicas that they should have for good, whoever is up just now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, MirrorfleetError, OutdatedError
from mirrorfleet.core.ids import NO_TOPIC_ID, ClusterId, FleetName, TopicPartition
from mirrorfleet.kafka.admin import NewTopic
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.metadata import Broker, Metadata, PartitionMeta, TopicMeta
from mirrorfleet.kafka.offsets import ListedOffset
from mirrorfleet.planning.book import CatalogBook
from mirrorfleet.records.catalog import CatalogConfig
from mirrorfleet.records.events import Event, EventKind, encode
from mirrorfleet.records.formats import FIRST_LEVEL, KNOWN_LEVEL
from mirrorfleet.records.topics import control_topics
from mirrorfleet.syncing import store as module
from mirrorfleet.syncing.store import Store
from tests.fakes.clock import HandClock


class Writer:
    """Takes a moment, and refuses what a test wants refused."""

    def __init__(self) -> None:
        self.writes: list[list[object]] = []
        self.gate = asyncio.Event()
        self.refuses = False
        self.deadline_s: float | None = None

    async def write_out(self, at: TopicPartition, waiting: list[object], now_ms: int) -> None:
        await self.gate.wait()
        if self.refuses:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(at))
        self.writes.append(list(waiting))
        waiting.clear()


async def everything_there(topics: Sequence[str]) -> SimpleNamespace:
    return SimpleNamespace(topics={name: SimpleNamespace(error=ErrorCode.NONE) for name in topics})


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Writer:
    made = Writer()

    def build(_: Cluster, *, deadline_s: float | None = None) -> Writer:
        made.deadline_s = deadline_s
        return made

    monkeypatch.setattr(module, "ControlWriter", build)
    return made


def a_store() -> Store:
    cluster = SimpleNamespace(metadata=everything_there)
    return Store(cast("Cluster", cluster), FleetName("west"), HandClock())


def an_event(detail: str) -> Event:
    return Event(kind=EventKind.TOPIC_CREATED, time_ms=1, writer="sync", detail=detail)


async def test_two_links_that_flush_at_once_write_each_event_once(writer: Writer) -> None:
    store, first, late = a_store(), an_event("first"), an_event("late")
    store.tell(first)

    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(store.flush())
        await asyncio.sleep(0)
        store.tell(late)
        writer.gate.set()
    await store.flush()

    assert writer.writes == [[encode(first)], [encode(late)]]


async def test_what_fell_out_of_a_full_queue_while_it_was_written_costs_no_newer_event(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EVENTS_KEPT", 2)
    store, events = a_store(), [an_event(str(number)) for number in range(3)]
    store.tell(events[0])
    store.tell(events[1])

    async with asyncio.TaskGroup() as group:
        group.create_task(store.flush())
        await asyncio.sleep(0)
        store.tell(events[2])
        writer.gate.set()
    await store.flush()

    assert writer.writes == [[encode(each) for each in events[:2]], [encode(events[2])]]


async def test_how_many_events_a_full_queue_lost_is_said_once(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_EVENTS_KEPT", 2)
    store = a_store()
    writer.gate.set()
    for number in range(5):
        store.tell(an_event(str(number)))
    for _ in range(2):
        await store.flush()
        store.tell(an_event("later"))

    said = [each for each in caplog.records if "dropped" in each.message]
    assert [getattr(each, "count", None) for each in said] == [3]


async def test_a_look_at_ten_thousand_new_topics_loses_no_event(writer: Writer) -> None:
    store = a_store()
    writer.gate.set()
    for number in range(30_000):
        store.tell(an_event(str(number)))
    await store.flush()

    assert len(writer.writes[0]) == 30_000


async def test_events_that_are_refused_wait_for_the_next_flush(writer: Writer) -> None:
    store = a_store()
    writer.gate.set()
    writer.refuses = True
    store.tell(an_event("first"))
    said = await store.flush()
    waited = store.waits.is_set()

    writer.refuses = False
    assert await store.flush() == ""

    assert "NOT_LEADER_OR_FOLLOWER" in said
    assert (waited, store.waits.is_set()) == (True, False)
    assert writer.writes == [[encode(an_event("first"))]]


async def test_an_event_that_is_told_during_a_write_waits_for_the_next_one(writer: Writer) -> None:
    store = a_store()
    store.tell(an_event("first"))

    async with asyncio.TaskGroup() as group:
        group.create_task(store.flush())
        await asyncio.sleep(0)
        store.tell(an_event("late"))
        writer.gate.set()

    assert (len(writer.writes), store.waits.is_set()) == (1, True)


def test_events_do_not_wait_as_long_for_their_topic_as_a_request_may(writer: Writer) -> None:
    a_store()
    assert writer.deadline_s == 5.0


def a_target(replicas: dict[str, int], live: int = 2) -> Cluster:
    """A cluster of three brokers with `live` of them up, and topics with so many replicas."""

    async def metadata(_: None) -> Metadata:
        topics = {
            name: TopicMeta(name, NO_TOPIC_ID, ErrorCode.NONE, False, {0: _partition(count)})
            for name, count in replicas.items()
        }
        brokers = {node: Broker(node, "h", 9092) for node in range(1, live + 1)}
        return Metadata(ClusterId("WEST-ID"), 1, brokers, topics)

    return cast("Cluster", SimpleNamespace(metadata=metadata))


def _partition(count: int) -> PartitionMeta:
    nodes = tuple(range(1, count + 1))
    return PartitionMeta(1, 0, nodes, nodes, (), ErrorCode.NONE)


async def test_control_topics_that_are_made_while_a_broker_is_down_get_all_their_replicas(
    writer: Writer,
) -> None:
    store = Store(a_target({"__consumer_offsets": 3}), FleetName("west"), HandClock())

    missing, _ = await store.wanted_topics(2)

    assert {spec.replication_factor for spec in missing} == {3}
    assert {spec.configs["min.insync.replicas"] for spec in missing} == {"2"}


@pytest.mark.parametrize(
    ("replicas", "live", "said"),
    [(3, 2, "three copies"), (2, 3, "two copies"), (1, 3, "one copy")],
)
async def test_durability_is_that_of_the_topics_that_are_there(
    writer: Writer, replicas: int, live: int, said: str
) -> None:
    fleet = FleetName("west")
    names = [spec.name for spec in control_topics(fleet, slots=1, replication_factor=1)]
    store = Store(a_target(dict.fromkeys(names, replicas), live), fleet, HandClock())

    missing, _ = await store.wanted_topics(1)

    assert (missing, store.durability.startswith(said)) == ([], True)


async def test_replicas_that_too_few_brokers_give_now_are_asked_for_again(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def create(_: Cluster, topics: Sequence[NewTopic]) -> dict[str, BrokerError]:
        code = ErrorCode.INVALID_REPLICATION_FACTOR
        return {topic.name: BrokerError(code, topic.name) for topic in topics}

    monkeypatch.setattr(module, "create_topics", create)
    store = Store(a_target({"__consumer_offsets": 3}), FleetName("west"), HandClock())

    with pytest.raises(BrokerError) as caught:
        await store.ensure_topics(1)

    assert caught.value.retriable


@pytest.mark.parametrize(
    ("gone", "made"),
    [
        ({"positions", "segments"}, ["positions", "segments"]),
        ({"catalog", "registry"}, []),
        ({"catalog", "slots"}, ["slots"]),
        (set(), []),
    ],
)
async def test_what_is_deleted_of_the_control_topics_is_made_again_but_what_only_people_can_judge(
    gone: set[str], made: list[str], writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = FleetName("west")
    specs = control_topics(fleet, slots=1, replication_factor=1)
    there = {spec.name: 1 for spec in specs if spec.name.rpartition(".")[2] not in gone}
    cluster = a_target(there)
    seen = cluster.metadata

    async def metadata(names: tuple[str, ...] | None) -> Metadata:
        found = await seen(None)
        absent = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        missing = {n: TopicMeta(n, NO_TOPIC_ID, absent, False, {}) for n in names or ()}
        return found._replace(topics={**missing, **found.topics})

    async def create(_: Cluster, topics: Sequence[NewTopic]) -> dict[str, BrokerError | None]:
        return {topic.name: None for topic in topics}

    monkeypatch.setattr(cluster, "metadata", metadata)
    monkeypatch.setattr(module, "create_topics", create)

    names = await Store(cluster, fleet, HandClock()).mend_topics(1)

    assert [name.rpartition(".")[2] for name in names] == made


GONE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def without_catalog(topics: Sequence[str] | None) -> Metadata:
    """What a broker says of a target whose catalog is not there, or not known to it."""
    found = {name: TopicMeta(name, NO_TOPIC_ID, GONE, False, {}) for name in topics or ()}
    return Metadata(ClusterId("WEST-ID"), 1, {1: Broker(1, "h", 9092)}, found)


def a_catalog() -> CatalogBook:
    book = CatalogBook()
    book.learn(CatalogConfig(generation=4, format_level=FIRST_LEVEL))
    return book


def a_store_without_catalog() -> Store:
    cluster = SimpleNamespace(metadata=without_catalog)
    return Store(cast("Cluster", cluster), FleetName("west"), HandClock())


async def test_who_takes_the_id_after_the_catalog_was_deleted_knows_none(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def take() -> None:
        pass

    store = a_store_without_catalog()
    store.book = a_catalog()
    await store.refresh()
    while_active = store.book.config
    monkeypatch.setattr(store._fenced, "take", take)

    await store.take()
    await store.refresh()

    assert while_active is not None
    assert store.book.is_same_as(CatalogBook())


@pytest.mark.parametrize(
    ("end", "raised"),
    [
        (ListedOffset(0, -1, 0), None),
        (ListedOffset(7, -1, 0), OutdatedError),
        (BrokerError(GONE, "catalog"), BrokerError),
    ],
    ids=["made now", "there all the time", "not shown"],
)
async def test_a_catalog_that_a_broker_did_not_know_is_no_empty_one_unless_it_is_empty(
    *,
    end: ListedOffset | BrokerError,
    raised: type[MirrorfleetError] | None,
    writer: Writer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def list_offsets(
        _: Cluster, asked: dict[TopicPartition, object], *, deadline_s: float
    ) -> dict[TopicPartition, ListedOffset | BrokerError]:
        assert deadline_s == 5.0
        return dict.fromkeys(asked, end)

    async def read(_: int) -> CatalogBook:
        return a_catalog()

    store = a_store_without_catalog()
    monkeypatch.setattr(module, "list_offsets", list_offsets)
    monkeypatch.setattr(store, "_read", read)
    await store.refresh()

    with pytest.raises(raised) if raised else nullcontext():
        await store.check_made()


@pytest.mark.parametrize("known", [True, False])
async def test_no_catalog_is_made_in_the_place_of_one_that_was_read(
    *, known: bool, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: set[str] = set()

    async def create(_: Cluster, topics: Sequence[NewTopic]) -> dict[str, BrokerError | None]:
        made.update(topic.name for topic in topics)
        return {topic.name: None for topic in topics}

    monkeypatch.setattr(module, "create_topics", create)
    store = a_store_without_catalog()
    store.book = a_catalog() if known else CatalogBook()

    await store.ensure_topics(1)

    assert ("__mirrorfleet.west.catalog" in made) is not known
    assert "__mirrorfleet.west.slots" in made


def test_a_new_fleet_begins_at_the_newest_format_and_one_that_has_a_catalog_keeps_its_own() -> None:
    store = a_store()
    assert store.level == KNOWN_LEVEL
    store.book.learn(CatalogConfig(generation=4, format_level=FIRST_LEVEL))
    assert store.level == FIRST_LEVEL


async def test_a_fleet_of_many_slots_asks_for_no_more_than_a_controller_makes_at_once(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[list[str]] = []
    grown: list[list[str]] = []

    async def create(_: Cluster, topics: Sequence[NewTopic]) -> dict[str, BrokerError | None]:
        made.append([topic.name for topic in topics])
        return {topic.name: None for topic in topics}

    async def grow(_: Cluster, counts: dict[str, int]) -> dict[str, BrokerError | None]:
        grown.append(list(counts))
        return dict.fromkeys(counts)

    monkeypatch.setattr(module, "create_topics", create)
    monkeypatch.setattr(module, "create_partitions", grow)
    fleet = FleetName("west")
    names = {spec.name for spec in control_topics(fleet, slots=4_000, replication_factor=1)}
    await Store(a_target({"other": 1}), fleet, HandClock()).ensure_topics(4_000)
    there = dict.fromkeys(sorted(names), 1)
    await Store(a_target(there), fleet, HandClock()).ensure_topics(4_000)

    assert {name for some in made for name in some} == names
    assert len(made) > 2
    assert len(grown) > 2
