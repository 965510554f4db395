"""What a group is given on the target: exact, never backwards, and only by its one home."""

from __future__ import annotations

import pytest

from mirrorfleet.core.ids import Link, SlotNumber, SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.homes import (
    Activity,
    GroupOffset,
    GroupView,
    Home,
    checkpoints_of,
    decide,
    own_progress,
    wanted_groups,
)
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.policy.filters import NameFilter
from mirrorfleet.policy.flows import Flow, FlowRule
from mirrorfleet.policy.naming import Naming
from mirrorfleet.records.catalog import CatalogPartition, CatalogState
from mirrorfleet.records.checkpoint import Checkpoint
from tests.unit.offsets.making import run_of
from tests.unit.records.making import LINK, identity

ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
IDLE, ACTIVE = Activity.IDLE, Activity.ACTIVE


def entry(
    number: int = 0, *, topic: str = "orders", link: Link = LINK, state: CatalogState | None = None
) -> CatalogPartition:
    return CatalogPartition(
        identity=identity(number),
        link=link,
        source_topic=topic,
        target_topic=f"east.{topic}",
        slot=SlotNumber(1),
        rule="all",
        state=state or CatalogState.ACTIVE,
    )


def flow(groups: str = "g.*") -> Flow:
    rule = FlowRule("all", NameFilter((".*",)), NameFilter((groups,)), Naming.PREFIX)
    return Flow(LINK, (rule,), NameFilter(()))


def copies(*entries: CatalogPartition) -> Copies:
    index = OffsetIndex()
    index.add(identity(0), [run_of(0, 10, 0), run_of(11, 20, 11)])
    return Copies(entries or (entry(),), index)


def point(target: int = 7, source: int = 7, *written: int) -> Checkpoint:
    ours = tuple(map(TargetOffset, written))
    return Checkpoint("g1", COPY, SourceOffset(source), TargetOffset(target), "", ours)


def view(  # noqa: PLR0913 - a group has that many parts, all by name
    *,
    on_target: int | None = None,
    ours: tuple[int, ...] = (),
    target: Activity = IDLE,
    source: Activity = ACTIVE,
    idle_s: float = 0.0,
    rewrite: bool = False,
    cut: bool = False,
    late: int | None = None,
) -> GroupView:
    """`late`: where the target's log begins, if copying began behind the group, at 7."""
    return GroupView(
        source=source,
        target=target,
        checkpoints=(point(),),
        offsets={} if on_target is None else {COPY: GroupOffset(on_target)},
        written={COPY: tuple(map(TargetOffset, ours))} if ours else {},
        idle_s=idle_s,
        rewrite=frozenset({COPY} if rewrite else ()),
        cut=frozenset({COPY} if cut else ()),
        late={} if late is None else {COPY: late},
    )


