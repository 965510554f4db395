"""Where no look is possible offsets of ours are not kept below where the target's log begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.kafka.offsets import ListedOffset
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.records.checkpoint import Checkpoint
from mirrorfleet.wire.records import NO_TIME
from services.checkpoint import link as link_module
from tests.unit.services.checkpoint.test_began_anew import anew
from tests.unit.services.checkpoint.test_coming_home import WORKING
from tests.unit.services.checkpoint.test_keeping import (
    home_refuses,
    looked_once,
    lose_the_source,
    turn,
)
from tests.unit.services.checkpoint.test_link import (
    ANOTHER_TOPIC,
    DAY_S,
    World,
    copied,
    here,
    installed,
    there,
)

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.kafka.groups import GroupOffsets
    from services.checkpoint.link import LinkGroups

BEGIN = GroupOffset(40)


def point(target: int, *written: int, number: int = 0) -> Checkpoint:
    """Of group g, which stands at 5 of the source."""
    ours = tuple(TargetOffset(one) for one in written)
    return Checkpoint("g", there(number), SourceOffset(5), TargetOffset(target), "", ours)


@dataclass
class Region:
    """A world in which target logs begin where `starts` says, else at 0.

    `order` has what was written there: times of checkpoints, and offsets.
    """

    world: World
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    order: list[object] = field(default_factory=list)

    async def list_offsets(
        self, cluster: Cluster, wanted: Iterable[TopicPartition], *, deadline_s: float
    ) -> dict[TopicPartition, ListedOffset | BrokerError]:
        answers = await self.world.list_offsets(cluster, wanted, deadline_s=deadline_s)
        known = {at: ListedOffset(self.starts.get(at, 0), -1, 0) for at in answers}
        return {
            at: one if isinstance(one, BrokerError) else known[at] for at, one in answers.items()
        }

    async def commit_offsets(
        self, cluster: Cluster, wanted: Mapping[str, GroupOffsets], *, once: bool, deadline_s: float
    ) -> dict[str, BrokerError | None]:
        self.order += wanted.values()
        return await self.world.commit_offsets(cluster, wanted, once=once, deadline_s=deadline_s)

    async def write(
        self, at: TopicPartition, entries: Iterable[tuple[bytes, bytes]], now_ms: int
    ) -> None:
        self.order.append(now_ms)
        await self.world.write(at, entries, self.world.now_ms())

    def moves_on(self, link: LinkGroups) -> None:
        """The first log begins at 40 from now on; what is written is noted."""
        self.starts[there(0)] = BEGIN.offset
        link._writer = self  # type: ignore[assignment]  # a fake of a topic
        self.order.clear()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return installed(monkeypatch)


@pytest.fixture
def region(world: World, monkeypatch: pytest.MonkeyPatch) -> Region:
    made = Region(world)
    for name in ("commit_offsets", "list_offsets"):
        monkeypatch.setattr(link_module, name, getattr(made, name))
    return made


async def test_a_place_that_retention_took_is_set_to_where_the_log_begins(
    world: World, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, checkpoint first; a reset policy would lead to the end, over all that is there."""
    link = await looked_once(world, monkeypatch)
    topic = list(world.topic)
    region.moves_on(link)

    for _ in range(2):
        await turn(link)

    assert region.order == [NO_TIME, {there(0): BEGIN}]
    assert world.topic == [*topic, point(40, 40, 5)]
    assert world.target == {there(0): BEGIN, there(1): GroupOffset(5)}


