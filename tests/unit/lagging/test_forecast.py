"""Backlogs that share a worker: each is told a time that counts on what the others leave it."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import pytest

from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.lagging.board import Board, Place, ease
from mirrorfleet.lagging.forecast import Backlog, eased, shared
from mirrorfleet.lagging.partition import PartitionLag
from mirrorfleet.lagging.verdict import Limits
from tests.unit.lagging.making import SLOT, entry, said, snapshot

SECOND = 1_000
OTHER = SlotNumber(2)


def steady(records: int, gain: float) -> Backlog:
    """One whose rate was the same all the time."""
    return Backlog(records, gain, gain)


def test_what_a_backlog_needs_no_more_when_it_is_done_the_others_get() -> None:
    assert shared([steady(600, 100.0), steady(300, 100.0)]) == pytest.approx([4.5, 3.0])
    assert shared([steady(100, 1.0), steady(100, 100.0)]) == pytest.approx([200 / 101, 1.0])


def test_all_are_done_when_their_sum_is() -> None:
    backlogs = [steady(records, gain) for records, gain in ((900, 7.0), (20, 3.0), (400, 40.0))]

    assert max(shared(backlogs)) == pytest.approx(1_320 / 50)


def test_a_backlog_is_expected_between_the_time_alone_and_the_time_with_everything() -> None:
    assert eased([steady(600, 100.0), steady(300, 100.0)]) == pytest.approx([sqrt(0.75), 1.0])
    assert eased([steady(500, 3.0)]) == [1.0]
    assert eased([steady(500, 3.0)] * 4) == pytest.approx([1.0] * 4)
    assert eased([]) == []


def test_what_all_gain_lately_counts_and_not_what_one_does() -> None:
    turns = [Backlog(500, 10.0, 40.0), Backlog(500, 10.0, 0.0), Backlog(500, 20.0, 0.0)]
    faster = [Backlog(500, 10.0, 30.0), Backlog(500, 10.0, 30.0)]

    assert eased(turns) == eased([steady(500, each.gain) for each in turns])
    assert eased(faster) == pytest.approx([1 / 3, 1 / 3])


def test_a_stand_of_seconds_makes_a_time_longer_by_a_quarter_at_most() -> None:
    assert eased([Backlog(500, 10.0, -3.0)]) == [1.25]
    assert eased([Backlog(500, 10.0, 0.1)]) == [1.25]
    assert eased([Backlog(500, 10.0, 900.0)]) == [0.25]


def watched(owners: dict[SlotNumber, str], state: str = "catch-up") -> Board:
    """100 records a second are copied of 2,000 in one slot and of 10,000 in another one."""
    board = Board(Limits(), sample_ms=5_000)
    entries = {SLOT: entry(0), OTHER: replace(entry(1), slot=OTHER)}
    board.want(entries.values(), 0)
    for slot in entries:
        board.hold(slot, (), 0)
    for second in range(1, 12):
        now_ms = second * SECOND
        ends = {SLOT: 2_000, OTHER: 10_000}
        for lag in board:
            lag.end_seen(ends[lag.entry.slot], now_ms)
        for number, (slot, owner) in enumerate(owners.items()):
            word = said(100 * second, partition=number, end=ends[slot], state=state)
            told = replace(snapshot(now_ms, word), slot=slot, owner=owner)
            board.heard(told, now_ms, Place(now_ms, now_ms))
        board.ease()
        for slot in owners:
            board.look(slot, now_ms)
    return board


def etas_s(board: Board) -> list[int]:
    return [round((lag.eta_ms or 0) / SECOND) for lag in board]


def test_backlogs_of_one_worker_ease_each_other_whatever_slots_they_are_in() -> None:
    alone = etas_s(watched({SLOT: "a", OTHER: "b"}))
    together = etas_s(watched({SLOT: "a", OTHER: "a"}))

    assert alone == [9, 89]
    assert together == [9, round(89 * sqrt((2_000 + 10_000 - 2_200) / 200 / 89))]


def test_what_is_free_goes_first_to_a_backlog_that_waits_for_its_turn() -> None:
    lags = list(watched({SLOT: "a", OTHER: "a"}))
    waits = PartitionLag(entry(2))
    waits.reported(said(5, partition=2, end=900, state="waiting"), 11 * SECOND, 11 * SECOND)
    ease([*lags, waits])

    assert [lag.eased for lag in lags] == [1.0, 1.0]
