"""What processes cost and how far a copy has come, seen from outside."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.faultkit.process import peak_rss_mb
from tests.faultkit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from services.local.region import Region
    from tests.bench.latency import Delays
    from tests.faultkit.process import RunningProcess
    from tests.judge.reading import ClusterAccess

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """User and system seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def brokers_cpu_s(region: Region) -> float:
    """User and system seconds of the brokers of a region so far."""
    return sum(cpu_s(broker.pid) for broker in region.brokers if broker.pid is not None)


class Ends:
    """End offsets of a topic, asked again and again."""

    def __init__(self, access: ClusterAccess, topic: str, partitions: int) -> None:
        self._consumer = Consumer({**access.client, "group.id": "bench"})
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
class Costs:
    """CPU seconds spent so far."""

    copier: float
    source: float
    target: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """How a piece of a backlog was copied."""

    seconds: float
    records: int
    """Copied inside the measured time."""
    cpu_s: float
    source_cpu_s: float
    target_cpu_s: float
    peak_rss_mb: float


def costs(processes: Sequence[RunningProcess], source: Region, target: Region) -> Costs:
    """What copier and brokers have used up to now."""
    return Costs(
        copier=sum(cpu_s(process.pid) for process in processes),
        source=brokers_cpu_s(source),
        target=brokers_cpu_s(target),
    )


def steady(found: Delays, before: Costs, after: Costs, peak_mb: float) -> Drain:
    """How a steady load was copied: what its reader got, which may be less than was offered."""
    return Drain(
        seconds=found.seconds,
        records=found.received,
        cpu_s=after.copier - before.copier,
        source_cpu_s=after.source - before.source,
        target_cpu_s=after.target - before.target,
        peak_rss_mb=peak_mb,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """When to measure: after `warm_s` seconds of copying, for at most `most_s`."""

    warm_s: float
    most_s: float
    deadline_s: float = 300.0


def drain(
    processes: Sequence[RunningProcess],
    regions: tuple[Region, Region],
    ends: Ends,
    records: int,
    window: Window,
) -> Drain:
    """Measure a part of the backlog; the first process is the one whose memory counts."""
    wait_until(lambda: ends.total() > 0, deadline_s=120, what="the first copied records")
    warm = time.monotonic() + window.warm_s
    wait_until(
        lambda: time.monotonic() >= warm or ends.total() >= records // 2,
        deadline_s=window.warm_s + 60,
        what="a warm copier",
    )
    began, before, already = time.monotonic(), costs(processes, *regions), ends.total()
    over = began + window.most_s
    wait_until(
        lambda: time.monotonic() >= over or ends.total() >= records,
        deadline_s=window.deadline_s,
        what=f"{records} copied records",
    )
    seconds, after = time.monotonic() - began, costs(processes, *regions)
    return Drain(
        seconds=seconds,
        records=min(ends.total(), records) - already,
        cpu_s=after.copier - before.copier,
        source_cpu_s=after.source - before.source,
        target_cpu_s=after.target - before.target,
        peak_rss_mb=peak_rss_mb(processes[0].pid),
    )
