"""Looking at many ends: what gives no answer is asked apart, and does not make the others old."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.offsets import ListedOffset, OffsetSpec
from mirrorfleet.watching import ends
from mirrorfleet.watching.ends import EndsWatch

GOOD, BAD = TopicPartition("orders", 0), TopicPartition("gone", 0)
Answers = dict[TopicPartition, ListedOffset | BrokerError]


class Source:
    """What the leaders answer, and what they were asked."""

    def __init__(self) -> None:
        self.ends: Answers = {GOOD: ListedOffset(10, -1, 0), BAD: _unknown()}
        self.asked: list[list[TopicPartition]] = []
        self.now = 0
        self.leaders_ms = 0
        self.seconds = 0.0
        self.forgotten: list[str] = []

    def now_ms(self) -> int:
        self.now += 100
        return self.now

    def monotonic(self) -> float:
        return self.seconds

    def forget_leaders(self, topic: str) -> None:
        self.forgotten.append(topic)

    async def leaders(self, *_: object, **__: object) -> None:
        """From memory, the second time."""
        self.now, self.leaders_ms = self.now + self.leaders_ms, 0

    async def list_offsets(
        self, _: Cluster, wanted: Mapping[TopicPartition, OffsetSpec], **__: object
    ) -> Answers:
        await self.leaders()
        self.asked.append(list(wanted))
        return {tp: self.ends[tp] for tp in wanted}


def _unknown() -> BrokerError:
    return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone-0")


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    made = Source()
    monkeypatch.setattr(ends, "list_offsets", made.list_offsets)
    return made


async def test_a_partition_without_an_answer_is_asked_apart_until_it_answers(
    source: Source,
) -> None:
    seen: list[tuple[TopicPartition, int, int]] = []
    watch = EndsWatch(cast("Cluster", source), source, lambda *found: seen.append(found))

    assert await watch.look([GOOD, BAD]) == 1
    assert await watch.look([GOOD, BAD]) == 1
    assert await watch.look_at_refused() == 0
    source.ends[BAD] = ListedOffset(7, -1, 0)
    assert await watch.look_at_refused() == 1
    assert await watch.look([GOOD, BAD]) == 2

    assert source.asked == [[GOOD, BAD], [GOOD], [BAD], [BAD], [GOOD, BAD]]
    # the moment between question and answer
    assert seen[0] == (GOOD, 10, 150)
    assert (BAD, 7, 750) in seen


async def test_a_leader_that_its_cluster_lost_is_not_believed_for_ever(source: Source) -> None:
    watch = EndsWatch(cast("Cluster", source), source, lambda *_: None)

    for source.seconds in (5.0, 34.0, 36.0, 60.0):
        await watch.look([GOOD])

    assert source.forgotten == ["orders", "orders"]


async def test_a_partition_that_is_wanted_no_more_is_forgotten(source: Source) -> None:
    watch = EndsWatch(cast("Cluster", source), source, lambda *_: None)
    await watch.look([GOOD, BAD])

    await watch.look([GOOD])

    assert watch.refused == {}
    assert await watch.look_at_refused() == 0


async def test_the_time_that_it_takes_to_find_leaders_does_not_make_the_ends_older(
    source: Source,
) -> None:
    seen: list[tuple[TopicPartition, int, int]] = []
    watch = EndsWatch(cast("Cluster", source), source, lambda *found: seen.append(found))
    source.leaders_ms = 2_000

    await watch.look([GOOD])

    assert seen == [(GOOD, 10, 2_150)]
