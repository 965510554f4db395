"""Where partitions stand, and when a person should look."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.records.overview import duration, fleet_rows
from mirrorfleet.records.progress import UNREACHABLE, held_up
from tests.unit.records.making import identity
from tests.unit.records.test_catalog import PARTITION as ENTRY
from tests.unit.records.test_reports import PARTITION, SNAPSHOT

ACTIVE = replace(ENTRY, identity=identity(1), state=CatalogState.ACTIVE)
HEALTHY = replace(SNAPSHOT, partitions=(PARTITION,))


def test_a_row_says_where_a_partition_stands() -> None:
    (row,) = fleet_rows([ACTIVE], [HEALTHY], 2000)
    assert row == {
        "link": "east->west",
        "topic": "orders",
        "partition": 1,
        "target_topic": "east.orders",
        "state": "copying",
        "position": 100,
        "high_watermark": 120,
        "lag_records": 10,
        "slot": 7,
        "owner": "w",
        "progress_age_ms": 1000,
        "reported_ms_ago": 766,
        "fault": None,
        "rule": "all",
        "priority": "high",
        "problem": None,
    }


def test_the_newest_snapshot_counts() -> None:
    old = replace(HEALTHY, time_ms=1000, owner="before")
    assert fleet_rows([ACTIVE], [HEALTHY, old], 2000)[0]["owner"] == "w"


def test_a_fault_an_absent_and_a_silent_owner_are_problems() -> None:
    faulted = replace(SNAPSHOT, partitions=(replace(PARTITION, fault="too large"),))
    assert fleet_rows([ACTIVE], [faulted], 2000)[0]["problem"] == "too large"
    assert fleet_rows([ACTIVE], [], 2000)[0]["problem"] == (
        "no worker reports it. Next: mirrorfleet run mirror --target west"
    )
    assert fleet_rows([ACTIVE], [HEALTHY], 11_234)[0]["problem"] is None
    assert fleet_rows([ACTIVE], [HEALTHY], 11_235)[0]["problem"] == (
        "its owner w has been silent for 10s"
    )


@pytest.mark.parametrize("end", [110, 100])
def test_what_is_left_to_copy_is_not_known_of_a_silent_owner(end: int) -> None:
    """It died with all copied, or with 10 to go: what came since at the source nobody told."""
    told = replace(HEALTHY, partitions=(replace(PARTITION, last_stable=SourceOffset(end)),))
    assert fleet_rows([ACTIVE], [told], 11_234)[0]["lag_records"] == end - 100
    assert fleet_rows([ACTIVE], [told], 11_235)[0]["lag_records"] is None


@pytest.mark.parametrize(
    ("still_ms", "end", "problem"),
    [
        (30_001, 110, "stalled: 10 records wait and nothing was copied for 30s"),
        (192_000, 101, "stalled: 1 records wait and nothing was copied for 3m12s"),
        (30_000, 110, None),
        (192_000, 100, None),
        (192_000, -1, None),
    ],
)
def test_records_that_wait_while_nothing_is_copied_are_a_problem_though_the_owner_reports(
    still_ms: int, end: int, problem: str | None
) -> None:
    waiting = replace(PARTITION, last_stable=SourceOffset(end))
    told_ms = waiting.last_progress_ms + still_ms
    told = replace(SNAPSHOT, time_ms=told_ms, partitions=(waiting,))
    assert fleet_rows([ACTIVE], [told], told_ms + 500)[0]["problem"] == problem


def test_a_source_that_does_not_answer_is_a_problem_though_nothing_is_known_to_wait() -> None:
    away = replace(PARTITION, next_source=PARTITION.last_stable, state=UNREACHABLE)
    (row,) = fleet_rows([ACTIVE], [replace(SNAPSHOT, partitions=(away,))], 2000)
    assert (row["state"], row["lag_records"], row["problem"]) == (
        "unreachable",
        None,
        "its leader at the source does not answer: how much is left to copy is not known",
    )


def test_a_slot_that_its_owner_cannot_take_says_why_also_where_no_position_is_known() -> None:
    state = held_up("fencing", "the coordinator does not answer")
    told = replace(HEALTHY, slot=ACTIVE.slot, state=state)
    for partitions in ((PARTITION,), ()):
        (row,) = fleet_rows([ACTIVE], [replace(told, partitions=partitions)], 2000)
        assert (row["owner"], row["problem"]) == (
            "w",
            "slot 7 is not copied: the coordinator does not answer",
        )
    faulted = replace(told, partitions=(replace(PARTITION, fault="too large"),))
    assert fleet_rows([ACTIVE], [faulted], 2000)[0]["problem"] == "too large"
    (silent,) = fleet_rows([ACTIVE], [told], 11_235)
    assert silent["problem"] == "its owner w has been silent for 10s"


def test_a_paused_partition_needs_no_owner_and_a_removed_one_is_not_shown() -> None:
    paused = replace(ACTIVE, state=CatalogState.PAUSED)
    removed = replace(ACTIVE, identity=identity(2), state=CatalogState.REMOVED)
    rows = fleet_rows([removed, paused], [], 2000)
    assert [(row["partition"], row["problem"]) for row in rows] == [(1, None)]


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (-5, "0ms"),
        (850, "850ms"),
        (12_400, "12s"),
        (192_000, "3m12s"),
        (7_500_000, "2h05m"),
        (356_400_000, "4d03h"),
    ],
)
def test_durations_are_short(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


def test_where_no_position_is_known_none_is_shown() -> None:
    fault = "position-lost before the first record: it is gone"
    lost = replace(PARTITION, next_source=SourceOffset(0), fault=fault)
    (row,) = fleet_rows([ACTIVE], [replace(SNAPSHOT, partitions=(lost,))], 2000)

    assert (row["position"], row["problem"]) == (None, fault)
