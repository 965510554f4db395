"""While the source is away, offsets of ours are set again before the target forgets them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.kafka.groups import ListedGroup
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.policy.filters import NameFilter
from mirrorfleet.policy.flows import FlowRule
from mirrorfleet.policy.naming import Naming
from mirrorfleet.records.checkpoint import Checkpoint
from services.checkpoint import link as link_module
from tests.unit.copying.making import entry, identity
from tests.unit.offsets.making import run_of
from tests.unit.services.checkpoint.test_coming_home import WORKING
from tests.unit.services.checkpoint.test_link import (
    ANOTHER_TOPIC,
    DAY_S,
    EMPTY,
    MAY_NOT,
    Answers,
    World,
    copied,
    installed,
    places,
    there,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mirrorfleet.kafka.cluster import Cluster
    from services.checkpoint.link import LinkGroups

PLACES = {there(0): GroupOffset(5), there(1): GroupOffset(5)}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return installed(monkeypatch)


def lose_the_source(
    world: World, monkeypatch: pytest.MonkeyPatch, groups: dict[str, ListedGroup] = EMPTY
) -> None:
    """`groups` are those of the target."""

    async def list_groups(
        cluster: Cluster, *, any_protocol: bool = False, deadline_s: float
    ) -> dict[str, ListedGroup]:
        if cluster.name == "east":
            raise DeadlineError("east: ListGroups: gave up")
        assert any_protocol
        world.asked = 0
        return groups

    monkeypatch.setattr(link_module, "list_groups", list_groups)
    world.commits.clear()


async def looked_once(
    world: World, monkeypatch: pytest.MonkeyPatch, groups: dict[str, ListedGroup] = EMPTY
) -> LinkGroups:
    """A link whose source was lost after one good look."""
    link = world.link()
    await link.look(copied())
    lose_the_source(world, monkeypatch, groups)
    return link


async def turn(link: LinkGroups) -> None:
    """As the service does it."""
    with pytest.raises(DeadlineError):
        await link.look(copied())
    await link.keep(copied())


async def test_what_is_ours_is_set_again_in_time_while_the_source_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await looked_once(world, monkeypatch)
    told = list(world.topic)

    for days, commits in ((0.0, 0), (0.5, 0), (0.5, 1), (0.0, 1), (0.5, 1), (0.5, 2)):
        world.now += days * DAY_S
        await turn(link)
        assert world.commits == [PLACES] * commits

    assert (world.topic, link.report.refused) == (told, {})


async def test_a_process_that_knows_of_no_look_sets_what_is_ours_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can tell how old it is."""
    await world.link().look(copied())
    lose_the_source(world, monkeypatch)
    link = world.link()

    for _ in range(2):
        await link.keep(copied())

    assert world.commits == [PLACES]


async def test_what_the_target_has_forgotten_is_set_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a group that once worked there, all at once, whenever they were written."""
    link = await looked_once(world, monkeypatch)
    world.target.clear()
    world.now += DAY_S

    await turn(link)

    assert world.commits == [PLACES]


async def test_what_was_written_for_a_copy_that_began_anew_since_is_not(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its topic its offsets are gone, and what comes there is other records."""
    before = (TargetOffset(90),)
    world.topic = [Checkpoint("g", there(0), SourceOffset(5), TargetOffset(90), "", before)]
    lose_the_source(world, monkeypatch)

    await world.link().keep(copied())

    assert world.commits == []


