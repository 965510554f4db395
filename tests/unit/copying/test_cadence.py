from __future__ import annotations

from math import inf

import pytest

from mirrorfleet.copying.cadence import Cadence, Supply, rest_s, supply_of
from mirrorfleet.copying.schedule import CommitPolicy
from tests.unit.copying.making import entry, fetched, give, identity, slot

POLICY = CommitPolicy()
INTERVAL_S = 0.010


def test_little_that_is_all_at_hand_is_a_trickle() -> None:
    made = slot()
    partition = made.partitions[identity()]
    give(made, partition, fetched((0, [b"v"])), end=1)

    assert supply_of([partition]) is Supply.TRICKLE


def test_a_megabyte_that_is_all_at_hand_is_a_flow() -> None:
    made = slot(entry(0), entry(1))
    partitions = list(made.partitions.values())
    for partition in partitions:
        give(made, partition, fetched((0, [b"v" * (512 << 10)])), end=1)

    assert supply_of(partitions[:1]) is Supply.TRICKLE
    assert supply_of(partitions) is Supply.FLOW


def test_one_partition_of_which_the_source_has_more_makes_a_backlog() -> None:
    made = slot(entry(0), entry(1))
    here, more = made.partitions.values()
    give(made, here, fetched((0, [b"v"])), end=1)
    give(made, more, fetched((0, [b"v"])), end=2)

    assert supply_of([here, more]) is Supply.BACKLOG


def test_the_first_record_after_a_silence_goes_at_once() -> None:
    cadence = Cadence(POLICY)
    assert cadence.pause_s(5.0, INTERVAL_S, Supply.TRICKLE) == -inf

    cadence.began(5.0)
    cadence.committed(5.010, 0.008)
    assert cadence.pause_s(6.0, INTERVAL_S, Supply.TRICKLE) < 0


@pytest.mark.parametrize(
    ("interval_s", "overhead_s", "pause_s"),
    [
        pytest.param(0.010, 0.032, 0.004, id="half of what a commit takes, from its end"),
        pytest.param(0.050, 0.032, 0.042, id="the interval, from one beginning to the next"),
        pytest.param(0.010, 80.0, 1.0, id="never more than the longest interval"),
    ],
)
def test_a_trickle_gathers_before_the_next_transaction(
    interval_s: float, overhead_s: float, pause_s: float
) -> None:
    cadence = Cadence(POLICY)
    cadence.began(5.0)
    cadence.committed(5.008, overhead_s)  # counts for a quarter

    assert cadence.pause_s(5.008, interval_s, Supply.TRICKLE) == pytest.approx(pause_s)


@pytest.mark.parametrize("supply", [Supply.FLOW, Supply.BACKLOG])
def test_much_does_not_wait(supply: Supply) -> None:
    cadence = Cadence(POLICY)
    cadence.began(5.0)
    cadence.committed(5.008, 0.032)

    assert cadence.pause_s(5.008, INTERVAL_S, supply) == 0.0


def test_only_a_backlog_keeps_a_transaction_open_for_what_comes() -> None:
    cadence = Cadence(POLICY)

    assert cadence.takes_until(5.0, Supply.TRICKLE) == 5.0
    assert cadence.takes_until(5.0, Supply.FLOW) == 5.0
    assert cadence.takes_until(5.0, Supply.BACKLOG) == inf
    assert cadence.may_close(0.001, INTERVAL_S, Supply.TRICKLE)
    assert cadence.may_close(0.001, INTERVAL_S, Supply.FLOW)
    assert not cadence.may_close(0.001, INTERVAL_S, Supply.BACKLOG)
    assert cadence.may_close(0.010, INTERVAL_S, Supply.BACKLOG)


@pytest.mark.parametrize(
    ("interval_s", "answer_bytes", "seconds"),
    [
        pytest.param(0.010, 1_000, 0.005, id="half of the interval"),
        pytest.param(0.508, 1_000, 0.25, id="never more than a quarter of a second"),
        pytest.param(1.000, 1_000, 0.25, id="however far apart commits are"),
        pytest.param(0.010, 64 << 10, 0.0, id="a quarter of what was asked for is not small"),
    ],
)
def test_small_answers_of_the_live_tail_are_asked_for_with_a_rest(
    interval_s: float, answer_bytes: int, seconds: float
) -> None:
    assert rest_s(interval_s, answer_bytes, 256 << 10) == pytest.approx(seconds)
