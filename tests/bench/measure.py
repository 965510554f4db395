"""What a process costs and how far a copy has come, seen from outside."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.faultkit.process import RunningProcess
from tests.faultkit.waiting import wait_until

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """User and system seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_rss_mb(pid: int) -> float:
    """Most resident memory that a process ever had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


class Ends:
    """End offsets of a topic, asked again and again."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench"})
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self._ends = [0] * partitions

    def total(self) -> int:
        """Sum of the end offsets; control records count as well.

        A partition whose new leader is not known everywhere yet counts with its last end.
        """
        for number, partition in enumerate(self._partitions):
            with contextlib.suppress(KafkaException):
                self._ends[number] = self._consumer.get_watermark_offsets(
                    partition, timeout=10, cached=False
                )[1]
        return sum(self._ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """How a backlog was copied."""

    seconds: float
    cpu_s: float
    share: float
    """Part of the backlog inside the measured time."""
    peak_rss_mb: float


def drain(process: RunningProcess, ends: Ends, records: int, deadline_s: float) -> Drain:
    """Measure from the first records on the target until all are there."""
    wait_until(lambda: ends.total() > 0, deadline_s=60, what="the first copied records")
    began, cpu, already = time.monotonic(), cpu_s(process.pid), ends.total()
    wait_until(
        lambda: ends.total() >= records, deadline_s=deadline_s, what=f"{records} copied records"
    )
    return Drain(
        seconds=time.monotonic() - began,
        cpu_s=cpu_s(process.pid) - cpu,
        share=max(0.0, 1 - already / records),
        peak_rss_mb=peak_rss_mb(process.pid),
    )
