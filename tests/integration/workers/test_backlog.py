"""One partition is gigabytes behind while 99 others trickle: their records do not wait for it.

`MIRRORFLEET_FAULT_SECONDS=60` (`make faults`) makes the backlog 5 GB; else it is a tenth.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_right
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from tests.faultkit.hold import hold_sync
from tests.faultkit.markers import MarkerType, markers
from tests.faultkit.regions import data_directories
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import Fleet, slots_of
from tests.integration.mirror.making import ANSWER_S, create, producer, read
from tests.integration.workers.fleet import IS_LONG
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from services.local.region import Region
    from tests.faultkit.process import ServiceProcess

BACKLOG_MB: Final = 5_000 if IS_LONG else 500
BLOB: Final = 100_000
TRICKLING: Final = 99
EACH_S: Final = 0.2
"""Between two records of a trickling partition."""
P99_S: Final = 1.0


def fill(region: Region, topic: str) -> None:
    """Make the backlog of one partition."""
    blob = os.urandom(BLOB)
    to = producer(region, linger_ms=20, batch_size=900_000, queue_buffering_max_kbytes=262_144)
    for number in range(BACKLOG_MB * 1_000_000 // BLOB):
        while True:
            try:
                to.produce(topic, b"%012d" % number + blob, partition=0)
                break
            except BufferError:
                to.poll(0.1)
        to.poll(0)
    assert to.flush(ANSWER_S * 4) == 0


@contextmanager
def trickle(region: Region, topic: str) -> Iterator[None]:
    """A record to each partition now and again, until the end."""
    stop = threading.Event()

    def run() -> None:
        to = producer(region, linger_ms=0)
        number = 0
        while not stop.is_set():
            for partition in range(TRICKLING):
                to.produce(topic, b"%012d" % number, partition=partition)
                number += 1
            to.flush(ANSWER_S)
            hold_sync(EACH_S, reason="it trickles")

    thread = threading.Thread(target=run, name="trickle")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def latencies(west: Region, topic: str, begin_ms: int, end_ms: int) -> list[float]:
    """Seconds from a record's making to the moment at which its copy was visible, in order."""
    found = []
    for number, records in enumerate(read(west, topic, TRICKLING)):
        commits = [
            (one.offset, one.time_ms)
            for one in markers(data_directories(west), topic, number)
            if one.type is MarkerType.COMMIT
        ]
        offsets = [offset for offset, _ in commits]
        for record in records:
            if begin_ms <= record.timestamp <= end_ms:
                shown_ms = commits[bisect_right(offsets, record.offset)][1]
                found.append((shown_ms - record.timestamp) / 1000)
    return sorted(found)


def lag(mirror: ServiceProcess) -> int:
    """Records that wait to be copied."""
    return sum(int(str(slot["lag_records"])) for slot in slots_of(mirror))


@pytest.mark.long
@pytest.mark.timeout(400)
def test_the_trickle_of_99_partitions_does_not_wait_for_one_that_is_gigabytes_behind(
    east: Region, west: Region, tmp_path: Path
) -> None:
    rules = [{"name": "all", "topics": ["behind-.*"]}]
    fleet = Fleet("behind", east, west, tmp_path, rules=rules, slots=8)
    create(east, "behind-deep")
    create(east, "behind-live", TRICKLING)
    fill(east, "behind-deep")

    with fleet.sync(), trickle(east, "behind-live"), fleet.mirror() as mirror:
        mirror.wait_ready(60)
        wait_until(lambda: lag(mirror) > 0, deadline_s=30, what="the backlog to be seen")
        begin_ms = int(time.time() * 1000)
        wait_until(lambda: lag(mirror) < TRICKLING, deadline_s=300, what="the backlog to be copied")
        end_ms = int(time.time() * 1000)
        hold_sync(1.0, reason="the last records of the trickle")
    with fleet.mirror():
        report = fleet.judged(["behind-deep", "behind-live"])

    waits = latencies(west, "east.behind-live", begin_ms, end_ms)
    p50, p99 = (waits[int(len(waits) * part)] for part in (0.5, 0.99))
    seconds = (end_ms - begin_ms) / 1000
    print(
        f"{BACKLOG_MB} MB behind, copied in {seconds:.1f} s ({BACKLOG_MB / seconds:.0f} MB/s);"
        f" {len(waits)} trickling records meanwhile: p50 {p50:.3f} s, p99 {p99:.3f} s,"
        f" longest {waits[-1]:.3f} s"
    )
    assert report.verdict is Verdict.PASS
    assert p99 < P99_S
