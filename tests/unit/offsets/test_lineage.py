"""Two incarnations of the same topics: which of the two maps answers, on both ways.

source   0 .. 10 .. 20   was copied to   0 .. 20; then 10 .. 20 was another history
source       10 .. 30    was copied to       25 .. 45
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.ids import SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.catalog import CatalogLoss
from mirrorfleet.records.segments import Run
from tests.unit.copying.making import entry, identity

HERE, THERE = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
SECOND = replace(identity(), incarnation=1)


def run(first: int, end: int, target: int) -> Run:
    return Run(SourceOffset(first), SourceOffset(end), TargetOffset(target))


def copies(cause: str) -> Copies:
    index = OffsetIndex()
    index.add(identity(), [run(0, 20, 0)])
    index.add(SECOND, [run(10, 30, 25)])
    loss = CatalogLoss(cause=cause, first=10, end=20)
    return Copies([entry(identity=SECOND, loss=loss)], index)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(0, 0), (9, 9), (10, 25), (15, 30), (29, 44), (30, 45)],
)
def test_below_where_histories_part_the_former_map_answers(asked: int, answer: int) -> None:
    found = copies("source-truncated").to_target(HERE, asked)

    assert found is not None
    assert found.offset == answer


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(0, 0), (9, 9), (10, 10), (19, 10), (24, 10), (25, 10), (44, 29), (45, 30)],
)
def test_what_only_the_former_history_had_leads_back_to_where_they_part(
    asked: int, answer: int
) -> None:
    found = copies("source-truncated").to_source(THERE, asked)

    assert found is not None
    assert found.offset == answer


def test_the_map_of_another_topic_of_the_name_answers_nothing() -> None:
    found = copies("source-recreated").to_target(HERE, 3)

    assert found is not None
    assert (found.offset, found.found) == (25, "before-copy")


def test_a_hole_up_to_where_histories_part_leads_into_the_new_one() -> None:
    index = OffsetIndex()
    index.add(identity(), [run(0, 8, 0), run(12, 20, 8)])
    index.add(SECOND, [run(10, 30, 25)])
    loss = CatalogLoss(cause="target-truncated", first=10, end=20)

    found = Copies([entry(identity=SECOND, loss=loss)], index).to_target(HERE, 9)

    assert found is not None
    assert found.offset == 25
