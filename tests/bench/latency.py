"""Latency from producer to a reader of the copy, in a process of its own.

    python -m tests.bench.latency '{"source": {...}, "target": {...}, ...}'

Writes records with their time at a steady rate, reads the copy as a consumer of committed records
does, and prints the delays as JSON (milliseconds).
"""

from __future__ import annotations

import json
import struct
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.faultkit.waiting import wait_until

STAMP = struct.Struct(">d")
AFTER_S = 5.0
"""How long to wait for the last records at most."""


class Pauses:
    """The longest time in which a reader got nothing of some partition, under a steady load."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._last: dict[int, float] = {}

    def arrived(self, partition: int, now: float) -> None:
        """A record of that partition is there."""
        self.longest_s = max(self.longest_s, now - self._last.get(partition, now))
        self._last[partition] = now


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What to do; `source` and `target` are settings of librdkafka."""

    source: dict[str, Any]
    target: dict[str, Any]
    topic: str
    copy: str
    partitions: int
    record_bytes: int
    rate_s: int
    seconds: float


def measure(asked: Asked) -> dict[str, float]:
    """The delays at three quantiles, how many there were, and in how many seconds they came."""
    consumer = Consumer(
        {
            **asked.target,
            "group.id": "bench-latency",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 5,
            "enable.auto.commit": False,
        }
    )
    begin = [TopicPartition(asked.copy, number) for number in range(asked.partitions)]
    for each in begin:
        each.offset = _end(consumer, each)
    consumer.assign(begin)
    began = time.time()
    over = began + asked.seconds
    writer = threading.Thread(target=_write, args=(asked, over))
    writer.start()
    delays: list[float] = []
    pauses = Pauses()
    expected = int(asked.rate_s * asked.seconds)
    while (now := time.time()) < over + AFTER_S and (now < over or len(delays) < expected):
        # The first as soon as it is there, then what came with it: consume() alone waits its time.
        first = consumer.poll(0.02)
        for message in [] if first is None else [first, *consumer.consume(500, 0)]:
            if message.error() is None:
                (sent,) = STAMP.unpack_from(message.value() or b"")
                now = time.time()
                delays.append((now - sent) * 1_000)
                pauses.arrived(message.partition() or 0, now)
    seconds = time.time() - began
    writer.join()
    consumer.close()
    counted = {"expected": expected, "received": len(delays), "seconds": seconds}
    return {**counted, "stall_s": pauses.longest_s, **quantiles(delays)}


def _end(consumer: Consumer, partition: TopicPartition) -> int:
    """A topic that was just made may not be known everywhere yet."""
    _, found = wait_until(
        lambda: consumer.get_watermark_offsets(partition, timeout=10),
        deadline_s=30,
        what=f"the end of {partition.topic}-{partition.partition}",
        ignoring=(KafkaException,),
    )
    return int(found)


def _write(asked: Asked, over: float) -> None:
    producer = Producer({**asked.source, "linger.ms": 0})
    padding = b"x" * (asked.record_bytes - STAMP.size)
    began, number = time.time(), 0
    while (now := time.time()) < over:
        while number < (now - began) * asked.rate_s:
            value = STAMP.pack(time.time()) + padding
            producer.produce(asked.topic, value, partition=number % asked.partitions)
            number += 1
        producer.poll(0.001)
    producer.flush(30)


def quantiles(delays: list[float]) -> dict[str, float]:
    """The 50th, 99th and 99.9th percentile by nearest rank; -1 when there is none."""
    ordered = sorted(delays)
    return {
        f"{name}_ms": ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else -1
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))
    }


if __name__ == "__main__":
    print(json.dumps(measure(Asked(**json.loads(sys.argv[1])))))
