"""Memory, idle CPU and the time to take all, with many partitions: `python -m tests.bench.many`.

    python -m tests.bench.many [--partitions 10000]

One record waits in each partition. The clock runs from the start of the worker until each of them
lies in the copy; then nothing comes any more, and what is spent is what being there costs.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Final

from tests.bench.measure import costs
from tests.bench.sides import pair
from tests.bench.workloads import Workload, create, fill
from tests.faultkit.estate import write_estate
from tests.faultkit.hold import hold_sync
from tests.faultkit.process import peak_rss_mb, service
from tests.faultkit.waiting import wait_until
from tests.judge.reading import At, ReadingError, ends_of, partitions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.bench.sides import Side

IN_TOPIC: Final = 100
SLOTS: Final = 16
FLEET: Final = "many"
DEADLINE_S: Final = 600.0
SETTLE_S: Final = 20.0
IDLE_S: Final = 30.0
ONE_EACH: Final = Workload(
    name="many", partitions=IN_TOPIC, record_bytes=10_000, megabytes=1, batch_records=1
)


def run(east: Side, west: Side, directory: Path, partitions: int) -> None:
    """Fill, take, idle, print."""
    topics = [f"many-{number}" for number in range(partitions // IN_TOPIC)]
    for topic in topics:
        create(east.access, topic, IN_TOPIC)
        fill(east.access, topic, ONE_EACH)
    logs = directory / FLEET
    estate = write_estate(
        logs,
        source=east.bootstrap,
        target=west.bootstrap,
        fleet=FLEET,
        topics=["many-.*"],
        slots=SLOTS,
    )
    copies = [f"east.{topic}" for topic in topics]
    regions = (east.region, west.region)
    with service("sync", estate=estate, target="west", logs=logs):
        began = time.monotonic()
        _until(lambda: _made(west, copies) == partitions, "copies to be made")
        print(f"sync made {partitions} partitions in {time.monotonic() - began:.1f} s", flush=True)
        began = time.monotonic()
        with service("mirror", estate=estate, target="west", logs=logs) as mirror:
            _until(lambda: _copied(west, copies) == partitions, "records to be copied")
            print(f"all copied {time.monotonic() - began:.1f} s after the start of the worker")
            spent = costs([mirror], *regions)
            print(f"it took {spent.copier:.1f} CPU-s, {peak_rss_mb(mirror.pid):.0f} MB", flush=True)
            hold_sync(SETTLE_S, reason="until nothing of the taking is left to do")
            before = costs([mirror], *regions)
            hold_sync(IDLE_S, reason="the measured time")
            after = costs([mirror], *regions)
    for name in ("copier", "source", "target"):
        core = (getattr(after, name) - getattr(before, name)) / IDLE_S
        print(f"idle, {name}: {core:.3f} core", flush=True)


def _until(reached: Callable[[], bool], what: str) -> None:
    wait_until(reached, deadline_s=DEADLINE_S, what=what, ignoring=(ReadingError,))


def _made(side: Side, topics: Sequence[str]) -> int:
    return sum(len(found) for found in partitions_of(side.access, topics).values())


def _copied(side: Side, topics: Sequence[str]) -> int:
    """Partitions with committed records in them."""
    wanted = [At(topic, number) for topic in topics for number in range(IN_TOPIC)]
    return sum(ends.committed > 0 for ends in ends_of(side.access, wanted).values())


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.many", description="Many.")
    parser.add_argument("--partitions", type=int, default=10_000)
    options = parser.parse_args()
    if options.partitions <= 0 or options.partitions % IN_TOPIC:
        parser.error(f"--partitions must be a multiple of {IN_TOPIC}, the partitions of a topic")
    with pair() as (east, west, directory):
        run(east, west, directory, options.partitions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
