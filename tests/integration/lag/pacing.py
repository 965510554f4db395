"""A producer at a steady pace, and the truth about lag: append times that the source's broker gave.

The topic has `message.timestamp.type=LogAppendTime`, so each record's timestamp is the moment at
which it was appended, on the same clock as everything else on this machine.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.records import heartbeat, samples
from mirrorfleet.records.heartbeat import Heartbeat
from mirrorfleet.records.samples import Sample
from tests.integration.lag.fleet import SLOTS
from tests.integration.mirror.making import producer, read

if TYPE_CHECKING:
    from services.local.region import Region

LINGER_MS = 5
EAST, WEST = ClusterAlias("east"), ClusterAlias("west")


class Pace:
    """`rate` records a second into each partition of a topic, and a heartbeat, from a thread."""

    def __init__(self, region: Region, topic: str, partitions: int, rate: float) -> None:
        self._producer = producer(region, linger_ms=LINGER_MS)
        self._topic, self._partitions, self._pause_s = topic, partitions, 1 / rate
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pace", daemon=True)

    def _run(self) -> None:
        number = 0
        while not self._ended.wait(self._pause_s):
            for partition in range(self._partitions):
                self._producer.produce(self._topic, b"%020d" % number, b"k", partition)
            if number % int(1 / self._pause_s) == 0:
                key, value = heartbeat.encode(Heartbeat(EAST, WEST, time.time_ns() // 1_000_000))
                self._producer.produce(heartbeat.TOPIC, value, key)
            self._producer.poll(0)
            number += 1

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End it; everything is acknowledged then."""
        self._ended.set()
        self._thread.join(5)
        assert self._producer.flush(10) == 0


@contextmanager
def pace(region: Region, topic: str, partitions: int, *, rate: float) -> Iterator[Pace]:
    running = Pace(region, topic, partitions, rate)
    running.start()
    try:
        yield running
    finally:
        running.stop()


@dataclass(frozen=True)
class Truth:
    """Offsets and append times (ms) of one source partition, in order."""

    offsets: list[int]
    times: list[int]

    def lag_ms(self, position: int, as_of_ms: int) -> int:
        """Age of the first record at or above `position`, as of a moment; 0 when there was none."""
        at = bisect_right(self.offsets, position - 1)
        if at == len(self.offsets) or self.times[at] > as_of_ms:
            return 0
        return as_of_ms - self.times[at]


def truths(region: Region, topic: str, partitions: int) -> list[Truth]:
    """The truth about each partition, from its log."""
    return [
        Truth([one.offset for one in log], [one.timestamp for one in log])
        for log in read(region, topic, partitions)
    ]


def samples_of(region: Region, fleet: str, topic: str) -> list[Sample]:
    """All samples of a topic, in the order of their times."""
    logs = read(region, f"__mirrorfleet.{fleet}.samples", SLOTS)
    found = [samples.decode(one.key, one.value) for log in logs for one in log]
    wanted = [one for one in found if isinstance(one, Sample) and one.topic == topic]
    return sorted(wanted, key=lambda one: one.time_ms)
