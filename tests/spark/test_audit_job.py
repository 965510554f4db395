"""The audit as a job over a topic that was made again, with records in place of brokers."""

from __future__ import annotations

import time
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
)
from mirrorfleet.records import catalog
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.records.reports import Report
from mirrorfleet.records.topics import ControlKind
from spark import io, schemas
from spark.broker import Range, UnknownTopicError
from spark.jobs import integrity_audit
from spark.jobs.running import Cluster, Job, NotIntactError
from tests.spark.control_topics import (
    AGAIN,
    BEGUN_MS,
    FIRST,
    Keyed,
    Record,
    control,
    entry,
    gap,
    partition,
    position,
    records,
    segment,
)
from tests.spark.frames import frame, run


class Side:
    """A cluster as the job knows it, and its admin; None is a topic that was deleted."""

    def __init__(
        self, session: SparkSession, topics: Mapping[str, Sequence[Record] | None]
    ) -> None:
        self.session, self.topics = session, topics
        self.options: Mapping[str, str] = {}
        self.admin = self

    def read(self, topic: str) -> DataFrame:
        return frame(self.session, self.topics.get(topic, ()) or (), schemas.RECORDS)

    read_on = read

    def ranges(self, topic: str) -> dict[int, Range]:
        rows = self.topics.get(topic, ())
        if rows is None:
            raise UnknownTopicError(f"topic {topic}", hint="`sync` makes it.")
        numbers = {0, *(row[0] for row in rows)}
        return {
            number: Range(0, max((row[1] + 1 for row in rows if row[0] == number), default=0))
            for number in numbers
        }

    def written(self, topic: str) -> dict[int, int]:
        return {number: each.end for number, each in self.ranges(topic).items()}


class Audit(Job):
    """A job on two sides."""

    sides: Mapping[str, Side]
    written: list[Report]

    def cluster(self, alias: str) -> Cluster:
        return cast("Cluster", self.sides[alias])

    def topic(self, kind: ControlKind) -> str:
        return str(kind)

    def report(self, reports: Sequence[Report]) -> None:
        self.written.extend(reports)


def reported() -> dict[str, object]:
    """The fields of the report, which is written once, whatever comes of the audit."""
    (report,) = Audit.written
    assert (report.kind, report.about) == ("integrity", ("east->west", "orders"))
    return dict(report.fields)


Auditing = Callable[..., str]


