"""Where partitions stand, as the control topics say."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.loss import Look, loss
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import NO_TOPIC_ID, FleetName, SlotNumber, SourceOffset
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.metadata import TopicMeta
from mirrorfleet.mapping import catalog
from mirrorfleet.mapping import standing as module
from mirrorfleet.records import progress
from mirrorfleet.records.progress import SNAPSHOTS, Progress
from mirrorfleet.wire.records import Record
from tests.unit.lagging.making import entry, said, snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HOUR_MS = 3_600_000
PROGRESS = TopicMeta("__mirrorfleet.west.progress", NO_TOPIC_ID, ErrorCode.NONE, True, {})


async def test_the_newest_word_of_a_slot_is_the_last_one_and_as_old_as_its_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stamp = 10 * HOUR_MS
    first = progress.encode(snapshot(stamp + HOUR_MS, said(5)))
    second = progress.encode(snapshot(stamp - HOUR_MS, said(9, moved_ms=stamp - HOUR_MS - 200)))

    async def topic(*_: object, **__: object) -> TopicMeta:
        return PROGRESS

    async def metadata(_: object) -> SimpleNamespace:
        return SimpleNamespace(topics={PROGRESS.name: PROGRESS})

    async def bounds(*_: object, **__: object) -> dict[int, tuple[int, int]]:
        return {3: (0, 1_000)}

    async def read(*at: object) -> AsyncIterator[Record]:
        assert at[1:] == (PROGRESS, 3, 1_000 - SNAPSHOTS, 1_000)
        yield Record(998, stamp - 1_000, *first)
        yield Record(999, stamp, *second)

    monkeypatch.setattr(catalog, "bounds_that_are_told", bounds)
    monkeypatch.setattr(catalog, "committed_records", read)
    cluster = cast("Cluster", SimpleNamespace(metadata=metadata, topic=topic))
    (found,) = await module.newest_progress(cluster, FleetName("west"))

    assert (found.time_ms, found.partitions[0].next_source) == (stamp, 9)
    assert found.partitions[0].last_progress_ms == stamp - 200


class At:
    """A clock that stands."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return 0.0


def _told(monkeypatch: pytest.MonkeyPatch, *looks_ms: int) -> None:
    """One partition, and when the newest report came, as of each look."""
    one, looks = entry(0), list(looks_ms)

    async def catalog_of(*_: object) -> SimpleNamespace:
        return SimpleNamespace(partitions={one.identity: one})

    async def newest(*_: object) -> list[Progress]:
        return [snapshot(looks.pop(0), said(5))]

    monkeypatch.setattr(module, "read_catalog", catalog_of)
    monkeypatch.setattr(module, "newest_progress", newest)
    monkeypatch.setattr(module, "ANOTHER_LOOK_S", 0)


async def _row(now_ms: int) -> dict[str, object]:
    (row,) = await module.standing(cast("Cluster", None), FleetName("west"), At(now_ms))
    return row


@pytest.mark.parametrize("ahead_ms", [-HOUR_MS, HOUR_MS])
async def test_an_owner_that_reports_is_not_silent_whatever_the_clock_of_who_asks_says(
    monkeypatch: pytest.MonkeyPatch, ahead_ms: int
) -> None:
    stamp = 10 * HOUR_MS
    _told(monkeypatch, stamp, stamp + 1_000)
    row = await _row(stamp + ahead_ms)

    assert (row["problem"], row["reported_ms_ago"]) == (None, 0)


@pytest.mark.parametrize(("quiet_ms", "silent"), [(6_000, False), (9_900, False), (10_100, True)])
async def test_who_is_quiet_for_less_than_its_time_is_not_silent(
    monkeypatch: pytest.MonkeyPatch, quiet_ms: int, *, silent: bool
) -> None:
    stamp = 10 * HOUR_MS
    _told(monkeypatch, stamp, stamp)

    assert bool((await _row(stamp + quiet_ms))["problem"]) is silent


