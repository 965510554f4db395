"""Who is deaf and who is silent: ends of `.progress` against what came of it."""

from __future__ import annotations

import pytest

from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.lagging.board import Board
from mirrorfleet.lagging.hearing import Hearing
from mirrorfleet.lagging.verdict import Limits
from mirrorfleet.records.samples import Verdict
from tests.unit.lagging.making import SLOT, entry, hear, said, snapshot

SECOND = 1_000


def test_what_is_written_and_does_not_come_is_lacked_until_anything_comes() -> None:
    hearing = Hearing()
    hearing.came(SLOT, 9)
    seen = []
    for end in (10, 11, 12, 12):
        hearing.ended(SLOT, end)
        seen.append((hearing.lacks(SLOT), hearing.stalled(3)))
    assert seen == [(False, []), (True, []), (True, []), (True, [SLOT])]

    hearing.came(SLOT, 10)

    assert (hearing.lacks(SLOT), hearing.stalled(1)) == (False, [])


def test_who_is_slow_to_hear_is_not_stalled() -> None:
    hearing = Hearing()
    for number in range(20):
        hearing.came(SLOT, number)
        hearing.ended(SLOT, 1_000)
        assert (hearing.lacks(SLOT), hearing.stalled(2)) == (True, [])


def test_what_was_there_before_we_listened_is_not_lacked() -> None:
    hearing = Hearing()
    for _ in range(5):
        hearing.ended(SLOT, 1_000)

    assert not hearing.lacks(SLOT)


def test_a_log_that_lost_its_tail_has_nothing_that_is_lacked() -> None:
    hearing = Hearing()
    hearing.came(SLOT, 9)
    for end in (12, 10, 12, 10):
        hearing.ended(SLOT, end)

    assert (hearing.lacks(SLOT), hearing.stalled(1)) == (False, [])


def board() -> Board:
    made = Board(Limits(), sample_ms=5 * SECOND)
    made.want([entry(0)], 0)
    made.hold(SLOT, (), 0)
    return made


def verdicts(
    watched: Board, *, end_moves: bool, seen_for: int = 60, blind: bool = False
) -> list[Verdict]:
    """What is told in a minute after the last word, while the end of its partition moves or not;
    it is seen for so many seconds, then the leader tells nothing.
    """
    found = []
    next(iter(watched)).end_seen(10, SECOND)
    hear(watched, snapshot(SECOND, said(10)), SECOND)
    watched.hearing.came(SLOT, 0)
    for second in range(1, 60):
        if second <= seen_for:
            watched.hearing.ended(SLOT, second if end_moves else 1)
        elif blind:
            watched.hearing.unseen([SLOT])
        next(iter(watched)).end_seen(10, second * SECOND)
        told = watched.look(SLOT, second * SECOND)
        found += [change.new for change in told.changes]
    return found


def test_a_worker_is_silent_when_it_writes_nothing_and_not_when_we_do_not_hear_it() -> None:
    assert verdicts(board(), end_moves=True) == []
    assert verdicts(board(), end_moves=False) == [Verdict.STOPPED]


@pytest.mark.parametrize("end_moves", [True, False], ids=["written, not come", "all came"])
def test_who_cannot_see_whether_a_worker_writes_calls_it_neither_silent_nor_fine(
    *, end_moves: bool
) -> None:
    watched = board()
    assert verdicts(watched, end_moves=end_moves, seen_for=2, blind=True) == [Verdict.UNKNOWN]

    (lag,) = watched
    assert lag.standing is not None
    assert (lag.standing.lag_records, lag.standing.time_lag_ms) == (None, None)
    watched.hearing.ended(SLOT, 1)
    (change,) = watched.look(SLOT, 61 * SECOND).changes
    assert change.new is Verdict.STOPPED  # it is seen again, and wrote nothing


def test_who_was_silent_before_nobody_could_see_it_is_called_so_still() -> None:
    watched = board()
    assert verdicts(watched, end_moves=False, seen_for=30, blind=True) == [Verdict.STOPPED]


def test_what_was_lacked_of_a_slot_is_forgotten_with_it() -> None:
    watched = board()
    watched.hearing.came(SLOT, 0)
    watched.hearing.ended(SLOT, 5)

    watched.drop(SLOT)
    assert watched.hearing.stalled(1) == []

    watched.hearing.came(SLOT, 0)  # of the stream that was
    watched.hold(SLOT, (), 0)
    watched.hearing.ended(SLOT, 50)
    assert not watched.hearing.lacks(SLOT)
    assert not watched.hearing.lacks(SlotNumber(2))
