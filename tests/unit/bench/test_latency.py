from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.bench.latency import Asked, Pauses, quantiles, seen, write

if TYPE_CHECKING:
    from collections.abc import Mapping

THOUSAND = [float(number) for number in range(1, 1_001)]
ASKED = Asked(
    source={},
    target={},
    topic="paced",
    copy="east.paced",
    partitions=2,
    record_bytes=20,
    rate_s=1_000_000_000,
    seconds=1e-8,  # ten records, all due at once
)


class Queue:
    """librdkafka's queue of a producer: it has room for so many; a poll delivers all of them."""

    def __init__(self, room: int, *, is_stuck: bool = False) -> None:
        self.partitions: list[int] = []
        self.refused = 0
        self.is_flushed = False
        self._room = self._left = room
        self._is_stuck = is_stuck

    def produce(self, topic: str, value: bytes, *, partition: int) -> None:
        assert (topic, len(value)) == (ASKED.topic, ASKED.record_bytes)
        if not self._left:
            self.refused += 1
            raise BufferError("Local: Queue full")
        self._left -= 1
        self.partitions.append(partition)

    def poll(self, timeout: float) -> int:
        del timeout
        self._left = self._left if self._is_stuck else self._room
        return 0

    def flush(self, timeout: float) -> int:
        del timeout
        self.is_flushed = True
        return 0


def test_a_writer_whose_queue_is_full_goes_on_when_it_has_room_and_writes_all() -> None:
    queue = Queue(3)

    write(queue, ASKED, time.time() + 60)

    assert (queue.partitions, queue.is_flushed) == ([0, 1] * 5, True)
    assert queue.refused > 0


def test_a_writer_whose_queue_stays_full_gives_up_in_time() -> None:
    queue = Queue(3, is_stuck=True)

    write(queue, ASKED, time.time() + 0.05)

    assert (queue.partitions, queue.is_flushed) == ([0, 1, 0], True)


def test_a_pause_is_of_one_partition_and_not_of_all_together() -> None:
    pauses = Pauses()
    for partition, now in ((0, 1.0), (1, 1.5), (0, 3.5), (1, 3.75)):
        pauses.arrived(partition, now)
    assert pauses.longest_s == 2.5


def test_quantiles_by_nearest_rank() -> None:
    assert quantiles(THOUSAND) == {"p50_ms": 501.0, "p99_ms": 991.0, "p999_ms": 1_000.0}
    assert quantiles([]) == {"p50_ms": None, "p99_ms": None, "p999_ms": None}


def test_a_record_that_never_came_is_later_than_all_that_came() -> None:
    assert quantiles(THOUSAND[:995], 1_000) == {
        "p50_ms": 501.0,
        "p99_ms": 991.0,
        "p999_ms": None,
    }


@pytest.mark.parametrize(
    ("received", "told"),
    [
        (1_000, {"p50_ms": 501.0, "p99_ms": 991.0, "p999_ms": 1_000.0, "stall_s": 2.0}),
        (991, {"p50_ms": 501.0, "p99_ms": 991.0, "p999_ms": None, "stall_s": 2.0}),
        (989, {"p50_ms": None, "p99_ms": None, "p999_ms": None, "stall_s": None}),
        (0, {"p50_ms": None, "p99_ms": None, "p999_ms": None, "stall_s": None}),
    ],
)
def test_no_delay_is_told_of_a_copy_that_too_little_came_of(
    received: int, told: Mapping[str, float | None]
) -> None:
    pauses = Pauses()
    for now in (1.0, 3.0):
        pauses.arrived(0, now)

    found = seen(THOUSAND[:received], 1_000, 20.0, pauses)

    assert (found.expected, found.received, found.seconds) == (1_000, received, 20.0)
    assert found.waits() == told
