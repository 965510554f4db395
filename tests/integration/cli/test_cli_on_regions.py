"""The commands that look at clusters, against real ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mirrorfleet.core.ids import ClusterAlias, ClusterId, Link, PartitionIdentity, SlotNumber
from mirrorfleet.core.ids import SourceOffset as Source
from mirrorfleet.core.ids import TargetOffset as Target
from mirrorfleet.records import catalog, progress
from mirrorfleet.records.catalog import CatalogPartition
from mirrorfleet.records.progress import PartitionProgress, Progress
from mirrorfleet.runtime.clock import SystemClock
from services.cli.__main__ import main
from services.local.region import Region
from tests.faultkit.regions import access
from tests.faultkit.waiting import wait_until
from tests.judge.reading import At, ends_of

Captured = pytest.CaptureFixture[str]
Record = tuple[bytes | None, bytes | None]
_NUMBERS: Final = count(1)


@dataclass(frozen=True, slots=True)
class Place:
    """An estate over both shared regions, with names that no other test uses."""

    file: Path
    fleet: str
    topic: str
    east: Region
    west: Region


@pytest.fixture
def place(tmp_path: Path, east: Region, west: Region, monkeypatch: pytest.MonkeyPatch) -> Place:
    number = next(_NUMBERS)
    made = Place(tmp_path / "estate.yaml", f"cli{number}", f"cli-orders-{number}", east, west)
    write_estate(made)
    monkeypatch.setenv("MIRRORFLEET_ESTATE", str(made.file))
    return made


def write_estate(place: Place, *, topics: str = "", west: str = "") -> None:
    place.file.write_text(
        f"""\
estate: test
clusters:
  east: {{bootstrap: "{place.east.bootstrap[0]}"}}
  west: {{bootstrap: "{west or place.west.bootstrap[0]}", fleet: {place.fleet}}}
links:
  - from: east
    to: west
    rules: [{{name: orders, topics: ["{topics or place.topic}"], groups: ["g"]}}]