async def test_where_another_process_is_active_nothing_is_set(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def another_has_it() -> bool:
        return False

    await world.link().look(copied())
    lose_the_source(world, monkeypatch)
    link = world.link()
    link.is_ours = another_has_it

    await link.keep(copied())

    assert world.commits == []


async def test_a_group_that_went_anywhere_by_itself_is_left_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await looked_once(world, monkeypatch)
    world.target[there(1)] = GroupOffset(9)
    world.now += DAY_S

    await turn(link)

    assert world.commits == []


async def test_a_group_that_moves_while_we_ask_is_left_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await looked_once(world, monkeypatch)
    world.meanwhile = {there(1): GroupOffset(9)}
    world.now += DAY_S

    await turn(link)

    assert (world.commits, link.commits["raced"]) == ([], 1)


async def test_a_group_that_is_at_work_on_the_target_is_left_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await looked_once(world, monkeypatch, WORKING)
    world.now += DAY_S

    await turn(link)

    assert world.commits == []


async def test_a_place_that_we_only_followed_from_is_left_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last checkpoint leads elsewhere: the group had read more on the target."""
    followed = (TargetOffset(9), TargetOffset(9))
    world.topic = [Checkpoint("g", there(0), SourceOffset(5), TargetOffset(5), "", followed)]
    world.source, world.target = places(5), {there(0): GroupOffset(9)}
    link = await looked_once(world, monkeypatch)
    world.now += DAY_S

    await turn(link)

    assert world.commits == []


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "made again"])
async def test_no_offset_is_set_on_a_topic_that_is_not_the_one_of_the_map(
    world: World, monkeypatch: pytest.MonkeyPatch, *, is_deleted: bool
) -> None:
    link = await looked_once(world, monkeypatch)
    world.is_deleted, world.topic_id = is_deleted, ANOTHER_TOPIC
    world.now += DAY_S

    await turn(link)

    assert world.commits == []


async def test_a_group_that_the_target_hides_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await looked_once(world, monkeypatch)
    world.is_hidden = True
    world.now += DAY_S

    await turn(link)

    assert world.commits == []
    assert "GROUP_AUTHORIZATION_FAILED" in link.report.refused["g"]


async def test_what_the_target_forgets_soon_after_it_was_set_is_set_again_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts is when the last member left, not when the offset was written."""
    link = await looked_once(world, monkeypatch)
    await link.keep(copied())
    assert world.commits == []
    del world.target[there(1)]

    await link.keep(copied())

    assert world.commits == [{there(1): PLACES[there(1)]}]


async def test_an_offset_in_a_copy_that_no_rule_gives_the_group_is_no_move(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has read it once under that name."""
    link = await looked_once(world, monkeypatch)
    everybody, nobody = NameFilter((".*",)), NameFilter(())
    rules = (
        FlowRule("orders", NameFilter(("orders",)), everybody, Naming.PREFIX),
        FlowRule("audit", NameFilter(("audit",)), nobody, Naming.PREFIX),
    )
    link.flow = replace(link.flow, rules=rules)
    other = replace(entry(0), identity=identity(7), source_topic="audit", target_topic="audit.copy")
    index = OffsetIndex()
    for number in range(2):
        index.add(identity(number), [run_of(0, 50, 0)])
    world.target[other.target] = GroupOffset(3)
    world.now += DAY_S

    await link.keep(Copies([entry(0), entry(1), other], index))

    assert world.commits == [PLACES]


def home_refuses(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source answers for no group any more."""
    fetch = world.fetch_offsets

    async def refused_at_home(
        cluster: Cluster, groups: Iterable[str], *, deadline_s: float, **_: object
    ) -> Answers:
        answers = await fetch(cluster, groups, deadline_s=deadline_s)
        return dict.fromkeys(groups, MAY_NOT) if cluster.name == "east" else answers

    monkeypatch.setattr(link_module, "fetch_offsets", refused_at_home)


@pytest.mark.parametrize("is_gone", [True, False])
async def test_a_group_that_the_source_does_not_answer_for_is_kept_as_where_the_source_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch, *, is_gone: bool
) -> None:
    """Its coordinator at the source has no leader, or we may not ask about it any more."""
    link = world.link()
    await link.look(copied())
    world.commits.clear()
    home_refuses(world, monkeypatch)
    await link.look(copied())
    assert world.commits == []
    if is_gone:
        world.target.clear()
    else:
        world.now += DAY_S

    await link.look(copied())

    assert world.commits == [PLACES]
    assert "GROUP_AUTHORIZATION_FAILED" in link.report.refused["g"]


async def test_a_group_that_no_rule_takes_any_more_is_asked_about_by_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its coordinator may be away: each look would wait for that."""
    link, fetch = world.link(), world.fetch_offsets
    await link.look(copied())
    asked: set[str] = set()

    async def noted(
        cluster: Cluster, groups: Iterable[str], *, once: bool = False, deadline_s: float
    ) -> Answers:
        asked.update(groups)
        return await fetch(cluster, groups, once=once, deadline_s=deadline_s)

    monkeypatch.setattr(link_module, "fetch_offsets", noted)
    nobody = FlowRule("", NameFilter((".*",)), NameFilter(()), Naming.PREFIX)
    link.flow = replace(link.flow, rules=(nobody,))
    world.now += DAY_S

    await link.look(copied())
    await link.keep(copied())

    assert asked == set()


async def test_who_was_away_is_asked_apart_though_others_were_asked_about_since(
    world: World,
) -> None:
    link, cluster = world.link(), cast("Cluster", SimpleNamespace(name="west"))
    link._away["west"] = {"b"}

    await link._places(cluster, {"a"})

    assert link._away["west"] == {"b"}
