"""The board: what is watched, when a sample is due, which changes are told."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from mirrorfleet.core.ids import SlotNumber, TopicPartition
from mirrorfleet.lagging.board import Board, Place, Told, events_of
from mirrorfleet.lagging.ends import TOLERANCE_MS
from mirrorfleet.lagging.verdict import Limits
from mirrorfleet.records import progress
from mirrorfleet.records.progress import Progress, held_up
from mirrorfleet.records.samples import HOLDS_MS, Sample, Verdict
from tests.unit.lagging.making import SLOT, entry, hear, said, snapshot
from tests.unit.records.making import LINK

SECOND = 1_000


def board(*partitions: int, before: tuple[Sample, ...] = ()) -> Board:
    made = Board(Limits(), sample_ms=5_000)
    made.want([entry(partition) for partition in partitions], 0)
    made.hold(SLOT, before, 0)
    return made


def feed(board: Board, second: int, *, position: int, end: int) -> None:
    """Ends and a snapshot of every partition."""
    lags = list(board)
    for lag in lags:
        lag.end_seen(end, second * SECOND)
    words = [said(position, partition=lag.entry.identity.partition) for lag in lags]
    hear(board, snapshot(second * SECOND, *words), second * SECOND)


def look(board: Board, second: int) -> Told:
    return board.look(SLOT, second * SECOND)


def test_a_partition_is_sampled_every_five_seconds_and_idle_six_times_less() -> None:
    busy = board(0)
    sampled = []
    for second in range(1, 120):
        feed(busy, second, position=min(second, 40) * 10, end=min(second, 40) * 10)
        sampled += [one.time_ms // SECOND for one in look(busy, second).samples]

    # new records until second 40, idle since second 71
    assert sampled == [*range(1, 71, 5), 71, 101]


def test_a_change_of_the_verdict_is_sampled_at_once_and_told() -> None:
    watched = board(0)
    feed(watched, 1, position=10, end=10)
    look(watched, 1)
    told = []
    for second in range(2, 14):
        next(iter(watched)).end_seen(10, second * SECOND)
        told.append(look(watched, second))

    (change,) = [change for each in told for change in each.changes]
    (event,) = events_of([change], "lag:1", 77)
    assert (event.kind, event.time_ms, event.link) == ("verdict-changed", 77, LINK)
    assert (event.topic, event.partition) == ("orders", 0)
    assert event.detail == "ok -> stopped: STOP: its worker has been silent for 11s"
    assert [one.verdict for each in told for one in each.samples][-1] is Verdict.STOPPED


def test_idle_and_ok_are_no_change_worth_an_event() -> None:
    watched = board(0)
    for second in range(1, 60):
        feed(watched, second, position=10, end=10)
        assert look(watched, second).changes == []


def test_many_equal_changes_of_a_topic_are_told_as_one() -> None:
    watched = board(*range(25))
    feed(watched, 1, position=10, end=10)
    look(watched, 1)

    found = events_of(look(watched, 13).changes, "lag:1", 0)

    assert [(event.partition, event.detail) for event in found] == [
        (None, "ok -> stopped: STOP: its worker has been silent for 12s (so 25 partitions)")
    ]


def test_a_slot_that_its_owner_cannot_take_is_stopped_with_the_reason_and_not_silent() -> None:
    watched = board(0, 1)
    feed(watched, 1, position=10, end=10)
    state = held_up("fencing", "the coordinator does not answer")
    for second in range(2, 30):
        told = snapshot(second * SECOND, said(10, state="starting"))
        hear(watched, replace(told, state=state), second * SECOND)
        look(watched, second)

    assert [(lag.standing.verdict, lag.standing.rule) for lag in watched if lag.standing] == [
        (Verdict.STOPPED, "STOP: its slot is not copied: the coordinator does not answer")
    ] * 2
    assert watched.heard_ms(LINK) == 29 * SECOND
    feed(watched, 30, position=10, end=10)
    look(watched, 30)
    assert [lag.standing.verdict for lag in watched if lag.standing] == [Verdict.OK] * 2


def test_a_new_partition_is_not_judged_before_it_can_be_seen() -> None:
    watched = board(0)
    assert look(watched, 10).samples == []

    (sample,) = look(watched, 16).samples
    assert (sample.verdict, sample.rule) == (Verdict.STOPPED, "no worker has ever reported it")


def test_a_verdict_that_held_before_a_restart_is_no_change_after_it() -> None:
    first = board(0)
    feed(first, 1, position=10, end=10)
    look(first, 1)
    feed(first, 2, position=10, end=500)
    (told,) = look(first, 13).samples

    again = board(0, before=(told,))
    hear(again, snapshot(2 * SECOND, said(10)), 20 * SECOND)
    next(iter(again)).end_seen(900, 20 * SECOND)
    after = look(again, 20)

    assert after.changes == []
    assert [one.verdict for one in after.samples] == [Verdict.STOPPED]
    aged = 7_000 + (told.time_lag_ms or 0)
    assert abs((after.samples[0].time_lag_ms or 0) - aged) <= TOLERANCE_MS


def test_a_topic_that_is_made_again_has_nothing_of_the_one_before() -> None:
    first = board(0)
    feed(first, 1, position=10, end=500)
    (told,) = look(first, 12).samples

    again = board(before=(told,))  # it is gone now
    again.want([entry(0)], 20 * SECOND)

    assert next(iter(again)).sampled_verdict is None


def test_an_idle_partition_is_told_again_before_its_last_sample_counts_no_more() -> None:
    watched = Board(Limits(), sample_ms=40_000)
    watched.want([entry(0)], 0)
    watched.hold(SLOT, (), 0)
    told = []
    for second in range(1, 400):
        feed(watched, second, position=10, end=10)
        told += [one.time_ms for one in look(watched, second).samples]

    idle = [b - a for a, b in pairwise(told)][1:]
    assert idle
    assert max(idle) < HOLDS_MS - 20_000


def test_what_the_catalog_dropped_and_what_another_instance_took_is_watched_no_more() -> None:
    watched = board(0, 1)
    assert set(watched.by_source(LINK)) == {
        TopicPartition("orders", 0),
        TopicPartition("orders", 1),
    }

    watched.want([entry(1)], 0)
    assert set(watched.by_source(LINK)) == {TopicPartition("orders", 1)}

    watched.drop(SLOT)
    hear(watched, snapshot(1, said(10, partition=1)), 1)
    assert (len(watched), watched.slots) == (0, [])


def test_a_partition_that_comes_after_its_snapshot_is_fed_with_it() -> None:
    watched = board()
    hear(watched, snapshot(SECOND, said(10)), SECOND)
    watched.want([entry(0)], SECOND)

    assert [lag.heard_ms for lag in watched] == [SECOND]
    assert watched.heard_ms(LINK) == SECOND


def test_thousands_of_partitions_are_sampled_less_often() -> None:
    watched = board(*range(5_000))
    feed(watched, 1, position=10, end=100)
    assert len(look(watched, 1).samples) == 5_000

    feed(watched, 7, position=20, end=100)
    assert look(watched, 7).samples == []
    feed(watched, 11, position=30, end=100)
    assert len(look(watched, 11).samples) == 5_000


def test_a_slot_that_is_not_held_gives_nothing() -> None:
    assert board(0).look(SlotNumber(9), 1) == Told()


def position_of(watched: Board) -> int:
    (lag,) = watched
    assert lag.progress is not None
    return lag.progress.next_source


def test_the_logs_order_says_which_snapshot_is_new_and_not_the_time() -> None:
    watched = board(0)
    watched.heard(snapshot(60 * SECOND, said(90)), 60 * SECOND, Place(8, 60 * SECOND))
    watched.heard(snapshot(61 * SECOND, said(80)), 61 * SECOND, Place(7, 59 * SECOND))
    assert position_of(watched) == 90  # read once more, from where the group had committed

    watched.heard(snapshot(59 * SECOND, said(95)), 62 * SECOND, Place(9, 59 * SECOND))
    assert position_of(watched) == 95

    watched.heard(snapshot(70 * SECOND, said(99)), 70 * SECOND, Place(0, 70 * SECOND))
    assert position_of(watched) == 99  # the topic was made anew


@pytest.mark.parametrize("behind_s", [-3_600, 15, 7_200])
def test_a_worker_whose_clock_is_off_is_heard_as_any_other(behind_s: int) -> None:
    watched = board(0)
    for second in range(10_000, 10_040):
        at_ms = (second - (behind_s if second > 10_020 else 0)) * SECOND  # the slot moved to it
        next(iter(watched)).end_seen(second * 10, second * SECOND)
        written = progress.encode(snapshot(at_ms, said(second * 10, moved_ms=at_ms)))
        told = progress.decode(*written, heard_ms=second * SECOND)
        assert isinstance(told, Progress)
        hear(watched, told, second * SECOND)
        assert look(watched, second).changes == []

    assert position_of(watched) == 10_039 * 10
    assert watched.heard_ms(LINK) == 10_039 * SECOND


def test_a_worker_that_fell_silent_before_we_listened_is_stopped_after_the_time_that_all_have() -> (
    None
):
    watched = Board(Limits(), sample_ms=5_000)
    watched.want([entry(0)], 100 * SECOND)
    watched.hold(SLOT, (), 100 * SECOND)
    watched.heard(snapshot(40 * SECOND, said(10)), 100 * SECOND, Place(7, 40 * SECOND))
    next(iter(watched)).end_seen(10, 100 * SECOND)

    assert [look(watched, second).samples for second in range(100, 110)] == [[]] * 10
    (sample,) = look(watched, 110).samples
    assert sample.rule == "STOP: its worker has been silent for 1m10s"


def test_a_board_that_stood_still_hears_what_was_said_meanwhile_before_it_judges() -> None:
    watched = board(0)
    for second in range(1, 20):
        feed(watched, second, position=10, end=10)
        watched.awake(second * SECOND)
        look(watched, second)

    told = []
    for second in range(320, 340):
        if second == 324:
            feed(watched, second, position=10, end=10)
        watched.awake(second * SECOND)
        told.append(look(watched, second))
    changes = [change for each in told for change in each.changes]

    assert [each.samples for each in told[:4]] == [[]] * 4
    assert [(change.old, change.new) for change in changes] == [(Verdict.IDLE, Verdict.STOPPED)]
    assert changes[0].rule == "STOP: its worker has been silent for 11s"


def test_our_clock_set_back_does_not_keep_a_worker_alive_that_died() -> None:
    watched = board(0)
    feed(watched, 3_600, position=10, end=10)
    look(watched, 3_600)
    for second in range(100, 113):
        next(iter(watched)).end_seen(10, second * SECOND)
        look(watched, second)

    assert [lag.standing.verdict for lag in watched if lag.standing] == [Verdict.STOPPED]


def test_who_began_to_watch_in_the_future_still_sees_that_a_worker_died() -> None:
    """The host came up an hour ahead; the catalog is looked at all the time."""
    an_hour = 3_600
    watched = Board(Limits(), sample_ms=5_000)
    watched.want([entry(0)], an_hour * SECOND)
    watched.hold(SLOT, (), an_hour * SECOND)
    for second in (an_hour, an_hour + 1):
        watched.awake(second * SECOND)
        feed(watched, second, position=10, end=10)
        look(watched, second)
    for second in range(100, 113):
        watched.awake(second * SECOND)
        watched.want([entry(0)], second * SECOND)
        next(iter(watched)).end_seen(10, second * SECOND)
        look(watched, second)

    assert [lag.standing.verdict for lag in watched if lag.standing] == [Verdict.STOPPED]


def test_what_waited_for_us_comes_at_once_and_is_no_faster_for_that() -> None:
    watched = board(0)
    for second in range(1, 90):
        heard_ms = (second if second < 20 else max(second, 80)) * SECOND
        next(iter(watched)).end_seen(1_000_000, heard_ms)
        told = snapshot(heard_ms, said(1_000 * second))
        watched.heard(told, heard_ms, Place(second, second * SECOND))

    (sample,) = look(watched, 90).samples
    assert sample.rate_records_s == pytest.approx(1_000)


def test_a_slot_that_cannot_be_taken_has_no_rate() -> None:
    watched = board(0)
    for second in range(1, 20):
        feed(watched, second, position=1_000 * second, end=1_000_000)
    look(watched, 19)
    state = held_up("fencing", "the coordinator does not answer")
    for second in range(20, 40):
        hear(watched, replace(snapshot(second * SECOND), state=state), second * SECOND)

    (sample,) = look(watched, 40).samples
    assert (sample.verdict, sample.rate_records_s) == (Verdict.STOPPED, 0.0)


def test_a_clock_that_was_set_back_does_not_silence_the_samples() -> None:
    watched = board(0)
    feed(watched, 3_600, position=10, end=10)
    assert len(look(watched, 3_600).samples) == 1

    feed(watched, 100, position=20, end=20)
    assert [one.time_ms for one in look(watched, 100).samples] == [100 * SECOND]


def test_one_moment_is_told_once() -> None:
    watched = board(0)
    feed(watched, 1, position=10, end=10)
    told = [*look(watched, 1).samples, *look(watched, 2).samples]
    next(iter(watched)).reported(said(10, fault="why"), SECOND, SECOND)

    assert len(told + look(watched, 3).samples) == 1
