"""`verify`: a row a partition, what keeps one from being read, and the exit code."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.offsets import EARLIEST, ListedOffset, OffsetSpec
from mirrorfleet.mapping.catalog import CatalogView
from mirrorfleet.offsets.floors import Seen, Sides
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.offsets.ledger import Ledger
from mirrorfleet.operating import verifying
from mirrorfleet.records.catalog import CatalogLink, CatalogPartition
from mirrorfleet.records.events import Event
from mirrorfleet.wire.records import Record
from services.cli.__main__ import main
from tests.unit.offsets.making import run_of
from tests.unit.offsets.test_homes import entry
from tests.unit.records.making import CLUSTER, LINK
from tests.unit.services.cli.making import opened_by

if TYPE_CHECKING:
    from mirrorfleet.core.ids import ClusterAlias, PartitionIdentity

GONE = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, "ListOffsets")
AWAY = BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "Fetch of orders-1")
Captured = pytest.CaptureFixture[str]


@dataclass
class World:
    """`orders` has two partitions, and 0 to 5 of each is copied; offsets that a side lacks."""

    lacks: set[tuple[str, TopicPartition, int]] = field(default_factory=set)
    leaderless: set[TopicPartition] = field(default_factory=set)
    unread: set[TopicPartition] = field(default_factory=set)
    gone: bool = False
    compacted: bool = False
    left_out: dict[PartitionIdentity, int] = field(default_factory=dict)
    """An offset that the map has no place for, and the ledger tells of."""

    def __post_init__(self) -> None:
        self.view, index = CatalogView(), OffsetIndex()
        for number in range(2):
            one = entry(number)
            self.view.partitions[one.identity] = one
            index.add(one.identity, [run_of(0, 5, 0)])
        self.view.links[LINK.source] = CatalogLink(
            link=LINK, source_cluster=CLUSTER, target_cluster=CLUSTER, slots=()
        )
        self.index = index

    async def read_catalog(self, *_: object) -> CatalogView:
        return self.view

    async def load_map(self, *_: object) -> World:
        return self

    async def read_ledgers(
        self, cluster: Cluster, _: object, entries: Sequence[CatalogPartition]
    ) -> Mapping[PartitionIdentity, Ledger]:
        assert cluster.name == "west"
        return {one.identity: Ledger(self._told(one)) for one in entries}

    def _told(self, one: CatalogPartition) -> list[Event]:
        at = self.left_out.get(one.identity)
        gap = Event(kind="gap", time_ms=1, writer="w", first=at, end=None if at is None else at + 1)
        return [gap]

    async def sides_seen(self, *_: object) -> Mapping[PartitionIdentity, Sides]:
        seen = Sides(Seen.GONE if self.gone else Seen.THERE, Seen.THERE)
        return dict.fromkeys(self.view.partitions, seen)

    async def list_offsets(
        self, cluster: Cluster, wanted: Mapping[TopicPartition, OffsetSpec]
    ) -> Mapping[TopicPartition, ListedOffset | BrokerError]:
        assert (cluster.name, set(wanted.values())) == ("west", {EARLIEST})
        found = ListedOffset(0, -1, 0)
        return {at: GONE if at in self.leaderless else found for at in wanted}

    async def bounds_that_are_told(
        self, cluster: Cluster, topic: str, numbers: Sequence[int]
    ) -> Mapping[int, tuple[int, int] | BrokerError]:
        assert cluster.name == "east"
        assert not self.gone  # it would be asked for until the deadline
        at = {number: TopicPartition(topic, number) for number in numbers}
        return {number: GONE if at[number] in self.leaderless else (0, 9) for number in numbers}

    async def committed_records(
        self, cluster: Cluster, topic: str, number: int, start: int, _: int
    ) -> AsyncIterator[Record]:
        at = TopicPartition(topic, number)
        for offset in range(start, 9):  # a batch may go on beyond the end
            if at in self.unread and offset == 2:
                raise AWAY
            if (cluster.name, at, offset) not in self.lacks:
                yield Record(offset, 0, None, b"v%d" % offset)


@dataclass
class Cluster:
    name: ClusterAlias
    cluster_id: str = CLUSTER

    async def topic(self, name: str, *, refresh: bool) -> str:
        assert refresh
        return name


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()

    opened_by(verifying, Cluster, tmp_path, monkeypatch)
    for name in (
        "read_catalog",
        "load_map",
        "read_ledgers",
        "sides_seen",
        "list_offsets",
        "bounds_that_are_told",
        "committed_records",
    ):
        monkeypatch.setattr(verifying, name, getattr(made, name))
    return made


def told(capsys: Captured, text: str = "orders") -> tuple[int, list[object], str]:
    code = main(["verify", text, "--target", "west", "-o", "json"])
    shown = capsys.readouterr()
    rows = json.loads(shown.out)
    return code, [(row["partition"], row["outcome"], row["equal"]) for row in rows], shown.err


@pytest.mark.usefixtures("world")
def test_both_sides_that_are_the_same_are_exit_0(capsys: Captured) -> None:
    assert told(capsys) == (0, [(0, "intact", 5), (1, "intact", 5)], "")
    assert told(capsys, "orders-1") == (0, [(1, "intact", 5)], "")


def test_a_difference_is_exit_2_with_its_offsets(world: World, capsys: Captured) -> None:
    world.lacks = {("west", entry(1).target, 3), ("east", entry(1).source, 4)}

    code, rows, said = told(capsys)

    assert (code, rows) == (2, [(0, "intact", 5), (1, "DIFFERENT", 3)])
    assert said == (
        "orders-1: missing on the target, at the source's 3; on the target alone, at its 4\n"
    )


def test_what_the_ledger_tells_of_is_no_difference_and_is_said(
    world: World, capsys: Captured
) -> None:
    one = entry(1)
    world.index.add(one.identity, [run_of(6, 9, 6)])
    world.lacks = {("west", one.target, 5)}
    lost = "orders-1: missing on the target, at the source's 5\n"
    assert told(capsys, "orders-1") == (2, [(1, "DIFFERENT", 8)], lost)

    world.left_out = {one.identity: 5}

    code, rows, said = told(capsys, "orders-1")

    assert (code, rows) == (0, [(1, "intact", 8)])
    assert said == "orders-1: not copied, as the gap ledger tells, at the source's 5\n"


def test_what_was_copied_is_missing_whatever_the_ledger_tells(
    world: World, capsys: Captured
) -> None:
    world.lacks, world.left_out = {("west", entry(1).target, 3)}, {entry(1).identity: 3}

    assert told(capsys, "orders-1")[:2] == (2, [(1, "DIFFERENT", 4)])


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"leaderless": {entry(0).target}}, "orders-0: ListOffsets: LEADER_NOT_AVAILABLE"),
        ({"leaderless": {entry(0).source}}, "orders-0: ListOffsets: LEADER_NOT_AVAILABLE"),
        ({"unread": {entry(0).source}}, "orders-0: Fetch of orders-1: NOT_LEADER_OR_FOLLOWER"),
    ],
)
def test_what_cannot_be_read_is_exit_1_and_hides_no_other(
    world: World, capsys: Captured, what: dict[str, set[TopicPartition]], said: str
) -> None:
    for name, value in what.items():
        setattr(world, name, value)

    code, rows, shown = told(capsys)

    assert code == 1
    assert [row[1] for row in rows if isinstance(row, tuple)] == ["not read", "intact"]
    assert shown.startswith(said)


def test_a_topic_that_was_deleted_is_not_compared_with_its_heir(
    world: World, capsys: Captured
) -> None:
    world.gone = True

    code, rows, said = told(capsys, "orders-0")

    assert (code, rows) == (1, [(0, "not read", None)])
    assert "was deleted" in said


def test_a_topic_that_is_called_like_a_partition_is_the_topic(
    world: World, capsys: Captured
) -> None:
    other = entry(2, topic="orders-1")
    world.view.partitions[other.identity] = other

    assert told(capsys, "orders-1")[1] == [(2, "nothing there", None)]


def test_what_is_not_copied_is_refused(world: World, capsys: Captured) -> None:
    for text in ("carts", "orders-2"):
        assert main(["verify", text, "--target", "west"]) == 1
        said = capsys.readouterr().err
        assert f"east->west copies no '{text}'" in said
        assert f"mirrorfleet explain {text}" in said
    world.index = OffsetIndex()
    code, rows, said = told(capsys, "orders-0")
    assert (code, rows) == (0, [(0, "nothing there", None)])
