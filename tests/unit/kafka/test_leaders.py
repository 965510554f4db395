"""The memory of leaders never goes back."""

from __future__ import annotations

from uuid import UUID

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.kafka.leaders import PUT_BACK_S, LeaderCache
from mirrorfleet.kafka.metadata import PartitionMeta, TopicMeta

ORDERS = UUID("00000000-0000-4000-8000-00000000000a")
NOW = 1_000.0
AGAIN = UUID("00000000-0000-4000-8000-00000000000b")


def topic(*leaders: tuple[int, int], topic_id: UUID = ORDERS) -> TopicMeta:
    """Partition n is led by `leaders[n]`: (node, epoch)."""
    partitions = {
        number: PartitionMeta(node, epoch, (1, 2), (1, 2), (), ErrorCode.NONE)
        for number, (node, epoch) in enumerate(leaders)
    }
    return TopicMeta("orders", topic_id, ErrorCode.NONE, False, partitions)


def remembered(cache: LeaderCache) -> list[tuple[int, int]]:
    known = cache.topic("orders")
    assert known is not None
    return [(p.leader, p.leader_epoch) for p in known.partitions.values()]


def test_a_broker_that_lags_behind_does_not_bring_an_old_leader_back() -> None:
    cache = LeaderCache()
    cache.learn([topic((1, 5), (2, 8))], NOW)
    cache.learn([topic((2, 4), (1, 9))], NOW)
    assert remembered(cache) == [(1, 5), (1, 9)]


def test_forgetting_asks_again_but_keeps_the_epochs_that_were_seen() -> None:
    cache = LeaderCache()
    cache.learn([topic((1, 5))], NOW)
    cache.forget("orders")
    assert cache.topic("orders") is None
    cache.learn([topic((2, 4))], NOW)
    assert remembered(cache) == [(1, 5)]


def test_a_recreated_topic_begins_at_epoch_0_again() -> None:
    cache = LeaderCache()
    cache.learn([topic((1, 5))], NOW)
    cache.learn([topic((2, 0), topic_id=AGAIN)], NOW)
    assert remembered(cache) == [(2, 0)]


def test_a_topic_that_is_gone_is_not_remembered() -> None:
    cache = LeaderCache()
    cache.learn([topic((1, 5))], NOW)
    gone = topic()._replace(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    cache.learn([gone], NOW)
    assert cache.topic("orders") is None


def test_a_topic_that_answers_about_all_have_lacked_for_long_is_not_remembered() -> None:
    cache = LeaderCache()
    cache.learn([topic((1, 5))], NOW)
    cache.keep_only(["orders"], NOW + 2 * PUT_BACK_S)
    cache.keep_only([], NOW + PUT_BACK_S - 1)
    assert remembered(cache) == [(1, 5)]  # a broker that was cut off may lack it
    cache.keep_only([], NOW + PUT_BACK_S)
    assert cache.topic("orders") is None
    cache.learn([topic((2, 4))], NOW + PUT_BACK_S)
    assert remembered(cache) == [(2, 4)]


def test_an_earlier_epoch_that_all_answers_have_is_that_of_a_cluster_put_back() -> None:
    cache = LeaderCache()
    cache.learn([topic((1, 5))], NOW)
    cache.learn([topic((2, 3))], NOW + PUT_BACK_S - 1)
    assert remembered(cache) == [(1, 5)]

    cache.learn([topic((2, 3))], NOW + PUT_BACK_S)
    assert remembered(cache) == [(2, 3)]
    cache.learn([topic((1, 2))], NOW + PUT_BACK_S + 1)
    assert remembered(cache) == [(2, 3)]


def test_a_later_epoch_that_is_told_now_and_then_stays() -> None:
    cache = LeaderCache()
    for at in range(0, 2_000, 100):
        told = (1, 5) if at % 200 else (2, 4)
        cache.learn([topic(told)], NOW + at)
        if at:
            assert remembered(cache) == [(1, 5)]