""",
        encoding="utf-8",
    )


def create(region: Region, name: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": region.bootstrap[0]})
    created = admin.create_topics([NewTopic(name, partitions, 1)])
    created[name].result(20)


def produce(region: Region, topic: str, records: list[Record], more: Mapping[str, str]) -> Producer:
    """One batch, or one transaction that is left open when a transactional id is given."""
    producer = Producer({"bootstrap.servers": region.bootstrap[0], "linger.ms": "50", **more})
    if "transactional.id" in more:
        producer.init_transactions(20)
        producer.begin_transaction()
    for key, value in records:
        producer.produce(topic, key=key, value=value, partition=0)
    assert producer.flush(20) == 0
    return producer


def test_live_validation_counts_the_topics_of_each_rule(place: Place, capsys: Captured) -> None:
    create(place.east, place.topic)
    assert main(["validate", "--live", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["problems"]) == (True, [])
    assert [one["cluster"] for one in found["clusters"]] == ["east", "west"]
    assert found["rules"][0]["topics"] == 1
    assert found["rules"][0]["examples"] == [place.topic]


def test_a_rule_that_matches_no_topic_is_an_error(place: Place, capsys: Captured) -> None:
    create(place.east, place.topic)
    write_estate(place, topics=place.topic.replace("orders", "ordres"))
    assert main(["validate", "--live"]) == 1
    said = capsys.readouterr().err
    wrong = place.topic.replace("orders", "ordres")
    assert f"east->west, rule 'orders': no topic of east matches {wrong}" in said
    assert f"Nearest: '{place.topic}'." in said


def test_one_cluster_under_two_names_is_refused_by_its_id(place: Place, capsys: Captured) -> None:
    port = place.east.bootstrap[0].rpartition(":")[2]
    write_estate(place, west=f"localhost:{port}")
    assert main(["validate", "--live"]) == 1
    assert "east->west: both ends are cluster.id" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["validate", "--live"],
        ["status"],
        ["inspect", "t", "--cluster", "west"],
        ["verify", "t", "--target", "west"],
        ["failover", "--target", "west", "--within", "0"],
        ["top", "--target", "west"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_an_unreachable_cluster_is_named_with_its_address(
    place: Place, capsys: Captured, arguments: list[str]
) -> None:
    write_estate(place, west="127.0.0.1:1")
    assert main(arguments) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "127.0.0.1:1" in said
    assert "Traceback" not in said


def test_batches_are_shown_by_their_headers_without_contents(
    place: Place, capsys: Captured
) -> None:
    create(place.east, place.topic)
    produce(place.east, place.topic, [(b"k", b"c4n4ry" * 50)] * 3, {"compression.type": "lz4"})
    aborted = produce(
        place.east, place.topic, [(b"k", b"c4n4ry")], {"transactional.id": place.topic}
    )
    aborted.abort_transaction(20)
    kept = produce(place.east, place.topic, [(None, b"c4n4ry")], {"transactional.id": place.topic})
    kept.commit_transaction(20)
    at = At(place.topic, 0)
    wait_until(  # a commit is told a moment before its marker is there
        lambda: ends_of(access(place.east), [at])[at].committed == 7,
        deadline_s=30,
        what="the last marker",
    )

    arguments = ["inspect", f"{place.topic}-0", "--cluster", "east"]
    assert main([*arguments, "-o", "json"]) == 0
    shown = capsys.readouterr().out
    rows = json.loads(shown)
    assert "c4n4ry" not in shown
    assert [
        (row["first"], row["last"], row["records"], row["codec"], row["txn"]) for row in rows
    ] == [
        (0, 2, 3, "lz4", "no"),
        (3, 3, 1, "none", "aborted"),
        (4, 4, 1, "none", "abort marker"),
        (5, 5, 1, "none", "yes"),
        (6, 6, 1, "none", "commit marker"),
    ]

    assert main([*arguments, "--from", "3", "--limit", "1", "--records"]) == 0
    seen = capsys.readouterr()
    assert "c4n4ry" in seen.out
    assert "warning: record contents may be personal" in seen.err


def test_topics_and_partitions_that_are_not_there_are_named(place: Place, capsys: Captured) -> None:
    create(place.east, place.topic, 2)
    assert main(["inspect", f"{place.topic}-2", "--cluster", "east"]) == 1
    assert "has no partition 2. It has 0 to 1." in capsys.readouterr().err
    assert main(["inspect", "not-there", "--cluster", "east"]) == 1
    assert "topic not-there: UNKNOWN_TOPIC_OR_PARTITION" in capsys.readouterr().err


def test_status_without_a_catalog_says_what_to_run(place: Place, capsys: Captured) -> None:
    assert main(["status"]) == 1
    assert capsys.readouterr().err == (
        f"error: west: fleet '{place.fleet}' has no catalog yet, so nothing is copied."
        " Next: mirrorfleet run sync --target west\n"
    )


def test_status_shows_where_partitions_stand_and_whether_all_is_well(
    place: Place, capsys: Captured
) -> None:
    names = [f"__mirrorfleet.{place.fleet}.{kind}" for kind in ("catalog", "progress")]
    for name in names:
        create(place.west, name)
    entry, snapshot = partition_and_snapshot(SystemClock().now_ms())
    produce(place.west, names[0], [catalog.encode(entry)], {})
    assert main(["status"]) == 2
    assert "unhealthy: orders-0 of east->west: no worker reports it." in capsys.readouterr().err

    produce(place.west, names[1], [progress.encode(snapshot)], {})
    assert main(["status", "-o", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["position"], row["high_watermark"], row["lag_records"]) == (90, 100, 8)
    assert (row["state"], row["owner"], row["problem"]) == ("copying", "w1", None)

    stopped = replace(snapshot.partitions[0], fault="record-too-large at 90")
    produce(place.west, names[1], [progress.encode(replace(snapshot, partitions=(stopped,)))], {})
    assert main(["status", "--target", "west"]) == 2
    shown = capsys.readouterr()
    assert "east->west  orders" in shown.out
    assert "unhealthy: orders-0 of east->west: record-too-large at 90" in shown.err

    assert main(["inspect", names[0]]) == 0
    assert "CatalogPartition(identity=" in capsys.readouterr().out


def test_a_topic_is_explained_by_what_its_fleet_and_its_rules_say(
    place: Place, capsys: Captured
) -> None:
    create(place.east, place.topic, 2)
    assert main(["explain", place.topic, "-o", "json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["what"], row["link"]) == ("not known", "east->west")
    assert "has no catalog yet" in row["words"]

    names = [f"__mirrorfleet.{place.fleet}.{kind}" for kind in ("catalog", "progress")]
    for name in names:
        create(place.west, name)
    entry, snapshot = partition_and_snapshot(SystemClock().now_ms())
    produce(place.west, names[0], [catalog.encode(entry)], {})
    produce(place.west, names[1], [progress.encode(snapshot)], {})

    def told(text: str) -> tuple[int, str, str, str | None]:
        code = main(["explain", text, "-o", "json"])
        (row,) = json.loads(capsys.readouterr().out)
        return code, row["what"], row["topic"], row["other_topic"]

    assert told("orders-0") == (0, "copied", "orders", "east.orders")
    assert told("east.orders") == (0, "is a copy", "east.orders", "orders")
    copy = f"east.{place.topic}"
    assert told(f"{place.topic}-1") == (2, "not taken up", place.topic, copy)
    create(place.east, f"{place.topic}.left-out-7")
    assert told(f"{place.topic}.left-out-7") == (
        0,
        "not copied",
        f"{place.topic}.left-out-7",
        None,
    )
    create(place.west, f"{place.topic}.at-home")
    assert main(["explain", f"{place.topic}.at-home"]) == 0
    said = capsys.readouterr().out
    assert said == "west has it, and no link copies from there\n"
    assert main(["explain", "not-there-1"]) == 1
    assert "no cluster that answers has a topic 'not-there'" in capsys.readouterr().err


def partition_and_snapshot(now_ms: int) -> tuple[CatalogPartition, Progress]:
    identity = PartitionIdentity(ClusterId("E"), UUID(int=1), 0, UUID(int=2))
    entry = CatalogPartition(
        identity=identity,
        link=Link(ClusterAlias("east"), ClusterAlias("west")),
        source_topic="orders",
        target_topic="east.orders",
        slot=SlotNumber(0),
    )
    partition = PartitionProgress(
        identity=identity,
        source_topic="orders",
        target_topic="east.orders",
        next_source=Source(90),
        next_target=Target(90),
        high_watermark=Source(100),
        last_stable=Source(98),
        log_start=Source(0),
        records=90,
        bytes=900,
        last_progress_ms=now_ms,
        oldest_uncopied_ms=None,
        state="copying",
    )
    slot = SlotNumber(0)
    snapshot = Progress(
        slot=slot, time_ms=now_ms, owner="w1", state="serving", partitions=(partition,)
    )
    return entry, snapshot
