"""Latency from producer to a reader of the copy, in a process of its own.

    python -m tests.bench.latency '{"source": {...}, "target": {...}, ...}'

Writes records with their time at a steady rate, reads the copy as a consumer of committed records
does, and prints the delays as JSON (milliseconds).
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.faultkit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.systems import Bench
    from tests.bench.workloads import Workload

ROOT: Final = Path(__file__).resolve().parents[2]
STAMP: Final = struct.Struct(">d")
AFTER_S: Final = 5.0
"""How long to wait for the last records at most."""
ENOUGH: Final = 0.99
"""The part of the records that must have come before anything is said of their delays."""
QUANTILES: Final = (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))


class Writes(Protocol):
    """What is asked of librdkafka's producer."""

    def produce(self, topic: str, value: bytes, *, partition: int) -> None: ...
    def poll(self, timeout: float) -> int: ...
    def flush(self, timeout: float) -> int: ...


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

    @property
    def expected(self) -> int:
        """How many records are written."""
        return int(self.rate_s * self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """What a reader of the copy saw; None where too little came to say it."""

    expected: int
    received: int
    seconds: float
    """In which they came."""
    stall_s: float | None
    p50_ms: float | None
    p99_ms: float | None
    p999_ms: float | None

    def waits(self) -> dict[str, float | None]:
        """The figures of a row."""
        return {
            "p50_ms": self.p50_ms,
            "p99_ms": self.p99_ms,
            "p999_ms": self.p999_ms,
            "stall_s": self.stall_s,
        }


def delays(bench: Bench, workload: Workload, topics: tuple[str, str], seconds: float) -> Delays:
    """What a reader of the copy waits, under a steady load on `topics`: source and copy."""
    asked = {
        "source": bench.source.access.client,
        "target": bench.target.access.client,
        "topic": topics[0],
        "copy": topics[1],
        "partitions": workload.partitions,
        "record_bytes": workload.record_bytes,
        "rate_s": workload.paced_s,
        "seconds": seconds,
    }
    answer = subprocess.run(
        [sys.executable, "-m", "tests.bench.latency", json.dumps(asked)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    return Delays(**json.loads(answer.stdout))


def measure(asked: Asked) -> Delays:
    """Write, and read the copy until all is there or the time is up."""
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
    delays: list[float] = []
    pauses = Pauses()
    with ThreadPoolExecutor(1) as pool:
        producer = Producer({**asked.source, "linger.ms": 0})
        writing = pool.submit(write, producer, asked, over + AFTER_S)
        while (now := time.time()) < over + AFTER_S and (
            now < over or len(delays) < asked.expected
        ):
            # The first as soon as it is there, then what came with it: consume() waits its time.
            first = consumer.poll(0.02)
            for message in [] if first is None else [first, *consumer.consume(500, 0)]:
                if message.error() is None:
                    (sent,) = STAMP.unpack_from(message.value() or b"")
                    now = time.time()
                    delays.append((now - sent) * 1_000)
                    pauses.arrived(message.partition() or 0, now)
        seconds = time.time() - began
        writing.result()  # what ended it ends the measurement
    consumer.close()
    return seen(delays, asked.expected, seconds, pauses)


def _end(consumer: Consumer, partition: TopicPartition) -> int:
    """A topic that was just made may not be known everywhere yet."""
    _, found = wait_until(
        lambda: consumer.get_watermark_offsets(partition, timeout=10),
        deadline_s=30,
        what=f"the end of {partition.topic}-{partition.partition}",
        ignoring=(KafkaException,),
    )
    return int(found)


def write(producer: Writes, asked: Asked, give_up_at: float) -> None:
    """All records, each when it is due; those that the queue has no room for until then are left.

    `give_up_at` is a time of day.
    """
    padding = b"x" * (asked.record_bytes - STAMP.size)
    began, number = time.time(), 0
    while number < asked.expected and (now := time.time()) < give_up_at:
        due = min((now - began) * asked.rate_s, asked.expected)
        while number < due and _has_taken(producer, asked, number, padding):
            number += 1
        producer.poll(0.001)  # also makes room: what was delivered leaves the queue
    producer.flush(30)


def _has_taken(producer: Writes, asked: Asked, number: int, padding: bytes) -> bool:
    value = STAMP.pack(time.time()) + padding
    try:
        producer.produce(asked.topic, value, partition=number % asked.partitions)
    except BufferError:
        return False
    return True


def seen(delays: Sequence[float], expected: int, seconds: float, pauses: Pauses) -> Delays:
    """What is told of the delays; nothing of their length when too many never came."""
    is_enough = bool(delays) and len(delays) >= expected * ENOUGH
    return Delays(
        expected=expected,
        received=len(delays),
        seconds=seconds,
        stall_s=pauses.longest_s if is_enough else None,
        **quantiles(delays if is_enough else [], expected),
    )


def quantiles(delays: Sequence[float], expected: int = 0) -> dict[str, float | None]:
    """The 50th, 99th and 99.9th percentile by nearest rank.

    Of `expected` records those that did not come are infinitely late: None, as when none came.
    """
    ordered = sorted(delays)
    count = max(expected, len(ordered))
    ranks = {f"{name}_ms": int(count * share) for name, share in QUANTILES}
    return {name: ordered[rank] if rank < len(ordered) else None for name, rank in ranks.items()}


if __name__ == "__main__":
    print(json.dumps(asdict(measure(Asked(**json.loads(sys.argv[1]))))))
