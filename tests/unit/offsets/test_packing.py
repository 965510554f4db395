"""Packing: nothing is lost, repeated or changed, whenever it dies and whoever else packs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import SlotNumber, TargetOffset
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.offsets.packing import Full, Packing, covered, plan_packing
from mirrorfleet.records.archive import BlockKey, decode, encode, encode_key
from mirrorfleet.records.segments import Run, Segment
from tests.unit.offsets.making import PARTITIONS, History, check_all, histories, run_of

Archive = dict[BlockKey, bytes]
P = PARTITIONS[0]


def of_runs(most: int) -> Full:
    return Full(most, 1_000)


def segment(*runs: Run) -> Segment:
    return Segment(SlotNumber(1), 0, ((P, runs),))


def wrote(archive: Archive, packing: Packing) -> None:
    archive.update((block.key, encode(block)[1]) for block in packing.write)


def apply(archive: Archive, packing: Packing) -> None:
    wrote(archive, packing)
    for key in packing.remove:
        archive.pop(key, None)


def ranges(archive: Archive) -> list[tuple[int, int]]:
    return sorted((key.first, key.end) for key in archive)


def read_into(index: OffsetIndex, archive: Archive) -> None:
    for key, value in archive.items():
        block = decode(encode_key(key), value)
        assert not isinstance(block, BlockKey)
        index.add_block(block)


def test_the_last_block_grows_until_it_is_full() -> None:
    archive: Archive = {}
    apply(archive, plan_packing(archive, [segment(run_of(0, 2, 0))], full=of_runs(3)))
    assert ranges(archive) == [(0, 2)]
    more = [segment(run_of(2, 3, 3)), segment(run_of(3, 4, 5)), segment(run_of(4, 5, 7))]
    packing = plan_packing(archive, more, full=of_runs(3))
    assert [len(block.runs) for block in packing.write] == [3, 1]
    apply(archive, packing)
    assert ranges(archive) == [(0, 6), (7, 8)]


def test_a_full_block_is_left_alone() -> None:
    archive: Archive = {}
    apply(archive, plan_packing(archive, [segment(run_of(0, 2, 0))], full=of_runs(1)))
    apply(archive, plan_packing(archive, [segment(run_of(2, 3, 3))], full=of_runs(1)))
    assert ranges(archive) == [(0, 2), (3, 4)]


def test_a_block_of_many_payloads_is_full_before_it_has_many_runs() -> None:
    full = Full(runs=100, weight=9)  # a run of four payloads weighs five
    archive: Archive = {}
    many = [replace(run_of(n, n + 4, n), payloads=((1, 7),) * 4) for n in range(0, 20, 4)]
    apply(archive, plan_packing(archive, [segment(*many[:3])], full=full))
    assert ranges(archive) == [(0, 8), (8, 12)]
    apply(archive, plan_packing(archive, [segment(*many[3:])], full=full))
    assert ranges(archive) == [(0, 8), (8, 16), (16, 20)]


def test_no_block_of_the_worst_runs_is_larger_than_its_topic_takes() -> None:
    # a batch a record: 1,000 of them in each transaction, none of which compress
    crcs = [n * 2_654_435_761 % 2**32 for n in range(1_000)]
    payloads = tuple((1, crc) for crc in crcs)
    many = [replace(run_of(n, n + 1_000, n), payloads=payloads) for n in range(0, 2_000_000, 1_000)]
    packing = plan_packing({}, [segment(*many)])
    sizes = [len(encode(block)[1]) for block in packing.write]
    assert (len(sizes), max(sizes) < 5 << 20) == (2, True)


def test_packing_again_after_a_death_before_freeing_writes_nothing() -> None:
    archive: Archive = {}
    segments = [segment(run_of(0, 2, 0)), segment(run_of(2, 3, 3))]
    wrote(archive, plan_packing(archive, segments))
    assert plan_packing(archive, segments) == Packing((), ())


def test_a_covered_block_that_a_death_left_behind_is_removed_by_the_next_run() -> None:
    archive: Archive = {}
    apply(archive, plan_packing(archive, [segment(run_of(0, 2, 0))]))
    wrote(archive, plan_packing(archive, [segment(run_of(2, 3, 3))]))
    assert ranges(archive) == [(0, 2), (0, 4)]
    apply(archive, plan_packing(archive, [segment(run_of(2, 3, 3))]))
    assert ranges(archive) == [(0, 4)]


def test_an_overlap_is_no_cover() -> None:
    keys = [BlockKey(P, TargetOffset(a), TargetOffset(b)) for a, b in ((0, 5), (3, 9), (3, 5))]
    assert covered(keys, by=keys) == [keys[2]]


def test_a_key_whose_block_was_not_read_removes_no_other() -> None:
    archive: Archive = {}
    apply(archive, plan_packing(archive, [segment(run_of(9, 12, 10))]))
    old, ghost = (BlockKey(P, TargetOffset(0), TargetOffset(end)) for end in (2, 5))
    packing = plan_packing(archive, [segment(run_of(12, 13, 14))], keys={P: [old, ghost, *archive]})
    assert packing.remove == tuple(archive)


def test_segments_may_not_go_when_the_archive_lacks_their_runs() -> None:
    archive: Archive = {}
    apply(archive, plan_packing(archive, [segment(run_of(0, 2, 0)), segment(run_of(5, 6, 9))]))
    with pytest.raises(CorruptBatchError, match="no block has"):
        plan_packing(archive, [segment(run_of(3, 4, 5))])


STEPS = st.tuples(
    st.integers(1, 6),
    st.integers(1, 5),
    st.sampled_from(["done", "died before writing", "died while writing", "died before freeing"]),
)
"""Segments of a pass, runs of a block, and how the pass ends."""


@settings(max_examples=60)
@given(histories(), st.lists(STEPS, max_size=6))
def test_translation_is_the_same_before_and_after_packing(
    made: History, passes: list[tuple[int, int, str]]
) -> None:
    archive: Archive = {}
    left = list(made.segments)
    for taken, most_runs, end in passes:
        packing = plan_packing(archive, left[:taken], full=of_runs(most_runs))
        match end:
            case "died while writing":
                wrote(archive, Packing(packing.write[: len(packing.write) // 2], ()))
            case "died before freeing":
                apply(archive, packing)
            case "done":
                apply(archive, packing)
                left = left[taken:]
        index = OffsetIndex()
        read_into(index, archive)
        for one in left:
            index.add_segment(one)
        check_all(index, made)


@settings(max_examples=60)
@given(histories(), st.data())
def test_two_packers_at_once_lose_nothing(made: History, data: st.DataObject) -> None:
    archive: Archive = {}
    cut = data.draw(st.integers(0, len(made.segments)))
    apply(archive, plan_packing(archive, made.segments[:cut], full=of_runs(3)))
    slow = plan_packing(archive, made.segments[cut : cut + 1], full=of_runs(3))
    quick = plan_packing(archive, made.segments[cut:], full=of_runs(data.draw(st.integers(1, 5))))
    apply(archive, quick)
    apply(archive, slow)
    index = OffsetIndex()
    read_into(index, archive)
    check_all(index, made)
