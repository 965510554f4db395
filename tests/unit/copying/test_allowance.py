"""What a broker takes before its quota wants silence: proven by what it took, kept by its pace."""

from __future__ import annotations

import heapq
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.copying.allowance import (
    AT_ONCE_S,
    FIRST_BYTES,
    FREE,
    KEPT_S,
    LAPSES_S,
    LATE_S,
    LONG_S,
    MEAN_S,
    PACE,
    PROBING,
    WARNED,
    Allowance,
)

if TYPE_CHECKING:
    from collections.abc import Callable

MUCH = 8_000_000


def took(*sizes: int, silence_s: float = 0.0, now: float = 100.0) -> Allowance:
    """A broker that took requests of those sizes, the last one with a silence."""
    made = Allowance()
    for size in sizes:
        made.sent(size, now)
    for number, size in enumerate(sizes, 1):
        made.answered(size, now, now, silence_s if number == len(sizes) else 0.0)
    return made


def test_a_worker_begins_with_little_of_all_its_slots_together() -> None:
    made = Allowance()
    assert made.room(100.0) == FIRST_BYTES
    made.sent(FIRST_BYTES - 10, 100.0)
    assert made.room(100.0) == 10
    made.sent(10, 100.0)
    assert made.room(100.0) == 0


def test_a_quarter_more_may_be_on_its_way_than_was_taken_without_a_word() -> None:
    made = took(MUCH)
    assert made.room(100.0) == MUCH * (FREE - 1)
    made.sent(MUCH, 100.0)
    assert made.room(100.0) == 0
    made.answered(MUCH, 100.0, 100.0, 0.0)
    assert made.room(100.0) == 2 * MUCH * (FREE - 1)


def test_what_was_proven_holds_for_good_while_no_quota_is_met() -> None:
    made = took(MUCH)
    assert made.room(100.0 + KEPT_S) == MUCH * FREE
    assert made.room(100.0 + 1e6) == MUCH * FREE


def test_in_a_silence_there_is_no_room_and_after_it_what_the_mean_has_left() -> None:
    made = took(MUCH, silence_s=2.0)
    assert made.silence_s(100.5) == 1.5
    assert made.room(101.9) == 0
    assert made.silence_s(102.0) == 0.0
    proven = MUCH * MEAN_S / (MEAN_S + 2.0)
    assert proven * WARNED < MUCH
    assert made.room(102.0) == 0  # the mean has them still
    assert made.room(100.0 + KEPT_S) == int(proven * WARNED)


def test_the_longest_of_several_silences_counts() -> None:
    made = took(MUCH, MUCH, silence_s=3.0)
    made.sent(10, 100.0)
    made.answered(10, 100.0, 100.0, 1.0)
    assert made.silence_s(100.0) == 3.0


def test_after_a_short_silence_less_is_on_its_way_until_it_is_long_ago() -> None:
    made = took(MUCH, silence_s=LONG_S)
    assert made.room(100.0 + KEPT_S) == MUCH * WARNED
    assert made.room(100.0 + LONG_S + LAPSES_S) == MUCH * FREE


def test_once_a_quota_is_met_its_pace_is_kept() -> None:
    made = took(MUCH, silence_s=LONG_S + 0.5)
    pace = MUCH * MEAN_S / (MEAN_S + LONG_S + 0.5) * PACE / MEAN_S
    made.sent(1, 120.0)
    assert made.room(120.0) == pytest.approx(pace * AT_ONCE_S, rel=1e-3)
    made.sent(int(pace * AT_ONCE_S), 120.0)
    assert made.room(120.0) == 0
    assert made.room(120.5) == pytest.approx(pace * 0.5, rel=1e-3)


def test_a_large_batch_at_a_small_pace_is_paid_at_the_larger_one_that_it_proves() -> None:
    made = took(100, silence_s=LONG_S + 0.5)
    made.sent(MUCH, 112.0)
    made.answered(MUCH, 112.0, 112.0, 0.0)
    assert made.room(112.0 + 5.0) == 0
    assert made.room(112.0 + KEPT_S) > MUCH // 2


@pytest.mark.parametrize(
    ("share", "kept"),
    [
        pytest.param(0.5, 1.0, id="others passed the quota"),
        pytest.param(1.1, 1.1 * MEAN_S / (MEAN_S + 0.5), id="we did"),
    ],
)
def test_a_short_silence_at_the_pace_lowers_what_is_proven_only_where_we_passed_it(
    share: float, kept: float
) -> None:
    made = took(MUCH, silence_s=LONG_S + 0.5)
    proven = MUCH * MEAN_S / (MEAN_S + LONG_S + 0.5)
    made.sent(int(share * proven), 112.0)
    made.answered(int(share * proven), 112.0, 112.0, 0.5)
    assert made.room(112.0 + KEPT_S) == pytest.approx(kept * proven * WARNED, rel=1e-5)