@pytest.mark.parametrize(
    ("seen", "home", "commits"),
    [
        (view(), Home.SOURCE, [point(7, 7, 7)]),
        (view(on_target=5, ours=(5,)), Home.SOURCE, [point(7, 7, 7, 5)]),
        (view(on_target=3, ours=(5, 3)), Home.SOURCE, [point(7, 7, 7, 3)]),
        (view(on_target=7, ours=(7,)), Home.SOURCE, []),
        (view(on_target=7, ours=(7,), rewrite=True), Home.SOURCE, [point(7, 7, 7)]),
        (view(on_target=9, ours=(9,), rewrite=True), Home.SOURCE, []),
        (view(on_target=5, ours=(5,), target=ACTIVE), Home.TARGET, []),
        (view(on_target=6, ours=(5,)), Home.TARGET, []),
        (view(on_target=6), Home.TARGET, []),
        (view(on_target=6, ours=(5,), idle_s=300), Home.SOURCE, [point(7, 7, 7, 6)]),
        (view(on_target=6, ours=(5,), idle_s=300, source=IDLE), Home.TARGET, []),
        (view(on_target=9, ours=(5,), idle_s=300), Home.SOURCE, []),
        (view(ours=(6, 5)), Home.SOURCE, [point(7, 7, 7, 6, 5)]),
        (view(ours=(6, 5, 4, 3)), Home.SOURCE, [point(7, 7, 7, 5, 4, 3)]),
        (view(on_target=9, ours=(9,), cut=True), Home.SOURCE, [point(7, 7, 7, 9)]),
        (view(on_target=9, ours=(9,), cut=True, target=ACTIVE), Home.TARGET, []),
        (view(on_target=9, ours=(5,), cut=True), Home.TARGET, []),
        (view(on_target=9, ours=(5,), cut=True, idle_s=300), Home.SOURCE, []),
        (view(on_target=9, ours=(6, 9)), Home.SOURCE, [point(7, 7, 7, 9)]),
        (view(on_target=9, ours=(6, 9), target=ACTIVE), Home.TARGET, []),
        (view(on_target=8, ours=(6, 9)), Home.TARGET, []),
        (view(on_target=4, late=0, idle_s=300), Home.SOURCE, []),
        (view(on_target=4, late=0, ours=(4,)), Home.SOURCE, []),
        (view(on_target=4, late=0, ours=(4,), rewrite=True), Home.SOURCE, [point(4, 7, 4)]),
        (view(on_target=4, late=5, ours=(4,)), Home.SOURCE, [point(5, 7, 5, 4)]),
        (view(on_target=9, late=0, ours=(9,)), Home.SOURCE, []),
        (view(on_target=4, late=0), Home.TARGET, []),
        (view(late=0), Home.SOURCE, []),
    ],
    ids=[
        "nothing there yet",
        "ours moves on",
        "ours of before a crash",
        "in place",
        "in place, written again in time",
        "never backwards",
        "active on the target",
        "moved on the target",
        "set by others before us",
        "back after long enough",
        "not back while idle on both",
        "back, and never backwards",
        "nothing shown, and what stood there is remembered",
        "of what stood there the oldest is remembered",
        "set back where the target lost its tail",
        "not set back while active on the target",
        "own progress stays where the target lost its tail",
        "own progress stays there, back or not",
        "a set back is gone on with",
        "a set back is not gone on with while active on the target",
        "own progress ends a set back",
        "back, and copying began behind it",
        "ours, and copying began behind it",
        "copying began behind it, and where it stands is written again in time",
        "copying began behind it, and retention took where it stands",
        "copying began behind it, and it is behind that on the target",
        "moved on the target, and copying began behind it",
        "nothing there, and copying began behind it",
    ],
)
def test_a_group_has_one_home(seen: GroupView, home: Home, commits: list[Checkpoint]) -> None:
    found = decide(seen, home_again_s=300)
    assert (found.home, list(found.commits)) == (home, commits)


@pytest.mark.parametrize(
    ("seen", "remembered"),
    [
        (view(on_target=7, ours=(7, 5)), (7, 5)),
        (view(on_target=9, ours=(5,)), (5,)),
        (view(on_target=9, ours=(5,), idle_s=300), (9, 9)),
        (view(on_target=7, ours=(7, 9)), (7,)),
        (view(on_target=9, ours=(7, 9), target=ACTIVE), (9,)),
        (view(on_target=8, ours=(7, 9)), (7,)),
    ],
    ids=[
        "in place",
        "moved on the target",
        "back: where it went by itself is ours to follow from",
        "set back: more than that would be progress",
        "active while it was to be set back",
        "moved on the target while it was to be set back",
    ],
)
def test_what_is_not_set_now_is_remembered(seen: GroupView, remembered: tuple[int, ...]) -> None:
    found = decide(seen, home_again_s=300)
    assert (found.commits, [one.written for one in found.checkpoints]) == ((), [remembered])


@pytest.mark.parametrize("seen", [view(late=0), view(late=0, ours=(4,))])
def test_what_has_no_place_that_anybody_knows_is_told_and_what_was_written_of_it_stays(
    seen: GroupView,
) -> None:
    found = decide(seen, home_again_s=300)
    assert (found.unset, found.checkpoints) == ((point(),), ())


@pytest.mark.parametrize("ours", [(), (4,)])
def test_where_copying_began_behind_a_group_its_checkpoint_is_where_it_stands(
    ours: tuple[int, ...],
) -> None:
    """Also for who asks MirrorMaker 2's own tools where it goes on."""
    away = decide(view(on_target=4, late=0), home_again_s=300)
    back = decide(view(on_target=4, late=0, ours=ours, idle_s=300), home_again_s=300)

    assert (away.checkpoints, back.checkpoints) == ((point(4, 7),), (point(4, 7, 4),))


