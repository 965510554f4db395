"""The source lost its tail by an unclean election: who stood there has read nothing of what came.

source   0 ......... 150 .. 200     was copied one to one
source               150 ......     and then other records, to 201 and on
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.homes import held_at_parting
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.catalog import CatalogLoss
from mirrorfleet.records.checkpoint import Checkpoint
from tests.unit.copying.making import entry, identity
from tests.unit.offsets.making import run_of
from tests.unit.offsets.test_lineage_truth import HERE, THERE


def parted(end: int, cause: str = "source-truncated") -> Copies:
    """What came anew is copied up to `end`."""
    index = OffsetIndex()
    again = replace(identity(), incarnation=1)
    index.add(identity(), [run_of(0, 200, 0)])
    index.add(again, [run_of(150, end, 201)])
    loss = CatalogLoss(cause=cause, first=150, end=200)
    return Copies([entry(identity=again, loss=loss)], index)


def parted_again(cause: str, first: int) -> Copies:
    """What came anew was copied to 251; then another incarnation began at `first`, at 260."""
    index = OffsetIndex()
    second, third = (replace(identity(), incarnation=number) for number in (1, 2))
    index.add(identity(), [run_of(0, 200, 0)])
    index.add(second, [run_of(150, 200, 201)])
    index.add(third, [run_of(first, 300, 260)])
    lost = CatalogLoss(cause="source-truncated", first=150, end=200)
    later = CatalogLoss(cause=cause, first=first, end=200)
    return Copies([entry(identity=third, loss=later)], index, {second: lost})


def placed(source: int, target: int) -> Checkpoint:
    return Checkpoint("g", THERE, SourceOffset(source), TargetOffset(target), "")


def place(last: Checkpoint | None, source: int, copies: Copies, *, start: int = 0) -> int:
    """Where a group goes that has committed `source` by now."""
    answer = copies.to_target(HERE, source)
    assert answer is not None
    point = placed(source, max(answer.offset, start))
    (held,) = held_at_parting([point], lambda _: last, copies, {THERE: start})
    assert replace(held, target=point.target) == point
    return held.target


def test_who_stands_in_what_was_lost_goes_on_where_the_new_history_begins() -> None:
    assert place(placed(200, 200), 200, parted(160)) == 201
    assert place(placed(200, 201), 200, parted(190)) == 201, "of the look before"
    assert place(placed(200, 201), 200, parted(300)) == 201, "once it has grown past it"
    assert place(placed(180, 180), 180, parted(160)) == 201


def test_not_below_what_is_there_still() -> None:
    assert place(placed(200, 200), 200, parted(160), start=205) == 205


@pytest.mark.parametrize(
    ("last", "source", "there"),
    [
        (placed(200, 201), 155, 206),
        (placed(155, 206), 200, 251),
        (placed(200, 251), 200, 251),
        (placed(120, 120), 120, 120),
        (None, 200, 251),
    ],
    ids=["it came back", "it went on", "it read the new one", "it stood below", "nobody knows"],
)
def test_nobody_else_is_held(last: Checkpoint | None, source: int, there: int) -> None:
    assert place(last, source, parted(300)) == there


@pytest.mark.parametrize("cause", ["target-truncated", "rewound"])
def test_nor_where_the_source_has_what_it_had(cause: str) -> None:
    assert place(placed(200, 200), 200, parted(300, cause)) == 251


@pytest.mark.parametrize(
    ("cause", "first"),
    [("source-truncated", 180), ("rewound", 190), ("target-truncated", 190)],
)
def test_who_is_held_is_not_let_go_by_another_loss(cause: str, first: int) -> None:
    assert place(placed(200, 201), 200, parted_again(cause, first)) == 201


def test_who_is_held_stays_where_the_new_history_begins_when_the_target_loses_that() -> None:
    index = OffsetIndex()
    second, third = (replace(identity(), incarnation=number) for number in (1, 2))
    index.add(identity(), [run_of(0, 180, 0)])
    index.add(second, [run_of(150, 152, 201)])
    lost = CatalogLoss(cause="source-truncated", first=150, end=200)
    cut = CatalogLoss(cause="target-truncated", first=150, end=200)
    copies = Copies([entry(identity=third, loss=cut)], index, {second: lost})

    index.add(third, [run_of(150, 155, 180)])
    assert place(placed(200, 201), 200, copies) == 180
    index.add(third, [run_of(155, 300, 185)])
    assert place(placed(200, 180), 200, copies) == 180