@pytest.fixture
def audit(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Auditing:
    def audited(
        source: Sequence[Record] | None,
        *,
        first: int = 0,
        end: int | None = None,
        **topics: Sequence[Record] | None,
    ) -> str:
        """What is printed."""
        copied = {"east.orders": topics.pop("target"), **topics}
        sides = {"east": Side(session, {"orders": source}), "west": Side(session, copied)}
        monkeypatch.setattr(Audit, "sides", sides, raising=False)
        monkeypatch.setattr(Audit, "written", [], raising=False)
        monkeypatch.setattr(
            io,
            "read_topic",
            lambda _session, _options, topic, _ranges: (
                sides["east"] if topic == "orders" else sides["west"]
            ).read(topic),
        )
        asked = Namespace(source="east", topic="orders", first=first, end=end, output=None)
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


def test_a_report_says_when_and_what_was_compared(audit: Auditing) -> None:
    before_ms = time.time_ns() // 1_000_000

    audit(records(0, 1, 2, 3), first=1, end=3, **MADE_AGAIN)

    fields = reported()
    time_ms = fields.pop("time_ms")
    assert isinstance(time_ms, int)
    assert before_ms <= time_ms <= time.time_ns() // 1_000_000
    assert fields == {
        "first": 1,
        "end": 3,
        "partitions": 1,
        "compared": 1,
        "settled": True,
        "source_records": 2,
        "target_records": 2,
        "matched": 2,
        "missing": 0,
        "explained": 0,
        "extra": 0,
        "altered": 0,
        "out_of_order": 0,
        "displaced": 0,
    }


def test_a_report_says_that_nothing_behind_the_end_of_the_map_was_compared(
    audit: Auditing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(integrity_audit, "settles", lambda _admin, _topic: False)

    audit(records(0, 1, 2, 3), **MADE_AGAIN)

    fields = reported()
    assert (fields["settled"], fields["matched"], fields["end"]) == (False, 4, None)


def test_records_on_both_sides_of_which_the_map_has_none_are_not_called_intact(
    audit: Auditing, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = control(entry(FIRST, CatalogState.ACTIVE))

    with pytest.raises(RefusedError, match="nothing was compared") as refused:
        audit(records(0, 1, 2), target=records(0, 1, 2), catalog=copied)

    assert "orders-0: 3 records of the source and 3 of the target" in refused.value.message
    said = capsys.readouterr().out
    assert said == "orders-0: not compared: the offset map has nothing of it\n"
    fields = reported()
    assert (fields["partitions"], fields["compared"], fields["missing"]) == (1, 0, 0)


def test_a_partition_of_which_nothing_is_copied_yet_is_named_and_no_fault(audit: Auditing) -> None:
    copied = control(entry(FIRST, CatalogState.ACTIVE))

    said = audit(records(0, 1, 2), target=[], catalog=copied)

    assert said == "orders-0: not compared: nothing of it is copied yet\n"
    fields = reported()
    assert (fields["partitions"], fields["compared"], fields["matched"]) == (1, 0, 0)


def test_a_range_that_is_not_copied_yet_is_named_and_no_fault(audit: Auditing) -> None:
    said = audit(records(0, 1, 2, 3, 4, 5), first=4, **MADE_AGAIN)

    assert said.startswith("orders-0: not compared: of what is asked for nothing is copied yet")
    fields = reported()
    assert (fields["first"], fields["compared"]) == (4, 0)


def test_a_partition_that_the_target_does_not_have_is_named_beside_one_that_is_intact(
    audit: Auditing,
) -> None:
    other = replace(FIRST, partition=1)
    topics = {
        "target": records(0, 1, 2),
        "catalog": control(entry(FIRST, CatalogState.ACTIVE), entry(other, CatalogState.ACTIVE)),
        "segments": control(segment(FIRST, run(0, 0, 3))),
        "positions": control(position(FIRST, 3)),
    }

    said = audit([*records(0, 1, 2), *records(5, partition=1)], **topics)

    first, last = said.splitlines()
    assert first.startswith("orders-0: source_records 3, target_records 3, matched 3, missing 0")
    assert last == "orders-1: not compared: the target has no such partition"
    fields = reported()
    assert (fields["partitions"], fields["compared"], fields["matched"]) == (2, 1, 3)


@pytest.mark.parametrize(
    ("also", "said", "why"),
    [
        ((), "the catalog has no entry of it: nothing copies it", "has offsets 0..1, and nothing"),
        (
            (entry(replace(FIRST, partition=1), CatalogState.ACTIVE),),
            "the target has no such partition",
            "orders-1: 2 records were copied",
        ),
    ],
)
def test_a_partition_that_nothing_copies_and_one_whose_copy_is_gone_are_not_called_intact(
    audit: Auditing,
    capsys: pytest.CaptureFixture[str],
    also: tuple[Keyed, ...],
    said: str,
    why: str,
) -> None:
    copied = {
        "target": records(0),
        "catalog": control(entry(FIRST, CatalogState.ACTIVE), *also),
        "segments": control(
            segment(FIRST, run(0, 0, 1)), segment(replace(FIRST, partition=1), run(0, 0, 2))
        ),
        "positions": control(position(FIRST, 1)),
    }
    with pytest.raises(NotIntactError, match=why):
        audit([*records(0), *records(5, 6, partition=1)], **copied)

    assert f"orders-1: not compared: {said}\n" in capsys.readouterr().out
    assert (reported()["partitions"], reported()["compared"]) == (2, 1)


TWO_COPIED = {
    "catalog": control(
        entry(FIRST, CatalogState.ACTIVE), entry(replace(FIRST, partition=1), CatalogState.ACTIVE)
    ),
    "segments": control(segment(FIRST, run(0, 0, 3))),
    "positions": control(position(FIRST, 3)),
}


def test_a_copy_whose_topic_is_gone_is_reported_and_not_called_intact(
    audit: Auditing, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = [*records(0, 1, 2), *records(5, partition=1)]

    with pytest.raises(NotIntactError, match="orders-0: 3 records were copied over east->west"):
        audit(ours, target=None, **TWO_COPIED)

    assert capsys.readouterr().out.splitlines() == [
        "orders-0: not compared: the target has no such topic",
        "orders-1: not compared: the target has no such topic",
    ]
    assert (reported()["partitions"], reported()["compared"]) == (2, 0)


def test_a_source_whose_topic_is_gone_is_named_and_no_fault(audit: Auditing) -> None:
    said = audit(None, target=[*records(0, 1, 2), *records(5, partition=1)], **TWO_COPIED)

    assert said.splitlines() == [
        "orders-0: not compared: the source has no such topic",
        "orders-1: not compared: the source has no such topic",
    ]
    assert (reported()["partitions"], reported()["compared"]) == (2, 0)


def test_a_control_topic_that_is_not_there_ends_the_audit_without_a_report(
    audit: Auditing,
) -> None:
    with pytest.raises(UnknownTopicError, match="`sync` makes it"):
        audit(records(0), target=records(0), **TWO_COPIED | {"segments": None})

    assert Audit.written == []


def test_what_is_missing_is_told_before_what_could_not_be_compared(
    audit: Auditing, capsys: pytest.CaptureFixture[str]
) -> None:
    other = replace(FIRST, partition=1)
    topics = {
        "target": [*records(0, 1), *records(5, 6, partition=1)],
        "catalog": control(entry(FIRST, CatalogState.ACTIVE), entry(other, CatalogState.ACTIVE)),
        "segments": control(segment(FIRST, run(0, 0, 3))),
        "positions": control(position(FIRST, 3)),
    }

    with pytest.raises(RefusedError, match=r"is not intact: \{'missing': 1\}"):
        audit([*records(0, 1, 2), *records(5, 6, partition=1)], **topics)

    assert "orders-1: not compared: the offset map has nothing of it" in capsys.readouterr().out
    assert reported()["compared"] == 1
