from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import DataFrame, SparkSession

from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.offsets.packing import Full, plan_packing
from mirrorfleet.records import archive
from mirrorfleet.records.segments import Run, decode_segment
from spark.transforms import coding, compaction
from tests.spark.frames import ARCHIVE, SEGMENTS, frame, identity, plan, run, segment

FULL = Full(runs=4, weight=100)

Record = tuple[int, int, bytes, bytes | None]


class Fleet:
    """Both topics as lists; each step of the job is a method, so that a test can stop there."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.segments: list[tuple[int, int, bytes]] = []
        self.archive: list[Record] = []

    def commit(self, *values: bytes, slot: int = 0) -> None:
        for value in values:
            self.segments.append((slot, len(self.segments), value))

    def decoded(self) -> tuple[DataFrame, DataFrame]:
        return (
            compaction.segment_runs(frame(self.session, self.segments, SEGMENTS)),
            compaction.archive_runs(frame(self.session, self.archive, ARCHIVE)),
        )

    def blocks(self) -> list[tuple[int, bytes, bytes]]:
        packed = compaction.pack(*self.decoded(), full=FULL).collect()
        return sorted((row.slot, bytes(row.key), bytes(row.value)) for row in packed)

    def put(self, blocks: Sequence[tuple[int, bytes, bytes | None]]) -> None:
        for slot, key, value in blocks:
            self.archive.append((slot, len(self.archive), key, value))

    def unpacked(self) -> int:
        return len(compaction.unpacked(*self.decoded()).collect())

    def remove_covered(self) -> None:
        rows = compaction.covered(self.decoded()[1]).collect()
        self.put([(row.slot, bytes(row.key), None) for row in rows])

    def compact(self) -> None:
        self.put(self.blocks())
        assert self.unpacked() == 0
        self.segments.clear()
        self.remove_covered()

    def live(self) -> dict[tuple[int, bytes], bytes]:
        found: dict[tuple[int, bytes], bytes] = {}
        for slot, _, key, value in self.archive:
            if value is None:
                found.pop((slot, key), None)
            else:
                found[slot, key] = value
        return found


@pytest.fixture
def fleet(session: SparkSession) -> Fleet:
    return Fleet(session)


def runs(first: int, count: int) -> list[Run]:
    """Runs of ten records, each behind a marker on the target side."""
    return [run(n * 10, n * 11, 10, crc=n) for n in range(first, first + count)]


def commit_each(fleet: Fleet, some: Sequence[Run]) -> None:
    fleet.commit(*(segment(one) for one in some))


def test_nothing_to_pack_gives_no_blocks(fleet: Fleet) -> None:
    assert fleet.blocks() == []
    assert fleet.unpacked() == 0


def test_runs_are_packed_by_partition_in_order_whatever_order_they_came_in(fleet: Fleet) -> None:
    late, early = runs(0, 2)
    fleet.commit(segment(early), segment(run(0, 0, 3), partition=1), segment(late))

    packed = {(slot, key): value for slot, key, value in fleet.blocks()}

    expected = [
        archive.encode(archive.Block(identity(0), (late, early))),
        archive.encode(archive.Block(identity(1), (run(0, 0, 3),))),
    ]
    assert packed == {(0, key): value for key, value in expected}


def test_a_run_with_holes_and_several_payloads_is_packed_whole(fleet: Fleet) -> None:
    holed = Run(
        SourceOffset(5),
        SourceOffset(20),
        TargetOffset(3),
        ((SourceOffset(7), 2), (SourceOffset(19), 1)),
        ((4, 0xFFFFFFFF), (8, 0)),
    )
    fleet.commit(segment(holed))

    assert fleet.blocks() == [(0, *archive.encode(archive.Block(identity(), (holed,))))]


def test_a_run_that_two_records_hold_is_packed_once(fleet: Fleet) -> None:
    commit_each(fleet, [*runs(0, 2), *runs(0, 2)])

    assert fleet.blocks() == [
        (0, *archive.encode(archive.Block(identity(), tuple(runs(0, 2))))),
    ]


def test_a_full_block_is_left_alone(fleet: Fleet) -> None:
    fleet.put([(0, *archive.encode(archive.Block(identity(), tuple(runs(0, 4)))))])
    commit_each(fleet, runs(4, 1))

    assert [key for _, key, _ in fleet.blocks()] == [
        archive.encode(archive.Block(identity(), tuple(runs(4, 1))))[0]
    ]


def test_a_block_never_reaches_over_runs_that_another_block_holds(fleet: Fleet) -> None:
    fleet.put([(0, *archive.encode(archive.Block(identity(), tuple(runs(1, 4)))))])
    commit_each(fleet, [*runs(0, 1), *runs(5, 1)])

    keys = [archive.decode_key(key) for _, key, _ in fleet.blocks()]

    assert sorted((key.first, key.end) for key in keys) == [(0, 10), (55, 65)]


def test_a_partition_that_changed_its_slot_has_blocks_in_both(fleet: Fleet) -> None:
    commit_each(fleet, runs(0, 1))
    fleet.commit(segment(*runs(1, 1), slot=5), slot=5)

    keys = [(slot, archive.decode_key(key).first) for slot, key, _ in fleet.blocks()]

    assert keys == [(0, 0), (5, 11)]


def test_a_block_of_many_payloads_is_full_before_it_has_many_runs(fleet: Fleet) -> None:
    many = [
        Run(
            SourceOffset(n * 60),
            SourceOffset(n * 60 + 60),
            TargetOffset(n * 60),
            (),
            ((1, n),) * 60,
        )
        for n in range(3)
    ]
    commit_each(fleet, many)

    keys = [archive.decode_key(key) for _, key, _ in fleet.blocks()]

    assert [(key.first, key.end) for key in keys] == [(0, 120), (120, 180)]


def test_both_packers_write_the_same_blocks(fleet: Fleet) -> None:
    known = archive.Block(identity(), tuple(runs(0, 2)))
    fleet.put([(0, *archive.encode(known))])
    commit_each(fleet, runs(2, 4))
    segments = [decode_segment(value) for _, _, value in fleet.segments]

    wanted = plan_packing({known.key: archive.encode(known)[1]}, segments, full=FULL)

    assert fleet.blocks() == [(0, *archive.encode(block)) for block in wanted.write]


def prepared(session: SparkSession) -> Fleet:
    """An open block of two runs in the archive, seven new runs in the segments."""
    fleet = Fleet(session)
    fleet.put([(0, *archive.encode(archive.Block(identity(), tuple(runs(0, 2)))))])
    commit_each(fleet, runs(2, 7))
    return fleet


@pytest.fixture(scope="module")
def uninterrupted(session: SparkSession) -> dict[tuple[int, bytes], bytes]:
    fleet = prepared(session)
    fleet.compact()
    return fleet.live()


def test_an_uninterrupted_run_leaves_full_blocks_and_one_that_is_open(
    uninterrupted: dict[tuple[int, bytes], bytes],
) -> None:
    expected = [runs(0, 4), runs(4, 4), runs(8, 1)]

    assert uninterrupted == {
        (0, key): value
        for key, value in (
            archive.encode(archive.Block(identity(), tuple(some))) for some in expected
        )
    }


@pytest.mark.parametrize("written", [[1], [0, 2]], ids=str)
def test_a_run_killed_while_it_wrote_and_run_again_ends_in_the_same(
    session: SparkSession,
    written: list[int],
    uninterrupted: dict[tuple[int, bytes], bytes],
) -> None:
    killed = prepared(session)
    blocks = sorted(uninterrupted)
    killed.put([(*blocks[n], uninterrupted[blocks[n]]) for n in written])

    killed.compact()

    assert killed.live() == uninterrupted


def test_a_run_killed_after_it_freed_and_run_again_ends_in_the_same(
    session: SparkSession, uninterrupted: dict[tuple[int, bytes], bytes]
) -> None:
    killed = prepared(session)
    killed.put([(*place, value) for place, value in uninterrupted.items()])
    killed.segments.clear()

    killed.compact()

    assert killed.live() == uninterrupted


def test_what_was_not_read_back_is_named(fleet: Fleet) -> None:
    commit_each(fleet, runs(0, 2))
    fleet.put(fleet.blocks())
    commit_each(fleet, runs(2, 1))

    (row,) = compaction.unpacked(*fleet.decoded()).collect()

    assert (row.source_start, row.target_start, row.target_end) == (20, 22, 32)


def test_a_record_of_an_unknown_version_is_a_problem_and_no_row(fleet: Fleet) -> None:
    fleet.commit(bytes([99]) + segment(*runs(0, 1))[1:], segment(*runs(0, 1)))

    (problem,) = compaction.problems(fleet.decoded()[0]).collect()

    assert problem.slot == 0
    assert problem.problem.startswith("segments, partition 0, offset 0: segment: version 99")
    assert len(fleet.blocks()) == 1


def test_a_segment_that_contradicts_the_archive_is_told(fleet: Fleet) -> None:
    fleet.put([(0, *archive.encode(archive.Block(identity(), tuple(runs(0, 2)))))])
    commit_each(fleet, [run(999, 11, 10), *runs(0, 1)])

    rows = compaction.disagreements(*fleet.decoded()).collect()

    assert [(row.slot, row.target_start) for row in rows] == [(0, 11)]


def test_a_segment_that_goes_back_on_the_source_is_told(fleet: Fleet) -> None:
    """As one of an aborted transaction, whose records were appended once more behind it."""
    commit_each(fleet, [run(0, 0, 3), run(3, 4, 2), run(3, 8, 4), run(7, 13, 2)])

    rows = compaction.disagreements(*fleet.decoded()).collect()

    assert [(row.slot, row.target_start) for row in rows] == [(0, 8)]


def test_a_partition_that_contradicts_itself_is_told_with_every_slot_that_has_runs_of_it(
    fleet: Fleet,
) -> None:
    fleet.put([(5, *archive.encode(archive.Block(identity(), tuple(runs(0, 2)))))])
    commit_each(fleet, [run(3, 40, 4), *runs(5, 1)])
    fleet.commit(segment(*runs(0, 3), partition=1, slot=7), slot=7)

    rows = compaction.disagreements(*fleet.decoded()).collect()

    assert sorted((row.slot, bytes(row.identity), row.target_start) for row in rows) == [
        (0, coding.identity_bytes(identity()), 40),
        (5, coding.identity_bytes(identity()), 40),
    ]


def test_a_broken_block_is_a_problem(fleet: Fleet) -> None:
    ((slot, key, value),) = [(0, *archive.encode(archive.Block(identity(), tuple(runs(0, 1)))))]
    fleet.put([(slot, key, value[:-1])])

    (problem,) = compaction.problems(fleet.decoded()[1]).collect()

    said = "archive, partition 0, offset 0: archive: 1 payloads do not fit what is left"
    assert problem.problem == said


def test_no_plan_runs_python_a_row_at_a_time(fleet: Fleet) -> None:
    segments, archived = fleet.decoded()

    frames = (
        compaction.pack(segments, archived),
        compaction.unpacked(segments, archived),
        compaction.covered(archived),
    )

    for each in frames:
        assert "MapInArrow" in plan(each)
        assert "BatchEvalPython" not in plan(each)
