"""Snapshots as a mirror writes them, of partitions that are said to be wherever a test wants."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.records import catalog, progress
from mirrorfleet.records.catalog import CatalogPartition
from mirrorfleet.records.progress import PartitionProgress, Progress
from tests.integration.mirror.making import producer, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from services.local.region import Region
    from tests.integration.mirror.fleet import Fleet

EVERY_S = 0.3


def catalog_of(region: Region, fleet: Fleet) -> list[CatalogPartition]:
    """The partitions that the fleet copies."""
    records = [one for log in read(region, fleet.control("catalog"), 1) for one in log]
    found = [catalog.decode(one.key, one.value) for one in records]
    return [entry for entry in found if isinstance(entry, CatalogPartition)]


class Puppet:
    """Reports one partition as copied up to `position`, a few times a second."""

    def __init__(self, region: Region, fleet: Fleet, entry: CatalogPartition) -> None:
        self.position = 0
        self._entry = entry
        self._topic = fleet.control("progress")
        self._producer = producer(region, linger_ms=0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="puppet", daemon=True)

    def write(self, key: bytes, value: bytes) -> None:
        """Any record into the slot's partition."""
        self._producer.produce(self._topic, value, key, self._entry.slot)
        assert self._producer.flush(10) == 0

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            self.write(*progress.encode(self._snapshot()))

    def _snapshot(self) -> Progress:
        now_ms, entry = time.time_ns() // 1_000_000, self._entry
        said = PartitionProgress(
            identity=entry.identity,
            source_topic=entry.source_topic,
            target_topic=entry.target_topic,
            next_source=SourceOffset(self.position),
            next_target=TargetOffset(self.position),
            high_watermark=SourceOffset(self.position),
            last_stable=SourceOffset(self.position),
            log_start=SourceOffset(0),
            records=self.position,
            bytes=self.position,
            last_progress_ms=now_ms,
            oldest_uncopied_ms=None,
            state="live",
        )
        return Progress(
            slot=entry.slot,
            time_ms=now_ms,
            owner="puppet",
            state="copying",
            partitions=(said,),
        )

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """Report for as long as this lasts."""
        self._ended.clear()
        self._thread = threading.Thread(target=self._run, name="puppet", daemon=True)
        self._thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._thread.join(5)
