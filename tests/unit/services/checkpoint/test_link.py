"""Looks at the groups of a link, against two clusters and a checkpoints topic made of dicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from uuid import UUID

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError
from mirrorfleet.core.ids import ClusterId, TargetOffset, TopicId, TopicPartition
from mirrorfleet.kafka.groups import GroupOffsets, GroupState, ListedGroup
from mirrorfleet.kafka.metadata import Metadata, TopicMeta
from mirrorfleet.kafka.offsets import ListedOffset
from mirrorfleet.mapping.groups_seen import GroupsSeen
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.policy.filters import NameFilter
from mirrorfleet.policy.flows import Flow, FlowRule
from mirrorfleet.policy.naming import Naming
from mirrorfleet.records import checkpoint
from mirrorfleet.records.checkpoint import Checkpoint
from mirrorfleet.runtime.clock import SystemClock
from services.checkpoint import link as link_module
from services.checkpoint.link import LinkGroups
from services.checkpoint.report import shut_out
from services.checkpoint.settings import CheckpointSettings
from tests.unit.copying.making import LINK, SOURCE_TOPIC, TARGET_TOPIC, entry, identity
from tests.unit.offsets.making import run_of
from tests.unit.offsets.test_set_back import recopied
from tests.unit.planning.samples import a_flow

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster

EMPTY = {"g": ListedGroup("g", GroupState.EMPTY, 1)}
FLOW = Flow(
    LINK,
    (FlowRule("", NameFilter((".*",)), NameFilter((".*",)), Naming.PREFIX),),
    NameFilter(()),
)
ANOTHER_TOPIC = UUID(int=0xC)
DAY_S = 86_400.0
MAY_NOT = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "OffsetFetch of group g")
NO_READ = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "OffsetCommit of group g")
Answers = dict[str, GroupOffsets | BrokerError]


def here(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def there(number: int) -> TopicPartition:
    return TopicPartition("east.orders", number)


def places(*offsets: int) -> GroupOffsets:
    return {here(number): GroupOffset(offset) for number, offset in enumerate(offsets)}


def copied(partitions: int = 2) -> Copies:
    index = OffsetIndex()
    for number in range(partitions):
        index.add(identity(number), [run_of(0, 50, 0)])
    return Copies([entry(number) for number in range(partitions)], index)


@dataclass
class World:
    """Group g, the checkpoints topic, and what the target was asked.

    `meanwhile` is what others set on the target between a look and its commit.
    """

    source: GroupOffsets = field(default_factory=lambda: places(5, 5))
    target: GroupOffsets = field(default_factory=dict)
    topic: list[Checkpoint] = field(default_factory=list)
    is_hidden: bool = False
    silent: set[TopicPartition] = field(default_factory=set)
    forbidden: set[TopicPartition] = field(default_factory=set)
    meanwhile: GroupOffsets = field(default_factory=dict)
    commits: list[GroupOffsets] = field(default_factory=list)
    patience: list[tuple[set[TopicPartition], float]] = field(default_factory=list)
    now: float = 1_000.0
    asked: int = 0
    read: list[Checkpoint] = field(default_factory=list)
    source_id: TopicId = SOURCE_TOPIC
    topic_id: TopicId = TARGET_TOPIC
    is_deleted: bool = False
    looked_up: list[Sequence[str]] = field(default_factory=list)

    def link(self) -> LinkGroups:
        """As another process begins: it knows nothing."""
        clusters = [
            cast(
                "Cluster",
                SimpleNamespace(
                    settings=None, dice=None, name=name, metadata=partial(self.metadata, name)
                ),
            )
            for name in ("east", "west")
        ]
        made = LinkGroups(FLOW, clusters[0], clusters[1], CheckpointSettings(), self)
        made._ours, made._echoes = self, Nothing()  # type: ignore[assignment]  # fakes of a topic
        made._writer = self  # type: ignore[assignment]  # a fake of a topic
        return made

    # -- clock, checkpoints topic and its writer

    def monotonic(self) -> float:
        return self.now

    def now_ms(self) -> int:
        return int(self.now * 1_000)

    async def refresh(self) -> None:
        self.read = list(self.topic)

    def last(self, point: Checkpoint) -> Checkpoint | None:
        mine = [one for one in self.read if one.partition == point.partition]
        return mine[-1] if mine else None

    def has(self, point: Checkpoint) -> bool:
        return self.last(point) == point

    def of(self, group: str) -> dict[TopicPartition, tuple[TargetOffset, ...]]:
        return {one.partition: one.written for one in self.read if one.group == group}

    async def write(
        self, _: TopicPartition, entries: Iterable[tuple[bytes, bytes]], now_ms: int
    ) -> None:
        assert now_ms == self.now_ms()
        points = [checkpoint.decode(*one) for one in entries]
        self.topic += [one for one in points if isinstance(one, Checkpoint)]

    @property
    def newest(self) -> list[Checkpoint]:
        return list({(one.group, one.partition): one for one in self.read}.values())

    @property
    def groups(self) -> set[str]:
        return {one.group for one in self.read}

    def forget(self, groups: Iterable[str]) -> None:
        raise AssertionError(f"{groups} are not gone")

    # -- requests

    async def metadata(self, cluster: str, topics: Sequence[str]) -> Metadata:
        self.looked_up.append(topics)
        is_target = cluster == "west"
        is_gone = is_target and self.is_deleted
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_gone else ErrorCode.NONE
        topic_id = self.topic_id if is_target else self.source_id
        found = {name: TopicMeta(name, topic_id, error, False, {}) for name in topics}
        return Metadata(ClusterId(""), 0, {}, found)

    async def list_groups(
        self, cluster: Cluster, *, any_protocol: bool = False, deadline_s: float
    ) -> dict[str, ListedGroup]:
        self.asked = 0
        return {} if cluster.name == "west" and (self.is_hidden or not self.target) else EMPTY

    async def fetch_offsets(
        self, cluster: Cluster, groups: Iterable[str], *, deadline_s: float, **_: object
    ) -> Answers:
        if cluster.name == "east":
            return {group: dict(self.source) for group in groups}
        self.asked += 1
        if self.asked == 2:
            self.target |= self.meanwhile
        return {group: MAY_NOT if self.is_hidden else dict(self.target) for group in groups}

    async def commit_offsets(
        self, _: Cluster, wanted: Mapping[str, GroupOffsets], *, once: bool, deadline_s: float
    ) -> dict[str, BrokerError | None]:
        for one in wanted.values():
            self.commits.append(one)
            self.target |= {at: place for at, place in one.items() if at not in self.forbidden}
        return {g: NO_READ if self.forbidden & one.keys() else None for g, one in wanted.items()}

    async def list_offsets(
        self, _: Cluster, wanted: Iterable[TopicPartition], *, deadline_s: float
    ) -> dict[TopicPartition, ListedOffset | BrokerError]:
        asked = set(wanted)
        self.patience += [(asked, deadline_s)] if asked else []
        if asked and asked <= self.silent:
            raise DeadlineError("west: ListOffsets: gave up")
        gone = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, "west")
        return {at: gone if at in self.silent else ListedOffset(0, -1, 0) for at in asked}


class Nothing:
    """A topic without records."""

    groups: frozenset[str] = frozenset()

    async def refresh(self) -> None:
        pass

    def of(self, _: str) -> dict[TopicPartition, tuple[TargetOffset, ...]]:
        return {}

    def forget(self, _: frozenset[str]) -> None:
        pass


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return installed(monkeypatch)


def installed(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world that links ask instead of clusters."""
    made = World()
    for name in ("list_groups", "fetch_offsets", "commit_offsets", "list_offsets"):
        monkeypatch.setattr(link_module, name, getattr(made, name))
    monkeypatch.setattr(Copies, "syncs", lambda _: iter(()))
    return made


