"""One partition is gigabytes behind while 99 others trickle: their records do not wait for it.

`MIRRORFLEET_FAULT_SECONDS=60` (`make faults`) makes the backlog 5 GB; else it is a tenth.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_right
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from tests.faultkit.hold import IS_LONG, hold_sync
from tests.faultkit.markers import MarkerType, markers
from tests.faultkit.regions import data_directories
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import Fleet, slots_of
from tests.integration.mirror.making import ANSWER_S, create, producer, read
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from confluent_kafka import Message

    from services.local.region import Region
    from tests.faultkit.process import ServiceProcess

BACKLOG_MB: Final = 5_000 if IS_LONG else 500
BLOB: Final = 100_000
TRICKLING: Final = 99
EACH_S: Final = 0.2
"""Between two records of a trickling partition."""
P99_S: Final = 1.0


def fill(region: Region, topic: str) -> None:
    """Make the backlog of one partition, and have it on the disk.

    An old backlog is. Written while it is copied, the page cache of all that writes fills up
    (vm.dirty_ratio) and nothing is appended for seconds, whoever copies.
    """
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
    os.sync()


@contextmanager
def trickle(region: Region, topic: str) -> Iterator[Mapping[bytes, float]]:
    """A record to each partition now and again, until the end; gives when each was acknowledged.

    Before that nobody can copy it, and a source that has just taken gigabytes is slow at times.
    """
    stop = threading.Event()
    acked: dict[bytes, float] = {}

    def heard(error: object, message: Message) -> None:
        if error is None:
            acked[message.value() or b""] = time.time() * 1000

    def run() -> None:
        to = producer(region, linger_ms=0)
        number = 0
        while not stop.is_set():
            for partition in range(TRICKLING):
                to.produce(topic, b"%012d" % number, partition=partition, on_delivery=heard)
                number += 1
            to.flush(ANSWER_S)
            hold_sync(EACH_S, reason="it trickles")

    thread = threading.Thread(target=run, name="trickle")
    thread.start()
    try:
        yield acked
    finally:
        stop.set()
        thread.join()


class Wait(NamedTuple):
    """Seconds from a record's acknowledgement to the moment at which its copy was visible."""

    seconds: float
    partition: int
    since_s: float
    """When it was acknowledged, after the backlog was seen."""


def latencies(
    west: Region, topic: str, acked: Mapping[bytes, float], begin_ms: int, end_ms: int
) -> list[Wait]:
    """How long each record waited, in order."""
    found = []
    for number, records in enumerate(read(west, topic, TRICKLING)):
        commits = [
            (one.offset, one.time_ms)
            for one in markers(data_directories(west), topic, number)
            if one.type is MarkerType.COMMIT
        ]
        offsets = [offset for offset, _ in commits]
        for record in records:
            acked_ms = acked[record.value or b""]
            if begin_ms <= acked_ms <= end_ms:
                shown_ms = commits[bisect_right(offsets, record.offset)][1]
                waited_s = max(shown_ms - acked_ms, 0) / 1000
                found.append(Wait(waited_s, number, (acked_ms - begin_ms) / 1000))
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

    with fleet.sync(), trickle(east, "behind-live") as acked, fleet.mirror() as mirror:
        mirror.wait_ready(60)
        some = BACKLOG_MB * 1_000_000 // BLOB // 2  # the trickle alone is no backlog
        wait_until(lambda: lag(mirror) > some, deadline_s=30, what="the backlog to be seen")
        begin_ms = int(time.time() * 1000)
        wait_until(lambda: lag(mirror) < TRICKLING, deadline_s=300, what="the backlog to be copied")
        end_ms = int(time.time() * 1000)
        hold_sync(1.0, reason="the last records of the trickle")
    with fleet.mirror():
        report = fleet.judged(["behind-deep", "behind-live"])

    waits = latencies(west, "east.behind-live", acked, begin_ms, end_ms)
    p50, p99 = (waits[int(len(waits) * part)].seconds for part in (0.5, 0.99))
    seconds = (end_ms - begin_ms) / 1000
    print(
        f"{BACKLOG_MB} MB behind, copied in {seconds:.1f} s ({BACKLOG_MB / seconds:.0f} MB/s);"
        f" {len(waits)} trickling records meanwhile: p50 {p50:.3f} s, p99 {p99:.3f} s,"
        f" longest {waits[-1].seconds:.3f} s"
    )
    for wait in waits[: -len(waits) // 100 : -20]:
        print(f"{wait.seconds:.2f} s: partition {wait.partition}, at {wait.since_s:.1f} s")
    assert report.verdict is Verdict.PASS
    assert p99 < P99_S