async def test_it_is_followed_by_later_begins_and_kept_in_time_as_any_other(
    world: World, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await looked_once(world, monkeypatch)
    region.moves_on(link)
    await turn(link)
    region.starts[there(0)] = 45
    await turn(link)
    region.order.clear()

    world.now += DAY_S
    await turn(link)
    world.target.clear()
    await turn(link)

    both = {there(0): GroupOffset(45), there(1): GroupOffset(5)}
    assert region.order == [both, both]
    assert world.topic[-1] == point(45, 45, 40)


async def test_what_a_look_had_set_to_the_begin_is_set_again_where_it_was_forgotten(
    world: World, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The map leads below it, to what nobody has any more."""
    world.topic = [point(40, 40)]
    region.starts[there(0)] = BEGIN.offset
    lose_the_source(world, monkeypatch)

    await world.link().keep(copied())

    assert world.commits == [{there(0): BEGIN}]


async def test_a_checkpoint_whose_offset_was_not_set_any_more_is_gone_on_with(
    world: World, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who wrote it died before the offset; what stands there is ours, and below the begin."""
    world.topic, world.target = [point(40, 40, 5)], {there(0): GroupOffset(5)}
    region.starts[there(0)] = 30
    lose_the_source(world, monkeypatch)

    await world.link().keep(copied())

    assert (region.order, world.topic) == ([{there(0): BEGIN}], [point(40, 40, 5)])


async def test_where_a_checkpoint_leads_that_was_never_set_is_told_as_ours_first(
    world: World, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was at work on the target when the look came; else its place would pass for progress."""
    world.topic, world.target = [point(45, 5)], {there(0): GroupOffset(5)}
    lose_the_source(world, monkeypatch)
    link = world.link()
    region.moves_on(link)

    await link.keep(copied())

    assert region.order == [NO_TIME, {there(0): GroupOffset(45)}]
    assert world.topic[-1] == point(45, 45, 5)


@pytest.mark.parametrize("number", [0, 1])
async def test_a_group_that_went_anywhere_by_itself_stays_below_the_begin(
    world: World, region: Region, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    link = await looked_once(world, monkeypatch)
    world.target[there(number)] = GroupOffset(9)
    region.moves_on(link)

    await turn(link)

    assert region.order == []


async def test_a_group_that_is_at_work_stays_below_the_begin(
    world: World, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await looked_once(world, monkeypatch, WORKING)
    region.moves_on(link)

    await turn(link)

    assert region.order == []


async def test_a_group_that_moves_once_the_begin_is_known_is_left_there(
    world: World, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await looked_once(world, monkeypatch)
    world.meanwhile = {there(0): GroupOffset(45)}
    region.moves_on(link)

    await turn(link)

    assert (world.commits, link.commits["raced"]) == ([], 1)


async def test_a_place_on_a_topic_that_is_not_the_one_of_the_map_is_not_set_to_its_begin(
    world: World, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await looked_once(world, monkeypatch)
    world.topic_id = ANOTHER_TOPIC
    region.moves_on(link)

    await turn(link)

    assert region.order == []


async def test_where_nobody_says_where_the_log_begins_the_place_is_kept_as_it_is(
    world: World, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the next time that is asked apart, for others not to wait for it."""
    link = await looked_once(world, monkeypatch)
    region.moves_on(link)
    world.silent = {there(0)}
    world.now += DAY_S
    world.patience.clear()

    for _ in range(2):
        await link.keep(copied())

    assert region.order == [{there(0): GroupOffset(5), there(1): GroupOffset(5)}]
    waited = link._settings.request_s
    assert world.patience == [
        ({there(0), there(1)}, waited),
        ({there(1)}, waited),
        ({there(0)}, 1.0),
    ]


async def test_a_topic_that_nobody_copies_any_more_is_not_asked_about(
    world: World, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be deleted: each turn would wait for a leader of it."""
    gone = TopicPartition("gone", 0)
    world.topic = [point(5, 5), replace(point(5, 5), partition=gone)]
    lose_the_source(world, monkeypatch)

    await world.link().keep(copied())

    assert [asked for asked, _ in world.patience] == [{there(0)}]


async def test_a_place_that_the_target_refuses_to_set_is_told_once(
    world: World, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await looked_once(world, monkeypatch)
    world.forbidden = {there(0)}
    region.moves_on(link)

    for _ in range(2):
        await turn(link)

    assert region.order == [NO_TIME, {there(0): BEGIN}, {there(0): BEGIN}]
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED.name in link.report.refused["g"]


async def test_once_the_source_is_back_it_is_followed_from_there(
    world: World, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await looked_once(world, monkeypatch)
    region.moves_on(link)
    await turn(link)
    monkeypatch.setattr(link_module, "list_groups", world.list_groups)
    region.order.clear()

    await link.look(copied())
    assert world.target[there(0)] == BEGIN
    world.source[here(0)] = GroupOffset(47)
    await link.look(copied())

    assert [one for one in region.order if isinstance(one, dict)] == [{there(0): GroupOffset(47)}]


async def test_a_group_that_the_source_does_not_answer_for_is_not_kept_below_the_begin(
    world: World, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = world.link()
    await link.look(copied())
    home_refuses(world, monkeypatch)
    region.moves_on(link)

    await link.look(copied())

    assert region.order == [NO_TIME, {there(0): BEGIN}]
    assert world.topic[-1] == point(40, 40, 5)


async def test_a_place_on_a_copy_without_a_record_is_not_kept_below_the_begin(
    world: World, region: Region
) -> None:
    link = world.link()
    await link.look(copied())
    region.moves_on(link)

    for _ in range(2):
        await link.look(anew())

    assert region.order == [NO_TIME, {there(0): BEGIN}]
    assert world.topic[-1] == point(40, 40, 5)
    assert "The group stays at 40" in link.report.refused["g"]
