"""The audit as a job over a topic that was made again, with records in place of brokers."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from mirrorfleet.config.model import Estate
from mirrorfleet.core.errors import RefusedError
from mirrorfleet.core.ids import (
    ClusterAlias,
    Link,
    PartitionIdentity,
    SlotNumber,
    SourceOffset,
    TargetOffset,
)
from mirrorfleet.records import catalog, events, positions
from mirrorfleet.records.catalog import CatalogPartition, CatalogState
from mirrorfleet.records.reports import Report
from mirrorfleet.records.segments import Run, Segment, encode_segment
from mirrorfleet.records.topics import ControlKind
from spark import io, schemas
from spark.broker import Range
from spark.jobs import integrity_audit
from spark.jobs.running import Cluster, Job
from tests.spark.frames import frame, identity, run

Keyed = tuple[bytes | None, bytes | None]
Record = tuple[int, int, int, int, bytes | None, bytes | None, None]

FIRST = identity()
AGAIN = replace(identity(source=2), incarnation=1)
LINK = Link(ClusterAlias("east"), ClusterAlias("west"))
BEGUN_MS = 50_000


def records(*numbers: int, start: int = 0) -> list[Record]:
    """These records, one after the other from offset `start`."""
    return [
        (0, start + place, number, 0, None, b"%d" % number, None)
        for place, number in enumerate(numbers)
    ]


def control(*entries: Keyed, at: int = BEGUN_MS) -> list[Record]:
    return [(0, n, at, 0, key, value, None) for n, (key, value) in enumerate(entries)]


def partition(
    of: PartitionIdentity, state: CatalogState, start: str = "earliest"
) -> CatalogPartition:
    return CatalogPartition(
        identity=of,
        link=LINK,
        source_topic="orders",
        target_topic="east.orders",
        slot=SlotNumber(0),
        state=state,
        start=start,
    )


def entry(of: PartitionIdentity, state: CatalogState, start: str = "earliest") -> Keyed:
    return catalog.encode(partition(of, state, start))


def segment(of: PartitionIdentity, *runs: Run) -> Keyed:
    return None, encode_segment(Segment(SlotNumber(0), 1_000, ((of, runs),)))


def position(of: PartitionIdentity, at: int) -> Keyed:
    stands = positions.Position(
        identity=of,
        next_source=SourceOffset(at),
        leader_epoch=0,
        next_target=TargetOffset(0),
        records=0,
        bytes=0,
        time_ms=0,
    )
    return positions.encode(stands)


def gap(first: int, end: int, time_ms: int, cause: str) -> Keyed:
    return events.encode(
        events.Event(
            kind="gap",
            time_ms=time_ms,
            writer="w",
            cause=cause,
            link=LINK,
            topic="orders",
            partition=0,
            first=first,
            end=end,
        )
    )


class Side:
    """A cluster as the job knows it, and its admin."""

    def __init__(self, session: SparkSession, topics: Mapping[str, Sequence[Record]]) -> None:
        self.session, self.topics = session, topics
        self.options: Mapping[str, str] = {}
        self.admin = self

    def read(self, topic: str) -> DataFrame:
        return frame(self.session, self.topics.get(topic, ()), schemas.RECORDS)

    def ranges(self, topic: str) -> dict[int, Range]:
        return {0: Range(0, max((row[1] + 1 for row in self.topics.get(topic, ())), default=0))}

    def written(self, topic: str) -> dict[int, int]:
        return {number: each.end for number, each in self.ranges(topic).items()}


class Audit(Job):
    """A job on two sides."""

    sides: Mapping[str, Side]

    def cluster(self, alias: str) -> Cluster:
        return cast("Cluster", self.sides[alias])

    def topic(self, kind: ControlKind) -> str:
        return str(kind)

    def report(self, reports: Sequence[Report]) -> None:
        assert len(reports) == 1


Auditing = Callable[..., str]


@pytest.fixture
def audit(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Auditing:
    def audited(source: Sequence[Record], **topics: Sequence[Record]) -> str:
        """What is printed."""
        copied = {"east.orders": topics.pop("target"), **topics}
        sides = {"east": Side(session, {"orders": source}), "west": Side(session, copied)}
        monkeypatch.setattr(Audit, "sides", sides, raising=False)
        monkeypatch.setattr(
            io,
            "read_topic",
            lambda _session, _options, topic, _ranges: (
                sides["east"] if topic == "orders" else sides["west"]
            ).read(topic),
        )
        asked = Namespace(source="east", topic="orders", first=0, end=None, output=None)
        estate = cast("Estate", None)
        integrity_audit.work(Audit(session, estate, ClusterAlias("west"), asked))
        return capsys.readouterr().out

    return audited


MADE_AGAIN = {
    "target": [*records(70, 71, 72), *records(0, 1, 2, 3, start=4)],
    "catalog": [
        *control(entry(FIRST, CatalogState.REMOVED)),
        *control((None, None), entry(AGAIN, CatalogState.ACTIVE), at=BEGUN_MS + 1)[1:],
    ],
    "segments": control(segment(FIRST, run(0, 0, 3)), segment(AGAIN, run(0, 4, 4))),
    "positions": control(position(FIRST, 3), position(AGAIN, 4)),
}


def test_a_topic_that_was_made_again_is_compared_as_it_is_copied_now(audit: Auditing) -> None:
    said = audit(records(0, 1, 2, 3), **MADE_AGAIN)

    assert said.startswith("orders-0: source_records 4, target_records 4, matched 4, missing 0")


def test_losses_of_the_former_topic_explain_nothing_of_the_new_one(
    audit: Auditing, capsys: pytest.CaptureFixture[str]
) -> None:
    told = [
        gap(4, 5, BEGUN_MS - 1, "retention-overtook"),
        gap(5, 6, BEGUN_MS + 9, "source-recreated"),
        gap(6, 7, BEGUN_MS + 9, "retention-overtook"),
    ]
    topics = MADE_AGAIN | {
        "positions": control(position(AGAIN, 7)),
        "events": control(*told, at=0),
    }

    with pytest.raises(RefusedError, match="'missing': 2"):
        audit(records(0, 1, 2, 3, 4, 5, 6), **topics)

    said = capsys.readouterr().out
    assert "missing orders-0: source 4..5," in said
    assert "explained orders-0: source 6..6," in said


def test_a_topic_that_nothing_takes_any_more_is_not_compared(audit: Auditing) -> None:
    topics = MADE_AGAIN | {"catalog": control(entry(FIRST, CatalogState.REMOVED))}

    with pytest.raises(RefusedError, match="topic orders is not copied over east->west"):
        audit(records(0), **topics)


def test_what_was_appended_again_behind_the_map_is_found(
    audit: Auditing, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = {
        "target": [*records(0, 1, 2), *records(1, 2, start=4)],
        "catalog": control(entry(FIRST, CatalogState.ACTIVE)),
        "segments": control(segment(FIRST, run(0, 0, 3))),
        "positions": control(position(FIRST, 3)),
    }

    with pytest.raises(RefusedError, match="'extra': 2"):
        audit(records(0, 1, 2), **topics)

    assert "extra orders-0: source None..None, target 4..5," in capsys.readouterr().out


def test_what_the_cleaner_of_the_source_took_is_not_extra(audit: Auditing) -> None:
    def keyed(offset: int) -> Record:
        return (0, offset, offset, 0, b"k", b"v", None)

    compacted = replace(partition(FIRST, CatalogState.ACTIVE), source_compacted=True)
    topics = {
        "target": [keyed(0), keyed(1)],
        "catalog": control(catalog.encode(compacted)),
        "segments": control(segment(FIRST, run(0, 0, 2))),
        "positions": control(position(FIRST, 2)),
    }

    assert "source_records 1, target_records 2, matched 1" in audit([keyed(1)], **topics)


def test_records_before_a_late_start_are_not_compared(audit: Auditing) -> None:
    topics = {
        "target": records(2, 3),
        "catalog": control(entry(FIRST, CatalogState.ACTIVE, "latest")),
        "segments": control(segment(FIRST, run(2, 0, 2))),
        "positions": control(position(FIRST, 4)),
    }

    assert "source_records 2, target_records 2, matched 2" in audit(records(0, 1, 2, 3), **topics)
