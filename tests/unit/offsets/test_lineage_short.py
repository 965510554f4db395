"""Maps of former incarnations are as short as both logs, and groups are put as before."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorfleet.core.ids import PartitionIdentity, SlotNumber, SourceOffset, TargetOffset
from mirrorfleet.offsets.copies import Answer, Copies
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.offsets.packing import (
    GONE,
    Floor,
    Full,
    beneath,
    by_identity,
    plan_packing,
    source_end,
)
from mirrorfleet.records.archive import Block, decode, encode, encode_key
from mirrorfleet.records.segments import Segment
from tests.unit.copying.making import entry
from tests.unit.offsets.test_lineage_truth import HERE, KINDS, THERE, World, world

Floors = dict[PartitionIdentity, Floor]
STORIES = st.lists(
    st.tuples(st.sampled_from(("copy", *KINDS)), st.integers(1, 9), st.integers(0, 2)),
    min_size=6,
    max_size=14,
)
EIGHTHS = st.integers(0, 8)
"""Of a log that are lost at its begin."""


def floors_of(made: World, low: Floor) -> Floors:
    """As `LostTopics` says: of a target topic that was made again nothing is left."""
    each = [made.identity(number) for number in range(len(made.runs))]
    now, gone = each[-1].target_topic_id, Floor(low.source, TargetOffset(GONE))
    return {one: low if one.target_topic_id == now else gone for one in each}


def in_memory(made: World, floors: Floors) -> OffsetIndex:
    index = OffsetIndex()
    for number, runs in enumerate(made.runs):
        if runs:
            index.add(made.identity(number), runs)
    index.forget_below(floors)
    return index


def in_archive(made: World, floors: Floors, full: Full) -> OffsetIndex:
    """As who reads it after the packer has pruned."""
    segments = [
        Segment(SlotNumber(0), 1_000, ((made.identity(number), (run,)),))
        for number, runs in enumerate(made.runs)
        for run in runs
    ]
    blocks = {b.key: encode(b)[1] for b in plan_packing({}, segments, full=full).write}
    low = beneath(by_identity(blocks), floors)
    gone = [
        key
        for identity, keys in low.items()
        for key in keys
        if source_end(blocks, key) <= floors[identity].source
    ]
    index = OffsetIndex()
    for key in sorted(blocks.keys() - gone):
        block = decode(encode_key(key), blocks[key])
        assert isinstance(block, Block)
        index.add_block(block)
    return index


def copies(made: World, index: OffsetIndex) -> Copies:
    last = len(made.runs) - 1
    losses = {
        made.identity(number): loss for number, loss in enumerate(made.losses) if loss is not None
    }
    return Copies([entry(identity=made.identity(last), loss=made.losses[last])], index, losses)


def reads_next(made: World, index: OffsetIndex, low: Floor) -> list[int]:
    """The records that a group reads next on the other side, by all that both logs still have."""
    known = copies(made, index)
    source, target = range(low.source, len(made.source) + 2), range(low.target, len(made.target))
    over = [known.to_target(HERE, asked) for asked in source]
    back = [known.to_source(THERE, asked) for asked in target]
    return [
        *(record_from(made.target, answer, low.target) for answer in over),
        *(record_from(made.source, answer, low.source) for answer in back),
    ]


def record_from(log: Sequence[object], answer: Answer | None, begin: int) -> int:
    """The first record that is not below an answer, in what is left of a log; else its end."""
    assert answer is not None
    there = range(max(answer.offset, begin), len(log))
    return next((at for at in there if log[at] is not None), len(log))


@settings(max_examples=100)
@given(steps=STORIES, begins=st.tuples(EIGHTHS, EIGHTHS), runs=st.integers(1, 4))
def test_what_both_logs_have_lost_is_missed_by_nobody_in_maps_of_before(
    steps: list[tuple[str, int, int]], begins: tuple[int, int], runs: int
) -> None:
    made = world(steps)
    low = Floor(
        SourceOffset(begins[0] * len(made.source) // 8),
        TargetOffset(begins[1] * len(made.target) // 8),
    )
    floors = floors_of(made, low)
    whole = reads_next(made, in_memory(made, {}), low)

    assert reads_next(made, in_memory(made, floors), low) == whole
    # a block may go a hole earlier than a piece, and what is not known is answered too low
    packed = reads_next(made, in_archive(made, floors, Full(runs, 1_000)), low)
    assert all(one <= other for one, other in zip(packed, whole, strict=True))
