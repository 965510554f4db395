"""What both logs have lost is forgotten, in memory as in the archive; answers stay as they were."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorfleet.core.ids import PartitionIdentity, SourceOffset, TargetOffset
from mirrorfleet.offsets.index import OffsetIndex, PartitionMap
from mirrorfleet.offsets.packing import (
    GONE,
    Floor,
    Full,
    beneath,
    by_identity,
    plan_packing,
    source_end,
)
from mirrorfleet.records.archive import Block, BlockKey, decode, encode, encode_key
from tests.unit.offsets.making import PARTITIONS, History, histories, run_of

Archive = dict[BlockKey, bytes]
P = PARTITIONS[0]


def floor(source: int, target: int) -> Floor:
    return Floor(SourceOffset(source), TargetOffset(target))


def three_pieces() -> OffsetIndex:
    index = OffsetIndex()
    index.add(P, [run_of(0, 5, 0), run_of(5, 9, 6), run_of(9, 12, 11)])
    return index


def map_of(index: OffsetIndex) -> PartitionMap:
    found = index.of(P)
    assert found is not None
    return found


def test_pieces_below_both_logs_are_forgotten_and_their_memory_is_free() -> None:
    index = three_pieces()
    assert index.forget_below({P: floor(7, 8)}) == 1
    assert (index.pieces, index.nbytes) == (2, 48)


def test_what_one_of_the_logs_still_has_is_kept() -> None:
    for one in (floor(4, 10**6), floor(10**6, 5)):
        index = three_pieces()
        assert index.forget_below({P: one}) == 0


def test_where_a_copy_stands_is_known_also_when_both_logs_are_empty() -> None:
    index = three_pieces()
    assert index.forget_below({P: floor(10**6, 10**6)}) == 2
    assert index.forget_below({P: floor(10**6, 10**6)}) == 0
    assert (map_of(index).last, map_of(index).target_end) == ((11, 13), 14)


def test_of_what_is_over_nothing_is_left_once_neither_log_has_a_record_of_it() -> None:
    for one in (floor(GONE, 14), floor(12, GONE), floor(GONE, GONE)):
        index = three_pieces()
        assert index.forget_below({P: one}) == 3
        assert (index.of(P), index.pieces) == (None, 0)


def test_what_is_over_is_kept_as_far_as_one_of_the_logs_has_it() -> None:
    for one, gone in ((floor(GONE, 8), 1), (floor(11, GONE), 2), (floor(GONE, 13), 2)):
        index = three_pieces()
        assert index.forget_below({P: one}) == gone
        assert map_of(index).last == (11, 13)


def test_a_run_that_was_forgotten_stays_so_when_it_is_read_again() -> None:
    index = three_pieces()
    index.forget_below({P: floor(7, 8)})
    index.add(P, [run_of(0, 5, 0), run_of(0, 9, 0, (5, 4)), run_of(5, 9, 6), run_of(12, 13, 15)])
    assert map_of(index).first == (5, 6)
    assert index.pieces == 3


def test_a_partition_that_is_not_known_has_nothing_to_forget() -> None:
    assert OffsetIndex().forget_below({P: floor(9, 9)}) == 0


def test_records_behind_a_target_offset_are_counted() -> None:
    known = map_of(three_pieces())
    asked = (0, 3, 5, 6, 8, 12, 14, 99)
    assert [known.records_from(TargetOffset(at)) for at in asked] == [12, 9, 7, 7, 5, 2, 0, 0]
    assert PartitionMap().records_from(TargetOffset(0)) == 0


def loaded(archive: Archive, made: History, packed: int) -> OffsetIndex:
    """As a service reads it: blocks in order, then the segments that are not packed."""
    index = OffsetIndex()
    for key in sorted(archive):
        block = decode(encode_key(key), archive[key])
        assert isinstance(block, Block)
        index.add_block(block)
    for segment in made.segments[packed:]:
        index.add_segment(segment)
    return index


def pruned(archive: Archive, floors: dict[PartitionIdentity, Floor]) -> Archive:
    low = beneath(by_identity(archive), floors)
    gone = {
        key
        for identity, keys in low.items()
        for key in keys
        if source_end(archive, key) <= floors[identity].source
    }
    return {key: value for key, value in archive.items() if key not in gone}


def answers(index: OffsetIndex, made: History, at: PartitionIdentity, low: Floor) -> list[object]:
    """All answers at the begins of the logs and behind."""
    known = index.of(at)
    assert known is not None
    forward = range(low.source, made.ends[at] + 3)
    back = range(low.target, made.copied[at][-1][1] + 4)
    return [
        *(known.to_target(SourceOffset(offset)) for offset in forward),
        *(known.to_source(TargetOffset(offset)) for offset in back),
        (known.last, known.source_end, known.target_end),
    ]


def ends_above(
    index: OffsetIndex, made: History, at: PartitionIdentity, low: Floor
) -> list[object]:
    """What is below offsets above the begins of the logs."""
    known = index.of(at)
    assert known is not None
    above = range(max(low.source, low.target) + 1, made.ends[at] + made.copied[at][-1][1])
    return [known.end_below(SourceOffset(one), TargetOffset(one)) for one in above]


def offsets(found: list[object]) -> list[object]:
    return [getattr(one, "offset", one) for one in found]


def next_records(
    index: OffsetIndex, made: History, at: PartitionIdentity, low: Floor
) -> list[int | None]:
    """What a group reads next, for every source offset: the target begins at the floor."""
    known = index.of(at)
    assert known is not None
    found: list[int | None] = []
    for offset in range(made.ends[at] + 3):
        answer = known.to_target(SourceOffset(offset))
        assert answer is not None
        start = max(answer.offset, low.target)
        found.append(min((t for _, t in made.copied[at] if t >= start), default=None))
    return found


@settings(max_examples=60)
@given(histories(), st.data())
def test_a_map_that_forgot_answers_as_one_that_was_read_after_pruning(
    made: History, data: st.DataObject
) -> None:
    packed = data.draw(st.integers(0, len(made.segments)))
    plan = plan_packing({}, made.segments[:packed], full=Full(data.draw(st.integers(1, 4)), 1_000))
    archive = {block.key: encode(block)[1] for block in plan.write}
    floors = {
        at: floor(
            data.draw(st.integers(0, made.ends[at] + 2)),
            data.draw(st.integers(0, pairs[-1][1] + 3)),
        )
        for at, pairs in made.copied.items()
    }
    whole, short = (loaded(archive, made, packed) for _ in range(2))
    short.forget_below(floors)
    again = loaded(pruned(archive, floors), made, packed)
    reread = loaded(archive, made, packed)
    reread.forget_below(floors)
    for block in plan.write:
        reread.add_block(block)

    for at, low in floors.items():
        wanted = answers(whole, made, at, low)
        assert answers(short, made, at, low) == wanted
        assert answers(reread, made, at, low) == wanted
        assert offsets(answers(again, made, at, low)) == offsets(wanted)
        assert ends_above(short, made, at, low) == ends_above(whole, made, at, low)
        records = next_records(whole, made, at, low)
        assert next_records(short, made, at, low) == records
        assert next_records(again, made, at, low) == records
