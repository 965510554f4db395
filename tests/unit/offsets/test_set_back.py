"""The target lost its tail, or all: what we wrote there is set back, and nothing else ever is.

source   0 .. 50 ......... 100     was copied to   0 .. 100 .. 200, a marker after each record
source        50 ......... 100     and again to    100 .... 150, where the target was cut at 100
                                   or to           0 ...... 50, in a topic that was made again
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.homes import Activity, GroupOffset, GroupView, cut_off, decide, settled
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.catalog import CatalogLoss
from mirrorfleet.records.checkpoint import Checkpoint
from tests.unit.copying.making import entry, identity
from tests.unit.offsets.making import run_of
from tests.unit.offsets.test_lineage_truth import HERE, KINDS, REMADE, THERE, World

CUT = "target-truncated"
STEPS = st.lists(
    st.tuples(st.sampled_from((*KINDS, "look", "look")), st.integers(0, 9), st.integers(0, 2)),
    max_size=20,
)


def recopied(cause: str = CUT) -> Copies:
    index = OffsetIndex()
    again = replace(identity(), incarnation=1)
    index.add(identity(), [run_of(at, at + 1, 2 * at) for at in range(100)])
    index.add(again, [run_of(50, 100, 100)])
    loss = CatalogLoss(cause=cause, first=50, end=100)
    return Copies([entry(identity=again, loss=loss)], index)


def remade(*, cut_source: bool = False) -> Copies:
    """The target topic made again; then maybe the source was cut at 80."""
    index = OffsetIndex()
    again = replace(identity(), target_topic_id=UUID(int=0xC), incarnation=1)
    index.add(identity(), [run_of(at, at + 1, 2 * at) for at in range(100)])
    index.add(again, [run_of(50, 100, 0)])
    loss = CatalogLoss(cause=REMADE, first=50, end=100)
    if not cut_source:
        return Copies([entry(identity=again, loss=loss)], index)
    third = replace(again, incarnation=2)
    index.add(third, [run_of(80, 100, 50)])
    parted = CatalogLoss(cause="source-truncated", first=80, end=100)
    return Copies([entry(identity=third, loss=parted)], index, {again: loss})


def placed(source: int, target: int, *written: int) -> Checkpoint:
    ours = tuple(map(TargetOffset, written))
    return Checkpoint("g", THERE, SourceOffset(source), TargetOffset(target), "", ours)


def too_far(
    last: Checkpoint, now: int, copies: Copies, *, source: int = 90, start: int = 0
) -> bool:
    """The group is at `source` by now, and at `now` on the target."""
    answer = copies.to_target(HERE, source)
    assert answer is not None
    point = placed(source, max(answer.offset, start))
    found = cut_off([point], {THERE: GroupOffset(now)}, lambda _: last, copies, {THERE: start})
    return found == {THERE}


def test_what_was_right_before_the_loss_is_too_far() -> None:
    assert too_far(placed(90, 180, 180), 180, recopied())
    assert too_far(placed(90, 180, 180), 180, recopied(), source=93)
    assert too_far(placed(90, 180, 180, 176), 176, recopied())


@pytest.mark.parametrize(
    ("last", "now", "source"),
    [
        (placed(90, 140, 140), 140, 90),
        (placed(90, 140, 140), 140, 70),
        (placed(40, 80, 80), 80, 30),
        (placed(90, 180, 99), 99, 30),
        (placed(20, 40, 180), 180, 20),
        (placed(90, 180, 180), 181, 90),
    ],
    ids=[
        "of after the loss",
        "of after the loss, and set back at the source",
        "below what was lost, and set back at the source",
        "itself below what was lost",
        "set back at the source before, so that nobody knows what it meant",
        "above what was right",
    ],
)
def test_nothing_else_is_too_far(last: Checkpoint, now: int, source: int) -> None:
    assert not too_far(last, now, recopied(), source=source)


def test_nothing_is_right_that_was_right_in_the_topic_before() -> None:
    assert too_far(placed(90, 180, 180), 180, remade())
    assert too_far(placed(90, 180, 180), 180, remade(), source=93)
    assert too_far(placed(40, 80, 80), 80, remade(), source=40)
    assert too_far(placed(70, 140, 140), 140, remade(cut_source=True), source=70)
    assert not too_far(placed(90, 40, 40), 40, remade(), source=70)  # right in the topic of now


@pytest.mark.parametrize("cause", ["rewound", "source-truncated"])
def test_only_a_target_that_lost_records_has_others_at_the_same_offsets(cause: str) -> None:
    assert not too_far(placed(90, 180, 180), 180, recopied(cause))


def test_what_retention_skipped_was_not_lost_by_a_cut() -> None:
    assert not too_far(placed(60, 130, 145, 130), 145, recopied(), source=60, start=130)


@dataclass
class Follower:
    """A group that nobody moves on the target, and each look by another process."""

    source: int = 0
    place: int | None = None
    last: Checkpoint | None = None
    backwards: int = 0

    def look(self, copies: Copies, *, succeeds: bool) -> None:
        answer = copies.to_target(HERE, self.source)
        if answer is None:
            return
        point = placed(self.source, answer.offset)
        offsets = {} if self.place is None else {THERE: GroupOffset(self.place)}
        starts = {THERE: 0}
        view = GroupView(
            source=Activity.IDLE,
            target=Activity.IDLE,
            checkpoints=(point,),
            offsets=offsets,
            written={} if self.last is None else {THERE: self.last.written},
            cut=cut_off([point], offsets, lambda _: self.last, copies, starts),
        )
        decision = decide(view, home_again_s=300)
        assert decision.home == "source", decision.why
        (self.last,) = decision.checkpoints
        if decision.commits and succeeds:
            self.backwards += self.place is not None and self.place > point.target
            self.place = point.target
            self.last = (settled(decision.commits) or [self.last])[0]


@settings(max_examples=150)
@given(steps=STEPS)
@example(steps=[("copy", 9, 0), ("look", 9, 0), (REMADE, 0, 2)])
def test_whatever_is_lost_our_place_for_a_group_has_no_record_before_it_that_the_group_lacks(
    steps: list[tuple[str, int, int]],
) -> None:
    made, group = World(), Follower()
    cuts = 0
    for kind, size, gap in [*steps, ("copy", 3, 0), ("look", 0, 0)]:
        if kind != "look":
            before = made.copies()
            made.step(kind, size, gap)
            cuts += kind in {CUT, REMADE, "accepted"}
            if kind == REMADE and gap:
                group.place = None  # the target drops offsets of a topic that it deletes
            if kind == REMADE and gap > 1:
                group.look(before, succeeds=True)  # which had begun, and does not know
            continue
        group.source += min(size, max(0, len(made.source) - group.source))
        group.look(made.copies(), succeeds=gap != 1)
    while not made.runs[-1]:
        made.step("copy", 3, 0)
    group.look(made.copies(), succeeds=True)

    lacking = [at for source, at in made.truth() if source >= group.source]
    assert group.place is not None
    assert group.place <= min(lacking, default=len(made.target))
    assert cuts or not group.backwards


def test_a_group_that_is_left_alone_at_the_first_look_is_set_back_at_the_next() -> None:
    """A consumer of it is there for a moment and commits nothing."""
    copies, last = recopied(), placed(90, 180, 180, 176)
    for target in (Activity.ACTIVE, Activity.IDLE):
        point = placed(90, 140)
        offsets = {THERE: GroupOffset(180)}
        cut = cut_off([point], offsets, dict.fromkeys([point], last).get, copies, {THERE: 0})
        view = GroupView(
            source=Activity.IDLE,
            target=target,
            checkpoints=(point,),
            offsets=offsets,
            written={THERE: last.written},
            cut=cut,
        )
        found = decide(view, home_again_s=300)
        last = found.checkpoints[0] if found.checkpoints else last

    assert [one.target for one in found.commits] == [140]
