"""What `inspect` shows: of which topic, and how much of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import NO_TOPIC_ID
from mirrorfleet.kafka import browsing
from mirrorfleet.kafka.browsing import Show, Wanted, stored_rows
from mirrorfleet.kafka.metadata import PartitionMeta, TopicMeta
from mirrorfleet.kafka.stored import StoredBatch
from mirrorfleet.wire.decided import decided
from tests.unit.wire.batches import batch_of, some

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from mirrorfleet.kafka.cluster import Cluster

OURS, REFUSED, UNKNOWN = (
    ErrorCode.NONE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class World:
    """A cluster that answers for each name with an error; logs of batches of one record."""

    name = "east"

    def __init__(self, partitions: int = 2, **answers: ErrorCode) -> None:
        leader = PartitionMeta(1, 0, (1,), (1,), (), ErrorCode.NONE)
        self.bounds = dict.fromkeys(range(partitions), (0, 5))
        self.topics = {
            name.replace("_", "-"): TopicMeta(
                name.replace("_", "-"),
                NO_TOPIC_ID,
                error,
                False,
                dict.fromkeys(self.bounds, leader),
            )
            for name, error in answers.items()
        }

    async def metadata(self, _: Sequence[str]) -> SimpleNamespace:
        return SimpleNamespace(topics=self.topics)

    async def topic(self, name: str) -> TopicMeta:
        if self.topics[name].error is not ErrorCode.NONE:
            raise BrokerError(self.topics[name].error, f"east: topic {name}")
        return self.topics[name]

    async def partition_bounds(self, *_: object) -> dict[int, tuple[int, int]]:
        return self.bounds

    async def stored_batches(
        self, _: object, __: object, ___: int, start: int, end: int
    ) -> AsyncIterator[StoredBatch]:
        for at in range(start, end):
            buffer = batch_of(some(1, first=at))
            for one in decided(buffer, 0, len(buffer), [], at):
                yield StoredBatch(*one, buffer)

    async def shown(
        self,
        patched: pytest.MonkeyPatch,
        asked: str = "orders",
        *,
        start: int | None = None,
        limit: int = 2,
    ) -> list[tuple[object, object]]:
        """Partition and first offset of each row."""
        for name in ("partition_bounds", "stored_batches"):
            patched.setattr(browsing, name, getattr(self, name))
        wanted = Wanted(asked, start, limit, Show.HEADERS)
        rows = await stored_rows(cast("Cluster", self), wanted)
        return [(row["partition"], row["first"]) for row in rows]


@pytest.mark.parametrize("whole", [UNKNOWN, REFUSED])
async def test_a_partition_is_found_whether_the_whole_name_is_unknown_or_not_ours_to_see(
    whole: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(orders_0=whole, orders=OURS)

    assert await world.shown(monkeypatch, "orders-0") == [(0, 3), (0, 4)]


@pytest.mark.parametrize("shorter", [OURS, UNKNOWN, REFUSED])
async def test_a_topic_whose_name_is_all_of_it_wins(
    shorter: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(partitions=1, orders_1=OURS, orders=shorter)

    assert await world.shown(monkeypatch, "orders-1") == [(0, 3), (0, 4)]


@pytest.mark.parametrize(
    ("whole", "shorter"), [(REFUSED, REFUSED), (UNKNOWN, REFUSED), (REFUSED, UNKNOWN)]
)
async def test_a_topic_that_we_see_under_neither_name_is_refused_with_what_to_check(
    whole: ErrorCode, shorter: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(orders_0=whole, orders=shorter)

    with pytest.raises(BrokerError, match=r"east: topic orders-0: .* we may DESCRIBE it") as caught:
        await world.shown(monkeypatch, "orders-0")

    assert caught.value.code is shorter


async def test_a_topic_that_we_may_not_describe_is_refused_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(BrokerError, match="east: topic orders: TOPIC_AUTHORIZATION_FAILED"):
        await World(orders=REFUSED).shown(monkeypatch)


@pytest.mark.parametrize(
    ("start", "of_each"), [(None, [3, 4]), (1, [1, 2]), (4, [4])], ids=["last", "first", "few"]
)
async def test_of_each_partition_as_much_is_shown_as_was_asked_for(
    start: int | None, of_each: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = await World(partitions=3, orders=OURS).shown(monkeypatch, start=start)

    assert shown == [(number, first) for number in range(3) for first in of_each]


async def test_a_partition_that_is_full_hides_none_that_is_empty_or_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(partitions=3, orders=OURS)
    world.bounds[1] = (5, 5)

    assert await world.shown(monkeypatch) == [(0, 3), (0, 4), (2, 3), (2, 4)]


@pytest.mark.parametrize(("start", "offsets"), [(5, [5, 6]), (None, [8, 9])])
async def test_records_are_shown_from_the_one_that_was_asked_for_not_from_that_of_its_batch(
    start: int | None, offsets: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(partitions=1, orders=OURS)
    world.bounds[0] = (0, 10)

    async def one_batch(*_: object) -> AsyncIterator[StoredBatch]:
        buffer = batch_of(some(10, first=0))
        for one in decided(buffer, 0, len(buffer), [], 0):
            yield StoredBatch(*one, buffer)

    monkeypatch.setattr(browsing, "partition_bounds", world.partition_bounds)
    monkeypatch.setattr(browsing, "stored_batches", one_batch)
    wanted = Wanted("orders", start, 2, Show.RECORDS)

    rows = await stored_rows(cast("Cluster", world), wanted)

    assert [row["offset"] for row in rows] == offsets