async def test_a_clock_that_is_some_seconds_ahead_calls_nobody_silent_who_reported_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stamp, entries = 10 * HOUR_MS, [entry(0), replace(entry(1), slot=SlotNumber(4))]
    looks = [stamp, stamp + 1_000]

    async def catalog_of(*_: object) -> SimpleNamespace:
        return SimpleNamespace(partitions={each.identity: each for each in entries})

    async def newest(*_: object) -> list[Progress]:
        newest_ms = looks.pop(0)
        second = replace(snapshot(newest_ms - 1_000, said(5, partition=1)), slot=SlotNumber(4))
        return [snapshot(newest_ms, said(5)), second]

    monkeypatch.setattr(module, "read_catalog", catalog_of)
    monkeypatch.setattr(module, "newest_progress", newest)
    monkeypatch.setattr(module, "ANOTHER_LOOK_S", 0)
    rows = await module.standing(cast("Cluster", None), FleetName("west"), At(stamp + 9_500))

    assert [row["problem"] for row in rows] == [None, None]


@pytest.mark.parametrize(("ahead_ms", "silent"), [(60_000, "1m00s"), (-HOUR_MS, "10s")])
async def test_an_owner_that_says_nothing_while_we_wait_for_it_is_silent(
    monkeypatch: pytest.MonkeyPatch, ahead_ms: int, silent: str
) -> None:
    stamp = 10 * HOUR_MS
    _told(monkeypatch, stamp, stamp)

    assert f"silent for {silent}" in str((await _row(stamp + ahead_ms))["problem"])


async def test_a_faulted_partition_is_told_with_what_to_do_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = str(loss(SourceOffset(5), Look(8, 20)))
    told = snapshot(1_000, said(5, fault=lost), said(9, partition=1))
    entries = [entry(0), entry(1)]

    async def catalog_of(*_: object) -> SimpleNamespace:
        return SimpleNamespace(partitions={each.identity: each for each in entries})

    async def newest(*_: object) -> list[Progress]:
        return [told]

    monkeypatch.setattr(module, "read_catalog", catalog_of)
    monkeypatch.setattr(module, "newest_progress", newest)
    faulted, well = await module.standing(cast("Cluster", None), FleetName("west"), At(1_000))

    assert str(faulted["next"]).endswith(
        "`mirrorfleet resolve orders-0 --target west --from east --accept-gap 5..8`."
    )
    assert well["next"] is None
    first, second = module.unhealthy(faulted).splitlines()
    assert first.startswith("unhealthy: orders-0 of east->west: retention-overtook at source")
    assert second.startswith("  next: The source deleted records")


async def test_a_slot_whose_progress_has_no_leader_hides_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = [entry(0), replace(entry(1), slot=SlotNumber(7))]
    away = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"west: reading {PROGRESS.name}-7")
    word = progress.encode(snapshot(1_000, said(5)))

    async def catalog_of(*_: object) -> SimpleNamespace:
        return SimpleNamespace(partitions={each.identity: each for each in entries})

    async def topic(*_: object, **__: object) -> TopicMeta:
        return PROGRESS

    async def metadata(_: object) -> SimpleNamespace:
        return SimpleNamespace(topics={PROGRESS.name: PROGRESS})

    async def bounds(*_: object, **__: object) -> dict[int, tuple[int, int] | BrokerError]:
        return {7: away, 3: (0, 1)}

    async def read(*_: object) -> AsyncIterator[Record]:
        yield Record(0, 1_000, *word)

    monkeypatch.setattr(module, "read_catalog", catalog_of)
    monkeypatch.setattr(catalog, "bounds_that_are_told", bounds)
    monkeypatch.setattr(catalog, "committed_records", read)
    cluster = cast("Cluster", SimpleNamespace(metadata=metadata, topic=topic))
    well, unread = await module.standing(cluster, FleetName("west"), At(1_000))

    assert well["problem"] is None
    assert unread["problem"] == f"the progress of slot 7 cannot be read: {away}"
    with pytest.raises(BrokerError, match="LEADER_NOT_AVAILABLE"):
        await module.newest_progress(cluster, FleetName("west"))
