"""Each job once, on a link that real services run over: what it says, writes, frees and refuses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mirrorfleet.core.ids import ClusterAlias, SlotNumber, SourceOffset
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records import archive
from mirrorfleet.records.samples import Sample, Verdict, encode
from mirrorfleet.records.segments import decode_segment
from services.local.region import Region
from spark.broker import Admin
from spark.jobs import compact_offset_syncs, integrity_audit, slo_report
from tests.faultkit.regions import address
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import Fleet, wait_values
from tests.integration.mirror.making import (
    ONE_BATCH,
    Made,
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
DROPPED = "spark-keyless"
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
    create(east, DROPPED)
    keys = (b"a", b"b", None, b"c", None, b"d")
    put(east, DROPPED, [Made(b"%d" % n, key) for n, key in enumerate(keys)], **ONE_BATCH)
    create(west, f"east.{DROPPED}", cleanup_policy="compact")
    rules: list[dict[str, object]] = [
        {"name": "spark", "topics": [TOPIC]},
        {
            "name": "drop",
            "topics": [DROPPED],
            "null_keys": "drop-recorded",
            "configs_exclude": ["cleanup.policy"],
        },
    ]
    started = Fleet("spark", east, west, tmp_path_factory.mktemp("spark"), rules=rules, slots=SLOTS)
    with ExitStack() as running:
        running.enter_context(started.sync())
        running.enter_context(started.mirror())
        wait_copied(west, 600)
        wait_values(west, f"east.{DROPPED}", 0, [b"0", b"1", b"3", b"5"])
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
    newest = [values(fleet.west, fleet.control("segments"), slot)[-1:] for slot in range(SLOTS)]
    assert len(before) == PARTITIONS + 1

    assert compact_offset_syncs.main(arguments(fleet)) == 0

    assert "bytes" in capsys.readouterr().out
    left = [values(fleet.west, fleet.control("segments"), slot) for slot in range(SLOTS)]
    assert left == newest
    assert translated(fleet) == before
    assert compact_offset_syncs.main(arguments(fleet)) == 0
    assert translated(fleet) == before


def test_an_exact_copy_is_intact(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    code = integrity_audit.main(arguments(fleet, "--source", "east", "--topic", TOPIC))

    said = capsys.readouterr()
    assert code == 0, said.err
    assert f"{TOPIC}-0: source_records 300, target_records 300, matched 300, missing 0" in said.out


def test_records_that_policy_left_out_are_explained_by_the_ledger(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--source", "east", "--topic", DROPPED, "--output", str(tmp_path)]

    code = integrity_audit.main(arguments(fleet, *asked))

    said = capsys.readouterr()
    assert code == 0, said.err
    assert "matched 4, missing 0, explained 2, extra 0, altered 0" in said.out
    line = f"explained {DROPPED}-0: source 2..2, target None..None, 1 records in the gap ledger"
    assert line in said.out
    assert list(tmp_path.glob("integrity/link=*/topic=*/*.parquet"))


def seen(time_ms: int, partition: int, verdict: Verdict, lag_ms: int | None) -> Made:
    """A sample, as `lag` writes it now that has waited since then."""
    sample = Sample(
        time_ms=time_ms,
        source=ClusterAlias("east"),
        target=ClusterAlias("west"),
        topic=TOPIC,
        partition=partition,
        target_topic=COPY,
        slot=SlotNumber(0),
        state="live",
        lag_records=0,
        time_lag_ms=lag_ms,
        propagation_ms=None,
        backlog_age_ms=None,
        eta_ms=None,
        headroom_ms=None,
        rate_records_s=0.0,
        rate_bytes_s=0.0,
        source_end=300,
        next_source=SourceOffset(300),
        verdict=verdict,
        rule="",
    )
    key, value = encode(sample, written_ms=time.time_ns() // 1_000_000)
    return Made(value, key)


def test_service_levels_are_reported_as_page_parquet_and_record(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # the broker dates them, less their ages: ten minutes, this one and those in which all began
    start_ms = 60_000 * (time.time_ns() // 60_000_000_000 - 9)
    minutes = [start_ms + n * 60_000 for n in range(10)]
    samples = [seen(at, p, Verdict.OK, 10) for at in minutes for p in range(PARTITIONS)]
    samples.append(seen(minutes[2] + 10_000, 1, Verdict.STUCK, 61_000))
    samples.append(seen(minutes[2] + 20_000, 1, Verdict.OK, 0))
    put(fleet.west, fleet.control("samples"), [*samples, Made(b'{"v":99}', b"newer")])
    window = ["--hours", str(10 / 60), "--end-ms", str(start_ms + 10 * 60_000)]

    code = slo_report.main(arguments(fleet, "--output", str(tmp_path), *window))

    said = capsys.readouterr()
    assert code == 0, said.err
    shares = "freshness 95.000 %, availability 95.000 %, completeness -, lost 0"
    assert f"east->west {TOPIC}: {shares}" in said.out
    silent = "freshness 0.000 %, availability 0.000 %, completeness 0.000 %, lost 2"
    assert f"east->west {DROPPED}: {silent}" in said.out
    page = (tmp_path / "slo.html").read_text()
    assert (page.count("<svg"), page.count('class="broken"')) == (4, 5)
    assert list(tmp_path.glob(f"slo/window_start_ms={start_ms}/*.parquet"))
    reports = [json.loads(value or b"") for value in values(fleet.west, fleet.control("reports"))]
    (found,) = [each for each in reports if each["kind"] == "slo" and each["topic"] == TOPIC]
    assert (found["partitions"], found["fresh_minutes"], found["available_minutes"]) == (2, 19, 19)


def test_a_record_that_nobody_copied_is_named_and_the_job_fails(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    put(fleet.west, COPY, numbered(7, 8, partition=1))
    put(fleet.east, TOPIC, numbered(900, 905, partition=1))
    wait_copied(fleet.west, 606)

    code = integrity_audit.main(arguments(fleet, "--source", "east", "--topic", TOPIC))

    said = capsys.readouterr()
    assert code == 2
    assert f"extra {TOPIC}-1: source None..None" in said.out
    assert "is not intact: {'extra': 1}" in said.err


def test_a_topic_that_was_deleted_has_no_partitions(session: SparkSession, west: Region) -> None:
    admin = Admin(session, {"bootstrap.servers": address(west)})

    assert integrity_audit.ranges_of(admin, "spark-deleted") == {}


def test_what_cannot_be_done_is_said_and_nothing_is_written(
    session: SparkSession, fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    before = values(fleet.west, fleet.control("reports"))

    unknown = integrity_audit.main(arguments(fleet, "--source", "east", "--topic", "none"))
    nowhere = integrity_audit.main(arguments(fleet, "--source", "mars", "--topic", TOPIC))
    refused = slo_report.main(arguments(fleet, "--output", str(file)))
    Admin(session, {"bootstrap.servers": address(fleet.west)}).free(
        fleet.control("samples"), {0: 1}
    )
    too_long = slo_report.main(arguments(fleet, "--output", str(tmp_path), "--hours", "720"))

    said = capsys.readouterr().err
    assert (unknown, nowhere, refused, too_long) == (1, 1, 1, 1)
    assert "hours before the oldest samples that are left (168 hours are kept)." in said
    assert "error: topic none is not copied over east->west. If it is held back" in said
    assert f"error: output folder {file}: File exists. Give another --output." in said
    assert values(fleet.west, fleet.control("reports")) == before
