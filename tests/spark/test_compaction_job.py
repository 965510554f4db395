"""Compaction as a job on a broker: killed at each step and run again, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession

from mirrorfleet.core.ids import FleetName
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.offsets.packing import plan_packing
from mirrorfleet.records import archive
from mirrorfleet.records.segments import Segment, decode_segment, encode_segment
from mirrorfleet.records.topics import ControlKind, control_topics
from services.local.region import Region
from spark import broker
from spark.broker import Admin
from spark.jobs import compact_offset_syncs
from spark.jobs.running import Cluster
from tests.faultkit.regions import address
from tests.integration.checkpoint.copied import Copied
from tests.integration.checkpoint.stored_map import OTHER, SLOT
from tests.integration.mirror.making import Made, create, put, read

ASKED = 1_000_000
SLOTS = 2
KINDS = (ControlKind.SEGMENTS, ControlKind.ARCHIVE)


class DiedError(Exception):
    """Raised where the job is killed."""


class Fleet:
    """Two control topics, and somebody who writes segments."""

    def __init__(self, name: str, west: Region, directory: Path) -> None:
        self.name, self.west = name, west
        self.estate = directory / f"{name}.yaml"
        self.copied = Copied()
        self.segments: list[Segment] = []
        clusters = {
            "east": {"bootstrap": "127.0.0.1:1"},
            "west": {"bootstrap": address(west), "fleet": name},
        }
        rule = {"name": "all", "topics": [".*"]}
        links = [{"from": "east", "to": "west", "rules": [rule]}]
        estate = {"estate": name, "clusters": clusters, "links": links}
        self.estate.write_text(yaml.safe_dump(estate))

    def make(self, *kinds: ControlKind) -> None:
        for spec in control_topics(FleetName(self.name), slots=SLOTS, replication_factor=1):
            if spec.name in {self.topic(kind) for kind in kinds}:
                create(self.west, spec.name, spec.partitions, **spec.configs)

    def topic(self, kind: ControlKind) -> str:
        return f"__mirrorfleet.{self.name}.{kind}"

    def copy(self, transactions: int) -> None:
        made = [self.copied.transaction() for _ in range(transactions)]
        self.segments += made
        records = [Made(encode_segment(each), key=None, partition=SLOT) for each in made]
        put(self.west, self.topic(ControlKind.SEGMENTS), records)

    def waiting(self) -> list[bytes | None]:
        found = read(self.west, self.topic(ControlKind.SEGMENTS), SLOTS)
        return [record.value for slot in found for record in slot]

    def live(self) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for record in read(self.west, self.topic(ControlKind.ARCHIVE), SLOTS)[SLOT]:
            assert record.key is not None
            if record.value is None:
                found.pop(record.key, None)
            else:
                found[record.key] = record.value
        return found

    def index(self) -> OffsetIndex:
        """The map out of both topics."""
        index = OffsetIndex()
        for value in self.waiting():
            index.add_segment(decode_segment(value or b""))
        for key, value in self.live().items():
            block = archive.decode(key, value)
            assert isinstance(block, archive.Block)
            index.add_block(block)
        return index

    def compact(self) -> int:
        return compact_offset_syncs.main(["--estate", str(self.estate), "--target", "west"])


@pytest.fixture(scope="module")
def fleet(session: SparkSession, west: Region, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    made = Fleet("compacted", west, tmp_path_factory.mktemp("compacted"))
    made.make(*KINDS)
    return made


def die_writing(patch: pytest.MonkeyPatch, call: int, part: float) -> None:
    """Death in the n-th write, when a part of the records is written."""
    write = Cluster.write
    calls = iter(range(1, 100))

    def dying(cluster: Cluster, topic: str, records: DataFrame) -> None:
        if next(calls) < call:
            write(cluster, topic, records)
            return
        write(cluster, topic, records.limit(int(records.count() * part)))
        raise DiedError

    patch.setattr(Cluster, "write", dying)


def die_freeing(patch: pytest.MonkeyPatch, part: float) -> None:
    """Death while segments are freed, when a part of them is gone."""
    free, ranges = Admin.free, Admin.ranges

    def dying(admin: Admin, topic: str, before: Mapping[int, int]) -> None:
        starts = ranges(admin, topic)
        some = {
            n: int(starts[n].start + (end - starts[n].start) * part) for n, end in before.items()
        }
        free(admin, topic, some)
        raise DiedError

    patch.setattr(Admin, "free", dying)


def test_killed_at_each_step_and_run_again_it_ends_in_the_same_and_translates_the_same(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.copy(1_500)
    assert fleet.compact() == 0
    fleet.copy(1_500)
    steps: list[Callable[[pytest.MonkeyPatch], None]] = [
        lambda patch: die_writing(patch, 1, 0.5),
        lambda patch: die_writing(patch, 1, 1.0),
        lambda patch: die_freeing(patch, 0.0),
        lambda patch: die_freeing(patch, 0.5),
        lambda patch: die_freeing(patch, 1.0),
        lambda patch: die_writing(patch, 2, 0.5),
    ]
    for step in steps:
        with pytest.MonkeyPatch.context() as patch:
            step(patch)
            with pytest.raises(DiedError):
                fleet.compact()
        fleet.copied.check(fleet.index(), 1_000)

    assert fleet.compact() == 0

    assert fleet.waiting() == [encode_segment(fleet.segments[-1])]
    assert fleet.live() == dict(map(archive.encode, plan_packing({}, fleet.segments[:-1]).write))
    assert " runs in 8 blocks, " in capsys.readouterr().out
    fleet.copied.check(fleet.index(), ASKED)


def test_a_slot_that_cannot_be_read_is_told_and_left_as_it_is_beside_one_that_is_packed(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.copy(1)
    known = [Made(encode_segment(one), partition=OTHER) for one in fleet.segments[-2:]]
    put(fleet.west, fleet.topic(ControlKind.SEGMENTS), known)
    unread = Made(b"\x09", key=b"\x09", partition=OTHER)
    put(fleet.west, fleet.topic(ControlKind.ARCHIVE), [unread])

    assert fleet.compact() == 2

    said = capsys.readouterr().err
    assert "slot 0: archive, partition 0, offset 0: archive key: version 9" in said
    left = read(fleet.west, fleet.topic(ControlKind.SEGMENTS), SLOTS)
    assert [len(left[slot]) for slot in (OTHER, SLOT)] == [2, 1]


def test_topics_that_are_not_there_and_clusters_that_do_not_answer_are_named(
    session: SparkSession,
    west: Region,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(broker, "TIMEOUT_MS", 2_000)
    nobody = Fleet("nobody", west, tmp_path)
    half = Fleet("half", west, tmp_path)
    half.make(ControlKind.SEGMENTS)

    assert (nobody.compact(), half.compact()) == (1, 1)
    said = capsys.readouterr().err
    assert "error: topic __mirrorfleet.nobody.segments at " in said
    assert "error: topic __mirrorfleet.half.archive at " in said
    assert said.count("`sync` of this fleet makes its control topics: start it.") == 2

    lost = nobody.estate
    lost.write_text(lost.read_text().replace(address(west), "127.0.0.1:2"))
    assert nobody.compact() == 1
    assert "Is the cluster up, and its address in the estate right?" in capsys.readouterr().err