def test_how_long_a_group_is_idle_counts_from_when_we_look_again() -> None:
    """As a standby nobody looked: it may have been at work on the target in between."""
    cluster = cast("Cluster", SimpleNamespace(settings=None, dice=None, name="fake"))
    link = LinkGroups(a_flow("orders"), cluster, cluster, CheckpointSettings(), SystemClock())

    def idle_s(now: float) -> float:
        seen = GroupsSeen(EMPTY, {"g": {}}, EMPTY, {"g": {there(0): GroupOffset(5)}})
        rest = link._rest("g", {}, copied(), seen, now)
        return link._view("g", (), rest, seen, now).idle_s

    idle = [idle_s(100.0), idle_s(160.0)]
    link.forget()
    idle += [idle_s(1_000.0), idle_s(1_005.0)]

    assert idle == [0.0, 60.0, 0.0, 5.0]


async def test_a_quiet_partition_of_a_busy_group_is_written_again_in_time(world: World) -> None:
    link = world.link()
    await link.look(copied())
    world.commits.clear()

    for turn in range(1, 5):
        world.now += DAY_S / 3
        world.source[here(0)] = GroupOffset(5 + turn)
        await link.look(copied())

    assert [set(one) for one in world.commits] == [
        {there(0)},
        {there(0)},
        {there(0), there(1)},
        {there(0)},
    ]


async def test_a_group_that_the_target_hides_is_told_and_what_was_written_is_remembered(
    world: World,
) -> None:
    link = world.link()
    await link.look(copied())
    before = list(world.topic)
    world.is_hidden, world.source = True, places(9, 9)

    await link.look(copied())

    assert "GROUP_AUTHORIZATION_FAILED" in link.report.refused["g"]
    assert shut_out(link) == "offsets do not follow for g: /status says why"
    assert (world.topic, len(world.commits), link.commits["raced"]) == (before, 1, 0)
    world.is_hidden = False
    await link.look(copied())
    assert shut_out(link) == ""
    assert world.target == {there(0): GroupOffset(9), there(1): GroupOffset(9)}


