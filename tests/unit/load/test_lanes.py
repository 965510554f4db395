"""Lanes of the traffic maker: one that was fenced, one whose librdkafka sends nothing more."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.load import lanes
from tests.load.lanes import ANSWER_S, MIX, SETTLED_S, Job, Lane, LaneSpec, is_over
from tests.load.making import POOL, Load, _lane
from tests.load.recipes import Topic, recipes

if TYPE_CHECKING:
    from confluent_kafka import Producer


def found(*, fatal: bool) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=fatal))


@pytest.mark.parametrize("fatal", [True, False])
def test_a_fatal_error_is_known_also_where_a_callback_met_it(*, fatal: bool) -> None:
    met = SystemError("returned a result with an exception set")
    met.__cause__ = found(fatal=fatal)

    assert is_over(met) is fatal
    assert is_over(found(fatal=fatal)) is fatal
    assert not is_over(SystemError("of another kind"))


def test_transactions_go_to_all_partitions_though_others_stay_with_one_for_long() -> None:
    """Where none has a marker for long, nobody knows when the source showed what."""
    topics = [Topic("orders", 24)]
    load = Load(bootstrap="nowhere:1", topics=topics, sticky=128)
    pool = recipes(topics, seed="0", count=POOL, sticky=128)
    seen: dict[str, set[int]] = {}
    for spec in MIX:
        job = _lane(load, pool, spec, 1.0).job
        seen[spec.name] = {pool[n * job.stride % POOL].partition for n in range(64)}

    assert {name: len(found) for name, found in seen.items() if name.startswith("txn")} == {
        "txn-lz4": 24,
        "txn-none": 24,
    }
    assert len(seen["lz4"]) == 1


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_what_was_to_be_committed_and_had_to_be_aborted_may_be_in_the_log(end: str) -> None:
    """The answer that was lost may have been that it is."""
    lane = Lane(LaneSpec("txn", 1.0), Job({}, [], "0", 1.0))
    must_abort = KafkaError(KafkaError._TIMED_OUT, "late", txn_requires_abort=True)

    def refused(_: float) -> None:
        raise KafkaException(must_abort)

    taken = {"flush": lambda _: 0, "abort_transaction": lambda _: None}
    lane._producer = cast("Producer", SimpleNamespace(commit_transaction=refused, **taken))
    lane._sent = sent = Counter({("orders", 0): 3})

    getattr(lane, end)()

    known = {"commit": lane.tally.unknown, "abort": lane.tally.aborted}
    assert known.pop(end) == sent
    assert [*known.values(), lane.tally.committed] == [Counter(), Counter()]
    assert lane.tally.transactions_aborted == 1


class Clock:
    """Time goes on while somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    time = monotonic


class Stuck:
    """A librdkafka that takes `room` records and answers none of them, or all at once."""

    def __init__(self, clock: Clock, room: int, *, answers: bool) -> None:
        self.clock, self.room, self.answers, self.taken = clock, room, answers, 0

    def produce(self, *_: object, **__: object) -> None:
        if self.taken == self.room:
            raise BufferError
        self.taken += 1

    def poll(self, seconds: float) -> None:
        self.clock.now += seconds

    def commit_transaction(self, _: float) -> None:
        pass

    abort_transaction = commit_transaction

    def flush(self, seconds: float) -> int:
        self.taken = 0 if self.answers else self.taken
        self.clock.now += 0 if self.answers else seconds
        return self.taken


def lane_with(producers: list[Stuck], monkeypatch: pytest.MonkeyPatch) -> Lane:
    monkeypatch.setattr(lanes, "time", producers[0].clock)
    monkeypatch.setattr(lanes, "Producer", lambda _: producers.pop(0))
    pool = recipes([Topic("orders", 1)], seed="0", count=8)
    return Lane(LaneSpec("lz4", 1.0), Job({}, pool, "0", 1.0))


def test_a_lane_whose_librdkafka_sends_nothing_more_goes_on_with_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    dead, alive = Stuck(clock, 3, answers=False), Stuck(clock, 100, answers=True)
    lane = lane_with([dead, alive], monkeypatch)

    assert lane.send(5) == 5
    lane._finish()

    assert clock.now < SETTLED_S + ANSWER_S + 1
    assert (lane.tally.unknown.total(), lane.tally.committed.total()) == (3, 2)


def test_what_is_answered_by_and_by_counts_and_of_what_was_refused_nobody_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    lane = lane_with([Stuck(clock, 2, answers=True)], monkeypatch)

    assert lane.send(5) == 5  # room is made by waiting for answers
    lane._refused["orders", 0] += 1
    lane._finish()

    assert (lane.tally.unknown.total(), lane.tally.committed.total()) == (1, 4)


@pytest.mark.parametrize("end", ["commit", "abort"])
@pytest.mark.parametrize(("away_s", "sure"), [(0.5, True), (9.0, False)])
def test_a_transaction_before_its_broker_was_away_may_have_ended_as_the_next_one(
    monkeypatch: pytest.MonkeyPatch, end: str, away_s: float, *, sure: bool
) -> None:
    clock = Clock()
    lane = lane_with([Stuck(clock, 9, answers=True)], monkeypatch)
    for sent in (3, 2):
        lane._sent = Counter({("orders", 0): sent})
        getattr(lane, end)()
        clock.now += away_s

    count = lane.tally.committed if end == "commit" else lane.tally.aborted
    assert (count.total(), lane.tally.unknown.total()) == ((5, 0) if sure else (2, 3))


def test_what_a_transaction_was_refused_is_not_missed_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lane = lane_with([Stuck(Clock(), 2, answers=True)], monkeypatch)
    lane._refused["orders", 0] += 1

    lane._finish()

    assert lane.tally.unknown.total() == 0
