"""What telemetry costs at full speed: the same backlog copied with and without it, in turns.

    python -m tests.bench.telemetry [--rounds 3] [--megabytes 1500]

    off       no address to send traces to
    sampling  a trace a second, delivered to a collector
    joining   as sampling, and the hop before traces too, so that stamps of all batches are kept

CPU of the worker counts, because it is what telemetry takes from copying; the median of the rounds
is compared. The cost of a batch in the worker's own code is timed apart from all noise.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import timeit
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

import yaml
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from mirrorfleet.copying.budget import FrameLease, MemoryBudget
from mirrorfleet.copying.partition import Pace, Queued
from mirrorfleet.copying.sampling import SampleBudget
from mirrorfleet.core.ids import SlotNumber, SourceOffset
from mirrorfleet.records import traces
from mirrorfleet.records.traces import SampledBatch
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.runtime.metrics import Metrics
from mirrorfleet.runtime.telemetry import OFF
from mirrorfleet.slots.tracing import LinkTraces
from mirrorfleet.wire.copybatch import CopyBatch
from tests.bench.measure import Ends, Window, drain
from tests.bench.sides import pair
from tests.bench.workloads import MEGABYTE, WORKLOADS, Workload, create, fill
from tests.faultkit.collector import collector
from tests.faultkit.process import service
from tests.faultkit.regions import access, address
from tests.faultkit.waiting import wait_until
from tests.unit.copying.making import LINK, slot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from services.local.region import Region

MODES = ("off", "sampling", "joining")
UPSTREAM = "__mirrorfleet.upstream.progress"
TOPIC = "backlog"
TIMES = 20_000
TRIES = 10
ALL = Window(warm_s=0, most_s=300)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.telemetry", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=1_500)
    options = parser.parse_args(arguments)
    workload = replace(WORKLOADS["1k-plain"], megabytes=options.megabytes)
    found: dict[str, list[float]] = {mode: [] for mode in MODES}
    with ExitStack() as stack:
        source, target, directory = stack.enter_context(pair())
        east, west = source.region, target.region
        stack.enter_context(_announcing(east))
        create(source.access, TOPIC, workload.partitions)
        fill(source.access, TOPIC, workload)
        for number in range(options.rounds):
            for mode in MODES:
                name = f"{mode}{number}"
                found[mode].append(_copy(mode, name, workload, east, west, directory))
    _show(found)
    return 0


def _copy(
    mode: str, name: str, workload: Workload, east: Region, west: Region, directory: Path
) -> float:
    """CPU-seconds of the worker for a gigabyte."""
    logs, target_topic = directory / name, f"{name}.{TOPIC}"
    with collector() as otlp:
        estate = _estate(mode, name, otlp.url, east, west, logs)
        with service("sync", estate=estate, target="west", logs=logs):
            ends = Ends(access(west), target_topic, workload.partitions)
            wait_until(
                lambda: ends.total() == 0,
                deadline_s=30,
                what=f"sync to make {target_topic}",
                ignoring=(KafkaException,),
            )
            with service("mirror", estate=estate, target="west", logs=logs) as mirror:
                drained = drain([mirror], (east, west), ends, workload.records, ALL)
        spans = len(otlp.spans())
    admin = AdminClient({"bootstrap.servers": address(west)})  # kept: its end cancels the futures
    admin.delete_topics([target_topic])[target_topic].result(30)
    copied_mb = drained.records * workload.record_bytes / MEGABYTE
    cost = drained.cpu_s / copied_mb * 1_000
    rate = copied_mb / drained.seconds
    print(f"{name:12} {rate:6.0f} MB/s  {cost:5.2f} CPU-s per GB  {spans} spans", flush=True)
    return cost


def _estate(mode: str, name: str, url: str, east: Region, west: Region, logs: Path) -> Path:
    """A source alias of its own for each round, so that each makes a copy of its own."""
    logs.mkdir(parents=True, exist_ok=True)
    upstream = "upstream" if mode == "joining" else "nobody"
    rule = {"name": "all", "topics": [TOPIC]}
    estate = {
        "estate": name,
        "clusters": {
            name: {"bootstrap": address(east), "fleet": upstream},
            "west": {"bootstrap": address(west), "fleet": name},
        },
        "links": [{"from": name, "to": "west", "slots": 4, "rules": [rule]}],
        "telemetry": {} if mode == "off" else {"endpoint": url},
    }
    path = logs / "estate.yaml"
    path.write_text(yaml.safe_dump(estate))
    return path


@contextmanager
def _announcing(region: Region) -> Iterator[None]:
    """A hop before that traces two batches a second, of a topic that nobody copies."""
    create(access(region), UPSTREAM, 4)
    ended = threading.Event()
    producer = Producer({"bootstrap.servers": address(region)})

    def run() -> None:
        number = 0
        while not ended.wait(0.5):
            number += 1
            batch = SampledBatch(
                topic_id=UUID(int=1),
                partition=0,
                first=number,
                count=1,
                trace_id=1,
                span_id=number,
                committed_ms=0,
                hop=1,
            )
            key, value = traces.encode(SlotNumber(0), [batch])
            producer.produce(UPSTREAM, value, key, partition=0)
            producer.flush(5)

    thread = threading.Thread(target=run, name="upstream", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10)


def _show(found: dict[str, list[float]]) -> None:
    base = statistics.median(found["off"])
    for mode in MODES:
        cost = statistics.median(found[mode])
        print(f"{mode:9} {cost:5.3f} CPU-s per GB, {(cost / base - 1) * 100:+5.1f} %")
    batches = 1_000 * MEGABYTE / WORKLOADS["1k-plain"].batch_bytes
    for mode, seconds in (("sampling", _batch_s(0)), ("joining", _batch_s(1))):
        share = seconds * batches / base * 100
        print(f"{mode:9} {seconds * 1e6:5.2f} us a batch, {share:.2f} % of the CPU of a gigabyte")


def _batch_s(announced: int) -> float:
    """Seconds that a batch that is not sampled takes, in this process."""
    clock = SystemClock()
    partition = next(iter(slot().partitions.values()))
    link = LinkTraces(LINK, OFF, Metrics(), clock, budget=SampleBudget(0), announce=lambda *_: None)
    batch = SampledBatch(
        topic_id=UUID(int=1),
        partition=0,
        first=0,
        count=1,
        trace_id=1,
        span_id=1,
        committed_ms=0,
        hop=1,
    )
    link.announced([batch] * announced)
    copied = CopyBatch(
        payload=b"",
        payload_crc=0,
        attributes=0,
        count=64,
        base_timestamp=0,
        max_timestamp=0,
        first=SourceOffset(0),
        next_offset=SourceOffset(64),
    )
    queued = Queued(copied, FrameLease(MemoryBudget(1).account(), 1), clock.monotonic(), Pace.LIVE)
    now = clock.monotonic()
    runs = timeit.repeat(
        lambda: link.acknowledged(partition, queued, 0, now), number=TIMES, repeat=TRIES
    )
    return min(runs) / TIMES


if __name__ == "__main__":
    sys.exit(main())
