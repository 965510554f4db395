"""Each job once, on a link that real services run over: what it says, writes, frees and refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records import archive
from mirrorfleet.records.segments import decode_segment
from services.local.region import Region
from spark.jobs import compact_offset_syncs, integrity_audit, slo_report
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import Fleet
from tests.integration.mirror.making import (
    abort,
    commit,
    create,
    numbered,
    put,
    read,
    transactional,
    values,
)

TOPIC = "spark-orders"
COPY = f"east.{TOPIC}"
SLOTS = 2
PARTITIONS = 2


@pytest.fixture(scope="module")
def fleet(
    session: SparkSession, east: Region, west: Region, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """A topic with committed and aborted transactions, copied while these tests run."""
    create(east, TOPIC, PARTITIONS)
    writer = transactional(east, "spark-writer")
    for round_ in range(6):
        for partition in range(PARTITIONS):
            commit(writer, TOPIC, numbered(round_ * 50, round_ * 50 + 50, partition=partition))
        abort(writer, TOPIC, numbered(0, 10))
    rules = [{"name": "spark", "topics": [TOPIC]}]
    started = Fleet("spark", east, west, tmp_path_factory.mktemp("spark"), rules=rules, slots=SLOTS)
    with ExitStack() as running:
        running.enter_context(started.sync())
        running.enter_context(started.mirror())
        wait_copied(west, 600)
        yield started


def wait_copied(west: Region, count: int) -> None:
    wait_until(
        lambda: sum(map(len, read(west, COPY, PARTITIONS))) >= count or None,
        deadline_s=90,
        what=f"{count} records of {COPY}",
    )


def arguments(fleet: Fleet, *more: str) -> list[str]:
    return ["--estate", str(fleet.estate), "--target", "west", *more]


def offset_map(fleet: Fleet) -> OffsetIndex:
    """The map out of both topics, by another client."""
    index = OffsetIndex()
    for slot in range(SLOTS):
        for value in values(fleet.west, fleet.control("segments"), slot):
            index.add_segment(decode_segment(value or b""))
    for slot, records in enumerate(read(fleet.west, fleet.control("archive"), SLOTS)):
        assert slot < SLOTS
        for record in records:
            block = archive.decode(record.key, record.value)
            if isinstance(block, archive.Block):
                index.add_block(block)
    return index


def translated(fleet: Fleet) -> list[list[object]]:
    """Where every source offset of every partition goes."""
    index = offset_map(fleet)
    maps = [index.of(identity) for identity in sorted(index._maps)]
    return [[one.to_target(SourceOffset(n)) for n in range(340)] for one in maps if one is not None]


def test_the_map_is_packed_freed_and_says_the_same_as_before(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    before = translated(fleet)
    assert len(before) == PARTITIONS

    assert compact_offset_syncs.main(arguments(fleet)) == 0

    assert "bytes" in capsys.readouterr().out
    assert [values(fleet.west, fleet.control("segments"), slot) for slot in range(SLOTS)] == [
        [],
        [],
    ]
    assert translated(fleet) == before
    assert compact_offset_syncs.main(arguments(fleet)) == 0
    assert translated(fleet) == before


def test_an_exact_copy_is_intact(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    code = integrity_audit.main(arguments(fleet, "--source", "east", "--topic", TOPIC))

    said = capsys.readouterr()
    assert code == 0, said.err
    assert f"{TOPIC}-0: source_records 300, target_records 300, matched 300, missing 0" in said.out


def test_service_levels_are_reported_as_page_parquet_and_record(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end_ms = 60_000 * (1 + max(event_times(fleet)) // 60_000)

    code = slo_report.main(
        arguments(fleet, "--output", str(tmp_path), "--hours", "1", "--end-ms", str(end_ms))
    )

    said = capsys.readouterr()
    assert code == 0, said.err
    page = (tmp_path / "slo.html").read_text()
    assert TOPIC in page
    assert "<svg" in page
    assert list(tmp_path.glob("slo/window_start_ms=*/*.parquet"))
    reports = [json.loads(value or b"") for value in values(fleet.west, fleet.control("reports"))]
    (found,) = [each for each in reports if each["kind"] == "slo"]
    assert (found["link"], found["topic"]) == ("east->west", TOPIC)
    assert (found["partitions"], found["lost"], found["available_minutes"] > 0) == (2, 0, True)


def event_times(fleet: Fleet) -> list[int]:
    found = values(fleet.west, fleet.control("events"))
    return [json.loads(value)["time_ms"] for value in found if value]


def test_a_record_that_nobody_copied_is_named_and_the_job_fails(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    put(fleet.west, COPY, numbered(7, 8, partition=1))
    put(fleet.east, TOPIC, numbered(900, 905, partition=1))
    wait_copied(fleet.west, 606)

    code = integrity_audit.main(arguments(fleet, "--source", "east", "--topic", TOPIC))

    said = capsys.readouterr()
    assert code == 1
    assert f"extra {TOPIC}-1: source None..None" in said.out
    assert "is not intact: {'extra': 1}" in said.err


def test_what_cannot_be_done_is_said_and_nothing_is_written(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")

    unknown = integrity_audit.main(arguments(fleet, "--source", "east", "--topic", "none"))
    refused = slo_report.main(arguments(fleet, "--output", str(file)))

    said = capsys.readouterr().err
    assert (unknown, refused) == (1, 1)
    assert "error: topic none is not copied over east->west. See: mirrorfleet status" in said
    assert "error: slo_report: " in said
