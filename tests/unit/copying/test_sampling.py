"""Which batches are traced, and which batch of ours the hop before means."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from mirrorfleet.copying.budget import FrameLease, MemoryBudget
from mirrorfleet.copying.partition import CopyPartition, Pace, Queued
from mirrorfleet.copying.sampling import (
    REMEMBERED,
    SENT_AT,
    WAITING_EACH,
    Copied,
    Joined,
    Joins,
    Raw,
    SampleBudget,
    Stamps,
    cooked,
    stamps_of,
)
from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.records.traces import SampledBatch
from mirrorfleet.wire.copybatch import CopyBatch
from tests.unit.copying.making import SOURCE_TOPIC, slot

SAID = SampledBatch(
    topic_id=SOURCE_TOPIC,
    partition=0,
    first=105,
    count=10,
    trace_id=1,
    span_id=2,
    committed_ms=3,
    hop=1,
)


def partition() -> CopyPartition:
    return next(iter(slot().partitions.values()))


def stamps(first: int, end: int) -> Stamps:
    return Stamps(
        first=SourceOffset(first),
        next_offset=SourceOffset(end),
        base=TargetOffset(first + 1_000),
        records=end - first,
        size=10,
        max_timestamp=0,
        pace=Pace.LIVE,
        asked_at=1.0,
        fetched_at=2.0,
        sent_at=3.0,
        acked_at=4.0,
    )


def copied(*ranges: tuple[int, int], of: CopyPartition | None = None) -> Copied:
    batches: list[Raw] = [stamps(first, end) for first, end in ranges]
    return Copied(of or partition(), batches, closing_at=5.0, committed_at=6.0)


def where(found: list[Joined]) -> list[tuple[int, int]]:
    """(first offset of our batch, offset that was announced)."""
    return [(each.stamps.first, each.before.first) for each in found]


def test_a_budget_gives_at_most_so_many_a_second_evenly() -> None:
    budget = SampleBudget(2)

    taken = [at for at in (0.0, 0.4, 0.5, 0.9, 1.0, 7.0, 7.1) if budget.take(at)]

    assert taken == [0.0, 0.5, 1.0, 7.0]


def test_a_budget_of_nothing_gives_nothing() -> None:
    budget = SampleBudget(0)

    assert not budget.take(1e9)
    assert budget.next_at == float("inf")


def test_stamps_keep_times_and_ranges_and_no_payload() -> None:
    batch = CopyBatch(
        payload=b"private",
        payload_crc=0,
        attributes=0,
        count=3,
        base_timestamp=7,
        max_timestamp=9,
        first=SourceOffset(10),
        next_offset=SourceOffset(14),
    )
    asked = FrameLease(MemoryBudget(100).account(), 10, asked_at=0.5)
    queued = Queued(batch, asked, fetched_at=1.0, pace=Pace.LIVE, sent_at=2.0)

    made = cooked(stamps_of(queued, 70, acked_at=3.0))

    assert made == (10, 14, 70, 3, 68, 9, "live", 0.5, 1.0, 2.0, 3.0)
    merged = replace(queued, lease=FrameLease(MemoryBudget(100).account(), 1))
    assert cooked(stamps_of(merged, 0, 3.0)).asked_at == 1.0
    assert made.sent_at == made[SENT_AT]


def test_an_announcement_after_the_copy_joins_the_batch_in_which_it_begins() -> None:
    joins = Joins()
    joins.copied(copied((100, 105), (105, 112), (112, 115)))

    assert where(joins.announced([SAID], 1.0)) == [(105, 105)]


def test_an_announcement_before_the_copy_waits_for_it() -> None:
    joins = Joins()

    assert joins.announced([SAID], 1.0) == []
    assert joins.copied(copied((90, 105))) == []
    assert where(joins.copied(copied((105, 300)))) == [(105, 105)]
    assert joins.copied(copied((300, 310))) == []


def test_an_announcement_that_is_repeated_is_no_news() -> None:
    joins = Joins()
    joins.copied(copied((100, 120)))
    joins.announced([SAID], 1.0)

    assert joins.announced([SAID, SAID], 1.5) == []


def test_another_partition_or_topic_is_not_joined() -> None:
    joins = Joins()
    joins.copied(copied((100, 120)))

    others = [
        replace(SAID, partition=1, span_id=3),
        replace(SAID, topic_id=UUID(int=99), span_id=4),
    ]

    assert joins.announced(others, 1.0) == []


def test_an_announcement_in_a_hole_between_batches_is_given_up() -> None:
    joins = Joins()
    joins.announced([SAID], 1.0)

    assert joins.copied(copied((100, 104), (110, 120))) == []
    assert not joins._waiting


def test_what_is_remembered_and_what_waits_is_bounded() -> None:
    joins = Joins()
    for number in range(REMEMBERED + 500):
        joins.copied(copied((1_000 + number, 1_001 + number)))
    many = [replace(SAID, first=10_000 + n, span_id=10 + n) for n in range(WAITING_EACH + 5)]

    assert joins.announced([replace(SAID, first=1_499)], 1.0) == []
    assert where(joins.announced([replace(SAID, first=1_500, span_id=3)], 1.0)) == [(1500, 1500)]
    joins.announced(many, 1.0)
    assert [each.first for each in joins._waiting[SOURCE_TOPIC, 0]] == list(range(10_005, 10_037))


def test_a_topic_is_left_to_the_hop_before_for_a_minute_after_it_spoke() -> None:
    joins = Joins()
    assert not joins.listening(0.0)

    joins.announced([SAID], 10.0)

    assert (joins.listening(69.0), joins.follows(SOURCE_TOPIC, 69.0)) == (True, True)
    assert (joins.listening(71.0), joins.follows(SOURCE_TOPIC, 71.0)) == (False, False)
    assert not joins.follows(UUID(int=99), 11.0)


def test_old_batches_are_wanted_only_where_an_announcement_waits_for_them() -> None:
    joins, here = Joins(), partition()

    assert joins.wants(here, Pace.LIVE)
    assert not joins.wants(here, Pace.CATCH_UP)
    joins.announced([replace(SAID, partition=9, span_id=5)], 1.0)
    assert not joins.wants(here, Pace.CATCH_UP)
    joins.announced([SAID], 1.0)
    assert joins.wants(here, Pace.CATCH_UP)
    joins.copied(copied((100, 120)))
    assert not joins.wants(here, Pace.CATCH_UP)
