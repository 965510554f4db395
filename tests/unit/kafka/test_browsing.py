"""What `inspect` shows: of which topic, and how much of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import NO_TOPIC_ID, TopicPartition
from mirrorfleet.kafka import browsing
from mirrorfleet.kafka.browsing import Show, Stored, Wanted, stored_rows
from mirrorfleet.kafka.metadata import PartitionMeta, TopicMeta
from mirrorfleet.kafka.offsets import ListedOffset
from mirrorfleet.kafka.stored import StoredBatch
from mirrorfleet.wire.decided import decided
from mirrorfleet.wire.k01_fetch import Isolation
from tests.unit.wire.batches import batch_of, some

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Sequence

    from mirrorfleet.kafka.cluster import Cluster

OURS, REFUSED, UNKNOWN, TOO_LONG = (
    ErrorCode.NONE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
)
AWAY = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, "ListOffsets of orders-1")


class World:
    """A cluster that answers for each name with an error; logs of batches of `size` records."""

    name = "east"

    def __init__(self, partitions: int = 2, **answers: ErrorCode) -> None:
        leader = PartitionMeta(1, 0, (1,), (1,), (), ErrorCode.NONE)
        self.bounds: dict[int, tuple[int, int] | BrokerError] = {}
        self.bounds.update(dict.fromkeys(range(partitions), (0, 5)))
        self.size, self.held = 1, dict[int, int]()
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

    async def bounds_that_are_told(
        self, _: object, __: object, numbers: Collection[int], **___: object
    ) -> dict[int, tuple[int, int] | BrokerError]:
        return {number: self.bounds[number] for number in numbers}

    async def list_offsets(
        self,
        _: object,
        wanted: Collection[TopicPartition],
        *,
        isolation: Isolation,
        deadline_s: float | None,
    ) -> dict[TopicPartition, ListedOffset | BrokerError]:
        del deadline_s
        assert isolation is Isolation.READ_UNCOMMITTED
        found: dict[TopicPartition, ListedOffset | BrokerError] = {}
        for tp in wanted:
            bounds = self.bounds[tp.partition]
            if isinstance(bounds, BrokerError):
                found[tp] = bounds
            else:
                found[tp] = ListedOffset(bounds[1] + self.held.get(tp.partition, 0), 0, 0)
        return found

    async def stored_batches(
        self, _: object, __: object, ___: int, start: int, end: int
    ) -> AsyncIterator[StoredBatch]:
        for at in range(start - start % self.size, end, self.size):
            buffer = batch_of(some(self.size, first=at))
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
        found = await self.stored(patched, Wanted(asked, start, limit, Show.HEADERS))
        return [(row["partition"], row["first"]) for row in found.rows]

    async def stored(self, patched: pytest.MonkeyPatch, wanted: Wanted) -> Stored:
        for name in ("bounds_that_are_told", "list_offsets", "stored_batches"):
            patched.setattr(browsing, name, getattr(self, name))
        return await stored_rows(cast("Cluster", self), wanted)


@pytest.mark.parametrize("whole", [UNKNOWN, REFUSED, TOO_LONG])
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
    world.bounds[0], world.size = (0, 10), 10

    found = await world.stored(monkeypatch, Wanted("orders", start, 2, Show.RECORDS))

    assert [row["offset"] for row in found.rows] == offsets


@pytest.mark.parametrize(("limit", "firsts"), [(2, [980, 990]), (200, [*range(0, 1_000, 10)])])
async def test_as_many_batches_are_shown_as_were_asked_for_however_many_records_they_have(
    limit: int, firsts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(partitions=1, orders=OURS)
    world.bounds[0], world.size = (0, 1_000), 10

    shown = await world.shown(monkeypatch, limit=limit)

    assert [first for _, first in shown] == firsts


async def test_what_open_transactions_hold_back_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(partitions=2, orders=OURS)
    world.bounds[1], world.held[1] = (4, 4), 3

    found = await world.stored(monkeypatch, Wanted("orders", None, 2, Show.HEADERS))

    assert {row["partition"] for row in found.rows} == {0}
    assert found.held == {1: (4, 7)}


async def test_a_partition_that_nobody_leads_keeps_no_other_from_view(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(partitions=3, orders=OURS, orders_0=UNKNOWN, orders_1=UNKNOWN)
    world.bounds[1] = AWAY

    found = await world.stored(monkeypatch, Wanted("orders", None, 2, Show.HEADERS))
    assert [row["partition"] for row in found.rows] == [0, 0, 2, 2]
    assert found.unread == {1: AWAY}

    assert await world.shown(monkeypatch, "orders-0") == [(0, 3), (0, 4)]
    with pytest.raises(BrokerError, match="orders-1: LEADER_NOT_AVAILABLE"):
        await world.shown(monkeypatch, "orders-1")
