"""Which partitions are read apart from the live tail, as far as answers tell."""

from __future__ import annotations

from mirrorfleet.copying.backlog import MUCH, Backlog
from mirrorfleet.copying.partition import CopyPartition, Pace, SourceEnds
from mirrorfleet.core.ids import SourceOffset
from tests.unit.copying.making import entry, identity, slot


def at(partition: CopyPartition, offset: int, end: int) -> CopyPartition:
    partition.walked_to, partition.source = SourceOffset(offset), SourceEnds(end, end, 0)
    return partition


def two() -> tuple[CopyPartition, CopyPartition]:
    made = slot(entry(0), entry(1))
    return made.partitions[identity(0)], made.partitions[identity(1)]


def test_what_takes_several_answers_anyway_catches_up_at_once_and_no_less_does() -> None:
    paces = []
    for left in (MUCH // 1_000 - 10, MUCH // 1_000 + 10):
        first, _ = two()
        Backlog().judge(at(first, 100, 100 + left), offsets=100, answer_bytes=100_000)
        paces.append(first.pace)
    assert paces == [Pace.LIVE, Pace.CATCH_UP]


def test_one_for_which_an_answer_had_no_room_is_judged_by_what_offsets_of_others_take() -> None:
    first, second = two()
    backlog = Backlog()

    backlog.judge(at(second, 0, 50_000), offsets=0, answer_bytes=0)
    unknown = second.pace
    backlog.judge(at(first, 100, 50_000), offsets=100, answer_bytes=100_000)
    backlog.judge(second, offsets=0, answer_bytes=0)

    assert (unknown, second.pace, second.behind) == (Pace.LIVE, Pace.CATCH_UP, 0)


def test_more_behind_three_answers_in_a_row_is_a_backlog_and_at_the_end_there_is_none() -> None:
    first, _ = two()
    backlog = Backlog()
    paces = []
    for offset, end in [(10, 20), (20, 20), (30, 40), (40, 50), (50, 60), (60, 60)]:
        backlog.judge(at(first, offset, end), offsets=10, answer_bytes=1_000)
        paces.append(first.pace)
    assert paces == [Pace.LIVE] * 4 + [Pace.CATCH_UP, Pace.LIVE]


def test_empty_answers_are_no_sign_of_a_backlog() -> None:
    """What is behind may wait for a marker, and comes to nobody."""
    first, _ = two()
    backlog = Backlog()
    for _ in range(5):
        backlog.judge(at(first, 10, 20), offsets=0, answer_bytes=0)
    assert first.pace is Pace.LIVE
