"""Numbers of a topic: none for want of a part, and how many parts are wanting."""

from __future__ import annotations

from dataclasses import replace

from mirrorfleet.lagging import topics
from mirrorfleet.lagging.partition import PartitionLag
from mirrorfleet.lagging.verdict import Limits
from mirrorfleet.records.catalog import CatalogState
from tests.unit.lagging.making import entry, said

NOW_MS = 20_000
TOPIC = ("east->west", "orders")


def parts(*positions: int) -> list[PartitionLag]:
    """Partitions of a topic whose source ends at 1,000, judged; not seen where it is negative."""
    made = [PartitionLag(entry(number)) for number in range(len(positions))]
    for lag, at in zip(made, positions, strict=True):
        if at >= 0:
            lag.end_seen(0, NOW_MS - 2_000)
            lag.end_seen(1_000, NOW_MS)
        partition = lag.entry.identity.partition
        lag.reported(said(max(at, 0), partition=partition, moved_ms=NOW_MS), NOW_MS, NOW_MS)
        lag.look(NOW_MS, Limits())
    return made


def test_all_of_a_topic_are_added_up_and_the_latest_counts() -> None:
    of = parts(1_000, 700, 400)

    assert topics.by_topic(of) == {TOPIC: of}
    assert (topics.offsets(of), topics.offsets_unknown(of)) == (900.0, 0.0)
    assert topics.longest_s(of) is not None
    assert topics.time_unknown(of) == 0.0


def test_one_that_is_not_known_leaves_no_sum_and_is_counted() -> None:
    of = parts(1_000, -1, -1)

    assert (topics.offsets(of), topics.offsets_unknown(of)) == (None, 2.0)
    assert (topics.longest_s(of), topics.time_unknown(of)) == (None, 2.0)
    assert topics.eta_s(of) is None


def test_one_that_was_not_judged_yet_is_not_known() -> None:
    of = [*parts(400), PartitionLag(entry(1))]

    assert topics.by_topic(of) == {TOPIC: of}
    assert (topics.offsets(of), topics.offsets_unknown(of)) == (None, 1.0)
    assert topics.eta_s(of) is None


def test_a_late_one_is_told_though_another_is_not_known() -> None:
    late = parts(400)
    alone = topics.longest_s(late)

    assert alone is not None
    assert alone > 0
    assert topics.longest_s([*late, *parts(-1)]) == alone


def test_what_an_operator_has_paused_is_neither_late_nor_unknown() -> None:
    of = parts(1_000, 400, -1)
    for lag in of[1:]:
        lag.entry = replace(lag.entry, state=CatalogState.PAUSED)

    assert (topics.offsets(of), topics.offsets_unknown(of)) == (0.0, 0.0)
    assert (topics.longest_s(of), topics.time_unknown(of)) == (0.0, 0.0)
    assert topics.eta_s(of) == 0.0
    assert topics.eta_s(of[1:]) == 0.0