def test_a_quota_that_nobody_met_for_long_is_looked_for_at_three_times_the_pace() -> None:
    made = took(MUCH, silence_s=LONG_S + 0.5)
    proven = MUCH * MEAN_S / (MEAN_S + LONG_S + 0.5)
    later = 100.0 + LONG_S + 0.5 + LAPSES_S
    assert made.room(later) == int(proven * FREE)
    made.sent(1, later)
    assert made.room(later) == pytest.approx(proven * PROBING / MEAN_S, rel=1e-3)


@pytest.mark.parametrize(
    ("answers", "kept"),
    [
        pytest.param((800,), MEAN_S / (MEAN_S + 3.0), id="others passed it, perhaps"),
        pytest.param((800, 800), MEAN_S / (MEAN_S + 3.0), id="once for each silence"),
        pytest.param((MUCH // 2,), 0.5 * MEAN_S / (MEAN_S + 3.0), id="we did"),
    ],
)
def test_a_long_silence_takes_little_from_one_who_sent_little(
    answers: tuple[int, ...], kept: float
) -> None:
    made = took(MUCH)
    for size in answers:
        made.sent(size, 112.0)
        made.answered(size, 112.0, 112.0, 3.0)
    assert made.room(112.0 + KEPT_S) == pytest.approx(kept * MUCH * WARNED, rel=1e-3)


def test_one_batch_may_go_where_nothing_is_under_way_however_low_the_quota() -> None:
    made = took(1, silence_s=20.0)
    assert made.room(120.0) == 1


def test_what_was_not_sent_or_is_lost_makes_room_and_proves_nothing() -> None:
    made = Allowance()
    made.sent(FIRST_BYTES, 100.0)
    made.gone(FIRST_BYTES, 100.0, 100.0)
    assert made.room(100.0) == FIRST_BYTES


def test_nobody_waits_long_for_an_answer_that_is_late() -> None:
    made = took(MUCH)
    made.sent(MUCH, 100.0)
    assert made.room(100.0 + LATE_S - 0.1) == 0
    assert made.room(100.0 + LATE_S + 0.2) == MUCH * (FREE - 1)
    made.answered(MUCH, 100.0, 103.0, 0.0)
    assert made.room(103.0) == 2 * MUCH * (FREE - 1)
    made.sent(MUCH // 4, 104.0)
    made.gone(MUCH // 4, 104.0, 104.0)
    assert made.room(104.0) == 2 * MUCH * (FREE - 1)


def test_who_finds_no_room_is_woken_once_by_the_answer_that_makes_some() -> None:
    made, woken = took(MUCH), []

    def wake() -> None:
        woken.append(True)

    made.sent(2 * MUCH, 100.0)
    for _ in range(3):
        assert LATE_S - 0.5 < made.wait_s(100.5, wake) < LATE_S
    made.answered(MUCH, 100.0, 100.5, 0.0)
    assert not woken
    for _ in range(2):
        made.answered(MUCH // 2, 100.0, 100.5, 0.0)
    assert woken == [True]


def test_who_finds_no_room_waits_for_the_silence_the_pace_or_the_mean() -> None:
    def nobody() -> None:
        raise AssertionError

    made = took(MUCH, silence_s=2.0)
    assert made.wait_s(100.5, nobody) == 1.5
    pace = MUCH * MEAN_S / (MEAN_S + 2.0) * PACE / MEAN_S
    assert made.wait_s(103.0, nobody) == pytest.approx(MUCH / pace - 3.0 - AT_ONCE_S, abs=0.2)
    made.sent(int(3 * pace), 120.0)
    assert 2.0 < made.wait_s(120.0, nobody) < 2.2
    assert took(MUCH).wait_s(103.0, nobody) == KEPT_S - 3.0
    assert Allowance().wait_s(100.0, nobody) == KEPT_S


class Broker:
    """The rule of Kafka's brokers (Rate, ClientQuotaManager): 11 samples of a second, and silence
    that each connection keeps. Events in the order of time.
    """

    def __init__(self, quota: int) -> None:
        self.quota, self.now = quota, 0.0
        self._samples = deque[list[float]](maxlen=11)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when: float, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (max(when, self.now), self._count, event))

    def run(self, until: float) -> None:
        while self._events[0][0] < until:
            self.now, _, event = heapq.heappop(self._events)
            event()

    def silence_s(self, size: int) -> float:
        if not self._samples or self.now - self._samples[-1][0] >= 1:
            self._samples.append([self.now, 0.0])
        self._samples[-1][1] += size
        while self.now - self._samples[0][0] >= 11:
            self._samples.popleft()
        age = self.now - self._samples[0][0]
        over_s = age + max(10 - int(age), 0)
        return max(sum(size for _, size in self._samples) / self.quota - over_s, 0.0)


class Line:
    """A slot's connection, and its transactions: a request of each batch, then positions."""

    def __init__(self, broker: Broker, allowance: Allowance, batch: int) -> None:
        self._broker, self._allowance, self._batch = broker, allowance, batch
        self._waiting, self._flying = deque[tuple[int, float, bool]](), 0
        self._free_at, self._muted_until = 0.0, 0.0
        self._opened: float | None = None
        self._ends = False
        self._timer = 0
        self.copied, self.open_s = 0, list[float]()

    def look(self) -> None:
        now = self._broker.now
        if self._ends:
            return
        while self._flying < (1 if self._opened is None or now == self._opened else 5):
            if self._opened is not None and now - self._opened > 0.2:
                break
            if not self._allowance.room(now):
                break
            self._opened = now if self._opened is None else self._opened
            self._send(self._batch, ends=False)
        if self._flying:
            return
        if self._opened is None:
            self._timer += 1
            wait_s = max(self._allowance.wait_s(now, self._soon), 0.001)
            self._broker.at(now + wait_s, partial(self._late, self._timer))
        else:
            self._ends = True
            self._broker.at(self._muted_until, lambda: self._send(800, ends=True))

    def _late(self, timer: int) -> None:
        if timer == self._timer:
            self.look()

    def _soon(self) -> None:
        self._broker.at(self._broker.now + 0.001, self.look)

    def _send(self, size: int, *, ends: bool) -> None:
        self._allowance.sent(size, self._broker.now)
        self._flying += 1
        self._waiting.append((size, self._broker.now, ends))
        if len(self._waiting) == 1:
            self._broker.at(max(self._broker.now + 0.005, self._free_at), self._taken)

    def _taken(self) -> None:
        size, since, ends = self._waiting.popleft()
        silence_s = self._broker.silence_s(size)
        self._free_at = self._broker.now + silence_s
        self._broker.at(
            self._broker.now + 0.005, lambda: self._answered(size, since, silence_s, ends=ends)
        )
        if self._waiting:
            self._broker.at(self._free_at + 0.001, self._taken)

    def _answered(self, size: int, since: float, silence_s: float, *, ends: bool) -> None:
        now = self._broker.now
        self._muted_until = max(self._muted_until, now + silence_s)
        self._flying -= 1
        self._allowance.answered(size, since, now, silence_s)
        if ends:
            self.open_s.append(now - (self._opened or 0.0))
            self._opened, self._ends = None, False
        else:
            self.copied += size
        self.look()


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("slots", [1, 8, 32])
@pytest.mark.parametrize(
    ("quota", "batch"),
    [(20_000, 4_000), (100_000, 16_000), (1_000_000, 16_000), (1_000_000, 100_000)],
)
def test_under_a_quota_transactions_stay_short_and_all_of_it_is_used(
    quota: int, batch: int, slots: int, workers: int
) -> None:
    broker = Broker(quota)
    allowances = [Allowance() for _ in range(workers)]
    lines = [Line(broker, allowances[number % workers], batch) for number in range(slots)]
    for number, line in enumerate(lines):
        broker.at(0.01 * number, line.look)
    broker.run(60.0)
    first_s = max(max(line.open_s, default=0.0) for line in lines)
    for line in lines:
        line.open_s.clear()
    before = sum(line.copied for line in lines)
    broker.run(110.0)
    later_s = max(max(line.open_s, default=0.0) for line in lines)
    assert first_s < 11.0  # a time-out is 15 s
    assert later_s < 7.0
    assert sum(line.copied for line in lines) - before > 0.75 * quota * 50


def test_a_worker_that_comes_anew_finds_its_part_of_a_quota() -> None:
    broker = Broker(2_000_000)
    workers = [Allowance() for _ in range(3)]
    lines = [Line(broker, workers[number % 3], 64_000) for number in range(24)]
    for number, line in enumerate(lines):
        broker.at(60.0 if number % 3 == 2 else 0.01 * number, line.look)
    broker.run(120.0)
    copied = [sum(line.copied for line in lines[number::3]) for number in range(3)]
    assert copied[2] > 0.4 * broker.quota * 60 / 3


def test_parts_that_were_proven_one_after_the_other_do_not_add_up() -> None:
    broker = Broker(100_000)
    workers = [Allowance() for _ in range(3)]
    for number, allowance in enumerate(workers):  # each had all of it
        allowance.sent(1_000_000, number)
        allowance.answered(1_000_000, number, number, 1.6)
    lines = [Line(broker, workers[number % 3], 16_000) for number in range(24)]
    for number, line in enumerate(lines):
        broker.at(100.0 + 0.01 * number, line.look)
    broker.run(160.0)
    assert max(max(line.open_s) for line in lines) < 10.0


def test_a_quota_that_is_lifted_is_soon_forgotten() -> None:
    broker, allowance = Broker(100_000), Allowance()
    line = Line(broker, allowance, 16_000)
    broker.at(0.0, line.look)
    broker.run(60.0)
    broker.quota = 10**12
    broker.run(60.0 + KEPT_S + LAPSES_S + 2.0)
    before = line.copied
    broker.run(broker.now + 1.0)
    assert line.copied - before > 3_000_000  # what the line has room for