async def test_a_group_that_is_refused_when_it_is_to_be_set_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = world.fetch_offsets

    async def then_refuse(
        cluster: Cluster, groups: Iterable[str], *, deadline_s: float, **_: object
    ) -> Answers:
        answers = await fetch(cluster, groups, deadline_s=deadline_s)
        second = cluster.name == "west" and world.asked == 2
        return dict.fromkeys(groups, MAY_NOT) if second else answers

    monkeypatch.setattr(link_module, "fetch_offsets", then_refuse)
    link = world.link()

    await link.look(copied())

    assert "GROUP_AUTHORIZATION_FAILED" in link.report.refused["g"]
    assert (link.commits["refused"], link.commits["raced"], world.commits) == (1, 0, [])


@pytest.mark.parametrize(
    ("moved", "raced"),
    [(TopicPartition("south.orders", 0), 0), (there(0), 1), (there(1), 1)],
    ids=["by another link", "where it is due", "elsewhere on this link"],
)
async def test_a_group_is_not_set_when_it_moved_where_this_link_sets_it(
    world: World, moved: TopicPartition, raced: int
) -> None:
    link = world.link()
    await link.look(copied())
    world.commits.clear()
    world.source[here(0)] = GroupOffset(8)
    world.meanwhile = {moved: GroupOffset(7)}

    await link.look(copied())

    assert world.commits == ([] if raced else [{there(0): GroupOffset(8)}])
    assert link.commits["raced"] == raced


async def test_a_target_partition_that_does_not_answer_holds_up_one_look(world: World) -> None:
    world.silent = {there(1)}
    link = world.link()

    for _ in range(2):
        await link.look(copied())
    world.silent = set()
    for _ in range(2):
        await link.look(copied())

    both = {there(0), there(1)}
    assert world.patience == [
        (both, 15.0),
        ({there(0)}, 15.0),
        ({there(1)}, 1.0),
        ({there(0)}, 15.0),
        ({there(1)}, 1.0),
        (both, 15.0),
    ]
    assert world.target.keys() == both


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "made again"])
async def test_no_offset_of_a_topic_that_is_gone_is_set_on_the_one_that_has_its_name_now(
    world: World, *, is_deleted: bool
) -> None:
    """The target has dropped the group's offsets, and the catalog knows of nothing yet."""
    world.topic_id, world.is_deleted = TARGET_TOPIC if is_deleted else ANOTHER_TOPIC, is_deleted
    link = world.link()

    await link.look(copied())

    assert (world.topic, world.commits, world.target) == ([], [], {})
    assert world.looked_up == [["orders"], ["east.orders"]]  # once, however many partitions
    world.topic_id, world.is_deleted = ANOTHER_TOPIC, False
    again = replace(identity(), target_topic_id=ANOTHER_TOPIC, incarnation=1)
    index = OffsetIndex()
    index.add(identity(), [run_of(0, 50, 0)])
    index.add(again, [run_of(3, 50, 0)])
    await link.look(Copies([entry(identity=again)], index))
    assert world.target == {there(0): GroupOffset(2)}


async def test_no_offset_of_a_source_topic_that_was_made_again_is_translated_by_the_map_of_before(
    world: World,
) -> None:
    """The group reads the new one from its beginning; the copy of the old one is all there is."""
    world.source, world.source_id = places(40), ANOTHER_TOPIC
    link = world.link()

    await link.look(copied())

    assert (world.topic, world.commits, world.target) == ([], [], {})
    again = replace(identity(), source_topic_id=ANOTHER_TOPIC, incarnation=1)
    index = OffsetIndex()
    index.add(identity(), [run_of(0, 50, 0)])
    index.add(again, [run_of(0, 50, 50)])
    await link.look(Copies([entry(identity=again)], index))
    assert world.target == {there(0): GroupOffset(90)}


async def test_another_process_sets_back_what_was_right_before_the_target_lost_its_tail(
    world: World,
) -> None:
    world.source, at = places(90), there(0)
    index = OffsetIndex()
    index.add(identity(), [run_of(number, number + 1, 2 * number) for number in range(100)])
    await world.link().look(Copies([entry()], index))
    assert world.target == {at: GroupOffset(180)}

    await world.link().look(recopied())

    assert world.target == {at: GroupOffset(140)}
    begun, done = world.topic[-2:]
    assert (begun.written, done.written) == ((140, 180), (140,))
    world.target[at] = GroupOffset(180)  # by itself, whatever we wrote there long ago
    await world.link().look(recopied())
    assert world.target == {at: GroupOffset(180)}
