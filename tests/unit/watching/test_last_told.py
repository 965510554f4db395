"""How old the last word of a slot is for who begins to listen."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from mirrorfleet.core.ids import FleetName, SlotNumber
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.lagging.board import Place
from mirrorfleet.records import progress, samples
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.watching import told as module
from mirrorfleet.wire.records import Record
from tests.unit.lagging.making import SLOT, said, snapshot
from tests.unit.records.test_samples import SAMPLE

NOW_MS = 100_000_000


@pytest.mark.parametrize("worker_ms", [NOW_MS - 7_200_000, NOW_MS, NOW_MS + 7_200_000])
@pytest.mark.parametrize(
    ("stamp_ms", "heard_ms"), [(NOW_MS - 90_000, NOW_MS - 90_000), (NOW_MS + 90_000, NOW_MS)]
)
async def test_a_stored_snapshot_is_as_old_as_its_record_and_never_of_our_future(
    monkeypatch: pytest.MonkeyPatch, worker_ms: int, stamp_ms: int, heard_ms: int
) -> None:
    async def last(
        _cluster: Cluster, _fleet: FleetName, kind: ControlKind, _slot: SlotNumber, _most: int
    ) -> list[Record]:
        written = progress.encode(snapshot(worker_ms, said(9)))
        return [Record(7, stamp_ms, *written)] if kind is ControlKind.PROGRESS else []

    monkeypatch.setattr(module, "_last", last)
    told = await module.last_told(cast("Cluster", None), FleetName("west"), SLOT, 1, NOW_MS)

    assert told.snapshot is not None
    found, place = told.snapshot
    assert (found.time_ms, place) == (heard_ms, Place(7, stamp_ms))


@pytest.mark.parametrize("lag_ms", [NOW_MS - 7_200_000, NOW_MS, NOW_MS + 7_200_000])
@pytest.mark.parametrize(
    ("stamp_ms", "heard_ms"), [(NOW_MS - 90_000, NOW_MS - 90_000), (NOW_MS + 90_000, NOW_MS)]
)
async def test_a_stored_sample_is_as_old_as_its_record_whatever_the_clock_of_who_wrote_it(
    monkeypatch: pytest.MonkeyPatch, lag_ms: int, stamp_ms: int, heard_ms: int
) -> None:
    async def last(
        _cluster: Cluster, _fleet: FleetName, kind: ControlKind, _slot: SlotNumber, _most: int
    ) -> list[Record]:
        written = samples.encode(replace(SAMPLE, time_ms=lag_ms))
        return [Record(7, stamp_ms, *written)] if kind is ControlKind.SAMPLES else []

    monkeypatch.setattr(module, "_last", last)
    told = await module.last_told(cast("Cluster", None), FleetName("west"), SLOT, 1, NOW_MS)

    assert told.samples == [replace(SAMPLE, time_ms=heard_ms)]