def test_a_group_that_moved_and_came_home_is_followed_also_when_it_stops() -> None:
    came = decide(view(on_target=8, ours=(7,), idle_s=300), home_again_s=300)
    (remembered,) = came.checkpoints

    stopped = decide(view(on_target=8, ours=remembered.written, source=IDLE), home_again_s=300)

    assert (came.home, stopped.home) == (Home.SOURCE, Home.SOURCE)


def test_the_reason_is_told() -> None:
    found = decide(view(on_target=6, ours=(5,)), home_again_s=300)
    assert found.why == "it went to 6 of east.orders-0 on the target by itself"


def test_a_checkpoint_has_both_offsets_and_the_metadata() -> None:
    committed = {ORDERS: GroupOffset(10, "m")}
    assert checkpoints_of("g1", committed, copies(), flow(), starts={COPY: 0}) == [
        Checkpoint("g1", COPY, SourceOffset(10), TargetOffset(11), "m")
    ]


def test_what_retention_took_on_the_target_is_skipped() -> None:
    (found,) = checkpoints_of("g1", {ORDERS: GroupOffset(3)}, copies(), flow(), starts={COPY: 8})
    assert found.target == 8


def test_topics_that_are_not_copied_or_not_of_the_rule_have_no_checkpoint() -> None:
    other = {TopicPartition("carts", 0): GroupOffset(3)}
    mine = {ORDERS: GroupOffset(3)}
    removed = copies(entry(state=CatalogState.REMOVED))
    assert checkpoints_of("g1", other, copies(), flow(), starts={COPY: 0}) == []
    assert checkpoints_of("x1", mine, copies(), flow(), starts={COPY: 0}) == []
    assert checkpoints_of("g1", mine, removed, flow(), starts={COPY: 0}) == []
    assert checkpoints_of("g1", mine, copies(), flow(), starts={}) == []


def test_a_rule_that_was_renamed_or_split_still_gives_its_groups() -> None:
    """The catalog knows of it before a fleet is started again, and after."""

    def gets(group: str, *rules: tuple[str, str, str]) -> bool:
        known = Flow(
            LINK,
            tuple(
                FlowRule(name, NameFilter((topics,)), NameFilter((groups,)), Naming.PREFIX)
                for name, topics, groups in rules
            ),
            NameFilter(()),
        )
        committed = {ORDERS: GroupOffset(3)}
        return bool(checkpoints_of(group, committed, copies(), known, starts={COPY: 0}))

    assert gets("g1", ("renamed", "orders", "g.*"))
    assert gets("g1", ("all", "carts", "x.*"), ("split off", "orders", "g.*"))
    assert not gets("g1", ("all", "carts", "g.*"), ("split off", "orders", "x.*"))
    assert not gets("g1", ("all", "carts", "g.*"))
    assert gets("g1", ("wide", ".*", "x.*"), ("all", "orders", "g.*"))


def test_groups_are_those_of_a_rule_and_never_ours() -> None:
    assert wanted_groups(flow(".*"), ["b", "mirrorfleet.x", "a"]) == ["a", "b"]
    assert wanted_groups(flow("g.*"), ["b", "g2", "g1"]) == ["g1", "g2"]


def test_what_the_other_way_wrote_is_no_progress() -> None:
    echoes = {ORDERS: (TargetOffset(5), TargetOffset(3))}
    assert own_progress({ORDERS: GroupOffset(3)}, echoes) == {}
    assert own_progress({ORDERS: GroupOffset(4)}, echoes) == {ORDERS: GroupOffset(4)}


def test_the_last_copied_record_is_an_offset_sync() -> None:
    (sync,) = copies().syncs()
    assert (sync.partition, sync.source, sync.target) == (ORDERS, 19, 19)


def test_both_directions_are_asked_by_name() -> None:
    forward = copies().to_target(ORDERS, 10)
    assert forward is not None
    assert forward.row() == {
        "link": "east->west",
        "topic": "orders",
        "partition": 0,
        "offset": 10,
        "other_topic": "east.orders",
        "other_offset": 11,
        "found": "exact",
        "copied_to": 20,
    }
    back = copies().to_source(COPY, 11)
    assert back is not None
    assert (back.other, back.offset) == (ORDERS, 11)
    assert copies().to_source(ORDERS, 11) is None
