"""`make bench`: the shipped service on real brokers, figures printed whatever they are.

    python -m tests.bench [--workload 1k-plain] [--rounds 3] [--json FILE]
    python -m tests.bench --bytes-a-day

A round fills a topic, then starts the mirror on the backlog and measures from its first copied
record to its last. The median of the rounds counts. One round before them warms the brokers: their
Java code is interpreted at first and costs three times as much.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from services.local.region import Region, RegionSpec, Tuning, start_regions
from tests.bench import footprint
from tests.bench.measure import Drain, Ends, drain
from tests.bench.workloads import WORKLOADS, Workload, create, fill
from tests.faultkit.estate import write_estate
from tests.faultkit.process import service
from tests.faultkit.regions import access, address
from tests.faultkit.waiting import wait_until
from tests.judge.reading import partitions_of

if TYPE_CHECKING:
    from collections.abc import Iterator

HOME = Path(__file__).resolve().parents[2] / ".local"
DEADLINE_S = 300.0
NOT_MEASURED = (
    "src_broker_cpu_s_per_gb",
    "dst_broker_cpu_s_per_gb",
    "p50_ms",
    "p99_ms",
    "p999_ms",
    "stall_s",
)


@dataclass(frozen=True, slots=True)
class Figures:
    """One round in the units of the table."""

    mb_s: float
    records_s: float
    cpu_s_per_gb: float
    records_per_core_s: float
    rss_mb: float


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; 0 when it ran."""
    options = _parser().parse_args(arguments)
    with pair() as (east, west, directory):
        if options.bytes_a_day:
            footprint.run(east, west, directory, partitions=options.partitions)
            return 0
        workload = WORKLOADS[options.workload]
        rounds = [_round(workload, n, east, west, directory) for n in range(options.rounds + 1)]
    _show(workload, rounds[1:], options.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure.")
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="1k-plain")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=HOME / "bench" / "latest.json")
    parser.add_argument("--bytes-a-day", action="store_true")
    parser.add_argument("--partitions", type=int, default=1_000)
    return parser


@contextmanager
def pair() -> Iterator[tuple[Region, Region, Path]]:
    """Two regions with production flags, gone afterwards."""
    HOME.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="bench-", dir=HOME))
    specs = [
        RegionSpec(name=name, tuning=Tuning.STEADY, heap_mb=1_024) for name in ("east", "west")
    ]
    try:
        regions = start_regions(specs, directory)
        try:
            yield regions[0], regions[1], directory
        finally:
            for region in regions:
                region.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _round(workload: Workload, number: int, east: Region, west: Region, directory: Path) -> Figures:
    topic = f"bench-{workload.name}-{number}"
    fleet = f"bench{number}"
    estate = write_estate(
        directory / fleet,
        source=address(east),
        target=address(west),
        fleet=fleet,
        topics=[topic],
    )
    logs = directory / fleet
    name = f"round {number}" if number else "to warm up"
    _say(f"{name}: filling {workload.megabytes} MB")
    create(address(east), topic, workload.partitions)
    fill(address(east), topic, workload)
    with service("sync", estate=estate, target="west", logs=logs) as sync:
        sync.wait_ready(60)
        _wait_for(west, f"east.{topic}", workload.partitions)
        with service("mirror", estate=estate, target="west", logs=logs) as mirror:
            ends = Ends(address(west), f"east.{topic}", workload.partitions)
            figures = _figures(workload, drain(mirror, ends, workload.records, DEADLINE_S))
    _say(f"{name}: {figures.mb_s:.0f} MB/s, {figures.cpu_s_per_gb:.2f} CPU-s per GB")
    return figures


def _wait_for(region: Region, topic: str, partitions: int) -> None:
    """Sync makes the target topic; the mirror is measured, not sync."""
    target = access(region)
    wait_until(
        lambda: len(partitions_of(target, [topic]).get(topic, [])) == partitions,
        deadline_s=30,
        what=f"sync to make {topic}",
    )


def _figures(workload: Workload, drained: Drain) -> Figures:
    copied_mb = workload.megabytes * drained.share
    records = workload.records * drained.share
    return Figures(
        mb_s=copied_mb / drained.seconds,
        records_s=records / drained.seconds,
        cpu_s_per_gb=drained.cpu_s / copied_mb * 1_000,
        records_per_core_s=records / drained.cpu_s,
        rss_mb=drained.peak_rss_mb,
    )


def _show(workload: Workload, rounds: list[Figures], file: Path) -> None:
    def median(field: str) -> float:
        values: list[float] = [getattr(each, field) for each in rounds]
        return statistics.median(values)

    row: dict[str, object] = {
        "workload": workload.name,
        "delivery": "exactly-once",
        "system": "fleet",
        "kafka": RegionSpec(name="any").kafka,
        "rtt_ms": 0,
        "security": "plaintext",
        **{field: round(median(field), 3) for field in Figures.__slots__},
    }
    row |= dict.fromkeys(NOT_MEASURED)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([row], indent=1) + "\n")
    _say(
        f"{workload.name}, exactly-once, median of {len(rounds)}: {median('mb_s'):.0f} MB/s, "
        f"{median('cpu_s_per_gb'):.2f} CPU-s per GB, "
        f"{median('records_per_core_s') / 1e6:.2f} M records per core-second, "
        f"{median('rss_mb'):.0f} MB resident"
    )
    _say(f"written to {file}")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
