"""Where partitions stand, as the control topics say."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mirrorfleet.core.ids import FleetName
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.mapping import standing as module
from mirrorfleet.records import progress
from mirrorfleet.wire.records import Record
from tests.unit.lagging.making import said, snapshot

if TYPE_CHECKING:
    import pytest

HOUR_MS = 3_600_000


async def test_the_newest_word_of_a_slot_is_the_last_one_and_as_old_as_its_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stamp = 10 * HOUR_MS
    first = progress.encode(snapshot(stamp + HOUR_MS, said(5)))
    second = progress.encode(snapshot(stamp - HOUR_MS, said(9, moved_ms=stamp - HOUR_MS - 200)))

    async def read(_cluster: Cluster, _name: str) -> list[Record]:
        return [Record(7, stamp - 1_000, *first), Record(8, stamp, *second)]

    monkeypatch.setattr(module, "read_control", read)
    (found,) = await module.newest_progress(cast("Cluster", None), FleetName("west"))

    assert (found.time_ms, found.partitions[0].next_source) == (stamp, 9)
    assert found.partitions[0].last_progress_ms == stamp - 200
