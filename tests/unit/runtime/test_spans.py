"""Spans on their way out: never waited for, counted when lost, one word when it fails."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from mirrorfleet.runtime import metric_names as names
from mirrorfleet.runtime import spans as module
from mirrorfleet.runtime.spans import MOST_WAITING, SendError, SpanQueue, SpanRecord
from tests.faultkit.waiting import wait_until


def span(number: int = 1) -> SpanRecord:
    return SpanRecord(
        kind=names.COPY,
        subject="orders",
        trace_id=1,
        span_id=number,
        parent_id=None,
        start_ns=1,
        end_ns=2,
    )


class Collector:
    """Takes, refuses, or lets wait."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.refusing = False
        self.open = threading.Event()
        self.open.set()

    def __call__(self, spans: Sequence[SpanRecord]) -> None:
        self.open.wait(10)
        if self.refusing:
            raise SendError("503")
        self.taken += [each.span_id for each in spans]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHER_S", 0.005)


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.open.set()


def outcome(queue: SpanQueue, word: str) -> int:
    return int(dict(queue.outcomes())[(word,)])


def seen(condition: Callable[[], object], what: str) -> None:
    wait_until(condition, deadline_s=5, what=what)


def test_spans_are_delivered_in_order_and_counted(collector: Collector) -> None:
    queue = SpanQueue(collector, "http://c")

    queue.offer([span(1), span(2)])
    queue.offer([span(3)])

    seen(lambda: collector.taken == [1, 2, 3], "all spans")
    seen(lambda: outcome(queue, "delivered") == 3, "the count")
    queue.close(1)


def test_a_collector_that_hangs_costs_spans_and_no_time(collector: Collector) -> None:
    collector.open.clear()
    queue = SpanQueue(collector, "http://c")
    queue.offer([span(0)])
    seen(lambda: not queue._waiting, "the first delivery to begin")

    for number in range(1, MOST_WAITING + 11):
        queue.offer([span(number)])

    assert outcome(queue, "dropped") == 10
    assert len(queue._waiting) == MOST_WAITING
    queue.close(0.01)  # does not wait for it either


def test_a_trace_is_taken_whole_or_not_at_all(collector: Collector) -> None:
    collector.open.clear()
    queue = SpanQueue(collector, "http://c")

    queue.offer([span()] * (MOST_WAITING + 1))

    assert (outcome(queue, "dropped"), len(queue._waiting)) == (MOST_WAITING + 1, 0)
    queue.close(0.01)


def test_failures_are_counted_and_said_once_and_the_end_of_them_too(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    collector.refusing = True
    queue = SpanQueue(collector, "http://c")
    for number in range(3):
        queue.offer([span(number)])
        seen(lambda: outcome(queue, "failed") == number + 1, "a failure")  # noqa: B023 - awaited here
    collector.refusing = False
    queue.offer([span(9)])
    seen(lambda: outcome(queue, "delivered") == 1, "a delivery")
    queue.close(1)

    assert [record.message for record in caplog.records] == [
        "traces are not delivered",
        "traces are delivered again",
    ]
    assert caplog.records[0].__dict__["error"] == "http://c: 503"


def test_what_waits_is_delivered_at_the_end(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GATHER_S", 60)
    queue = SpanQueue(collector, "http://c")
    queue.offer([span(7)])

    queue.close(5)

    assert collector.taken == [7]
