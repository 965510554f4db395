"""`failback`: which groups are set where at home, which stay and why, and what was refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError, RefusedError
from mirrorfleet.core.ids import FleetName, TargetOffset, TopicPartition
from mirrorfleet.kafka.groups import GroupOffsets, GroupState, ListedGroup
from mirrorfleet.kafka.offsets import EARLIEST, ListedOffset, OffsetSpec
from mirrorfleet.mapping.catalog import CatalogView
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.operating import failback
from mirrorfleet.operating.failback import Return, find_returns, make_returns, return_rows
from mirrorfleet.runtime.clock import SystemClock
from tests.unit.mapping.targets import Target, deleted, hidden, source_of
from tests.unit.offsets.making import run_of
from tests.unit.offsets.test_homes import COPY, ORDERS, copies, entry, flow
from tests.unit.records.making import identity

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.kafka.metadata import Metadata

Answers = dict[str, GroupOffsets | BrokerError]
SEEN: GroupOffsets = {ORDERS: GroupOffset(7)}
READ: GroupOffsets = {COPY: GroupOffset(15, "kept")}
MAY_NOT = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "OffsetFetch")
JOINED = BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, "OffsetCommit")


@dataclass
class Side:
    """One cluster: groups with their offsets, who has members, whom it refuses, what was set."""

    name: str
    groups: Answers
    active: set[str] = field(default_factory=set)
    topics: Target = field(default_factory=Target)
    refuses: dict[str, BrokerError] = field(default_factory=dict)
    committed: dict[str, Mapping[TopicPartition, GroupOffset]] = field(default_factory=dict)
    start: int = 0
    end: int = 20
    cluster_id: str = ""
    hides: bool = False
    """It lists no group."""
    undecided: Answers = field(default_factory=dict)
    is_away: bool = False
    """It goes away while it is asked to set offsets, and sets them all the same."""

    async def metadata(self, names: Sequence[str]) -> Metadata:
        return await self.topics.metadata(names)


class Written:
    """What checkpoint wrote for g-at-home; g-followed it only found there."""

    groups = frozenset({"g-at-home", "g-followed"})

    def __init__(self, cluster: Side, topic: str) -> None:
        assert (cluster.name, topic) == ("west", "east.checkpoints.internal")

    async def refresh(self) -> None:
        pass

    def of(self, group: str) -> dict[TopicPartition, tuple[TargetOffset, ...]]:
        at = TargetOffset(15)
        return {COPY: (at, at)[group == "g-at-home" :]} if group in self.groups else {}

    def close(self) -> None:
        pass


class Region:
    """Both sides, and what is asked of them."""

    def __init__(self, home: Answers, there: Answers, topics: Target | None = None) -> None:
        self.east, self.west = Side("east", home), Side("west", there)
        self.west.topics = topics or Target()
        self.east.topics = source_of(topics)
        self._both = cast("Cluster", self.east), cast("Cluster", self.west)

    async def found(self, *only: str) -> list[Return]:
        return await find_returns(*self._both, FleetName("west"), flow(), SystemClock(), only)

    async def made(self) -> list[Return]:
        return await make_returns(*self._both, await self.found())

    async def agreed(self, found: list[Return]) -> list[Return]:
        return await make_returns(*self._both, found)


async def list_groups(side: Side, *, any_protocol: bool = False) -> dict[str, ListedGroup]:
    states = (GroupState.EMPTY, GroupState.STABLE)
    names = [] if side.hides else side.groups
    return {name: ListedGroup(name, states[name in side.active], 1) for name in names}


async def fetch_offsets(side: Side, groups: Sequence[str], *, stable: bool = False) -> Answers:
    undecided = side.undecided if stable else {}
    return {name: side.groups.get(name, {}) for name in groups} | undecided


async def commit_offsets(
    side: Side, wanted: Mapping[str, Mapping[TopicPartition, GroupOffset]], *, once: bool
) -> dict[str, BrokerError | None]:
    assert once  # whoever joins meanwhile must not be set by a second try
    side.committed |= {name: each for name, each in wanted.items() if name not in side.refuses}
    if side.is_away:
        side.groups |= {name: dict(each) for name, each in wanted.items()}
        raise DeadlineError("east does not answer")
    return {name: side.refuses.get(name) for name in wanted}


async def list_offsets(
    side: Side, wanted: Mapping[TopicPartition, OffsetSpec]
) -> dict[TopicPartition, ListedOffset]:
    assert side.name == "east" or set(wanted.values()) <= {EARLIEST}
    ends = {at: side.start if spec == EARLIEST else side.end for at, spec in wanted.items()}
    return {at: ListedOffset(offset, -1, 0) for at, offset in ends.items()}


async def read_catalog(*_: object) -> CatalogView:
    return CatalogView()


async def copies_of(*_: object) -> Copies:
    return copies()


@pytest.fixture(autouse=True)
def _clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    for made in (list_groups, fetch_offsets, commit_offsets, list_offsets, read_catalog, copies_of):
        monkeypatch.setattr(failback, made.__name__, made)
    monkeypatch.setattr(failback, "WrittenTail", Written)


async def test_groups_go_on_behind_what_they_have_read_on_the_target() -> None:
    region = Region({"g1": SEEN}, {"g1": READ, "g2": READ, "other": READ})

    done = await region.made()

    home = {ORDERS: GroupOffset(15, "kept")}
    assert (region.east.committed, region.west.committed) == ({"g1": home, "g2": home}, {})
    assert [
        (row["group"], row["outcome"], row["stood_at"], row["goes_on"])
        for row in return_rows(done, "set")
    ] == [("g1", "set", 7, 15), ("g2", "set", None, 15)]


async def test_what_checkpoint_wrote_is_no_progress() -> None:
    """Also for groups at work at home: all of them have offsets on the target."""
    region = Region({"g-at-home": SEEN}, {"g-at-home": READ})
    region.east.active.add("g-at-home")

    assert await region.made() == []
    assert await region.found("g-at-home") == []
    assert region.east.committed == {}


async def test_where_a_group_had_come_to_before_it_was_followed_from_there_is_progress() -> None:
    """At home it was started where it had stood before, and stopped for this."""
    region = Region({"g-followed": SEEN}, {"g-followed": READ})

    await region.made()

    assert region.east.committed == {"g-followed": {ORDERS: GroupOffset(15, "kept")}}


async def test_a_group_that_the_target_does_not_list_is_not_left_out_without_a_word() -> None:
    """For want of a right, or while its coordinator is away."""
    region = Region({"g-at-home": SEEN}, {"g-at-home": MAY_NOT})
    region.west.hides = True

    (left,) = await region.made()

    assert left.trouble.startswith("west: OffsetFetch: GROUP_AUTHORIZATION_FAILED")


async def test_what_checkpoint_wrote_is_all_there_is_where_home_has_forgotten_the_group() -> None:
    region = Region({"g-at-home": {}}, {"g-at-home": READ})

    (row,) = return_rows(await region.made(), "set")

    assert region.east.committed == {"g-at-home": {ORDERS: GroupOffset(15, "kept")}}
    assert (row["outcome"], row["stood_at"], row["goes_on"]) == ("set", None, 15)


async def test_a_group_goes_home_with_what_it_has_read_and_with_what_home_has_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What checkpoint wrote where it has a place at home still counts for nothing."""
    numbers = range(3)
    index = OffsetIndex()
    for number in numbers:
        index.add(identity(number), [run_of(0, 20, 0)])

    async def three(*_: object) -> Copies:
        return Copies([entry(number) for number in numbers], index)

    monkeypatch.setattr(failback, "copies_of", three)
    read, forgotten, known = (COPY._replace(partition=number) for number in numbers)
    wrote = {forgotten: (TargetOffset(9),), known: (TargetOffset(9),)}
    monkeypatch.setattr(Written, "of", lambda *_: wrote)
    there = {read: GroupOffset(15), forgotten: GroupOffset(9), known: GroupOffset(9)}
    region = Region(
        {"g1": {ORDERS: GroupOffset(7), entry(2).source: GroupOffset(4)}}, {"g1": there}
    )

    await region.made()

    home = {ORDERS: GroupOffset(15), entry(1).source: GroupOffset(9)}
    assert region.east.committed == {"g1": home}


async def test_nobody_is_kept_for_what_checkpoint_wrote_of_a_topic_that_is_gone() -> None:
    region = Region({"g-at-home": {}}, {"g-at-home": READ}, deleted())

    assert await region.made() == []


@pytest.mark.parametrize(("side", "said"), [("east", []), ("west", ["it has members on west"])])
async def test_who_is_at_work_at_home_has_not_lost_what_it_reads_no_more(
    side: str, said: list[str]
) -> None:
    region = Region({"g-at-home": {}}, {"g-at-home": READ})
    (region.east if side == "east" else region.west).active.add("g-at-home")

    left = await region.made()

    assert [one.trouble.partition(":")[0] for one in left] == said
    assert region.east.committed == {}


async def test_a_group_that_is_further_at_home_is_not_set_back() -> None:
    region = Region({"g1": {ORDERS: GroupOffset(8)}}, {"g1": {COPY: GroupOffset(9)}})
    found = await region.found()
    region.east.groups["g1"] = {ORDERS: GroupOffset(12)}

    assert await region.found() == []
    (moved,) = await region.agreed(found)
    assert moved.trouble == "it has moved meanwhile: say it again"
    assert region.east.committed == {}


async def test_nobody_is_sent_to_where_the_log_at_home_does_not_begin_any_more() -> None:
    region = Region({"g1": SEEN}, {"g1": READ})
    region.east.start = 18

    (row,) = return_rows(await region.made(), "set")

    assert region.east.committed == {"g1": {ORDERS: GroupOffset(18, "kept")}}
    assert (row["goes_on"], row["found"]) == (18, "log-start")


async def test_a_source_that_lost_what_was_copied_keeps_its_groups() -> None:
    region = Region({"g1": SEEN}, {"g1": READ})
    region.east.end = 10

    (left,) = await region.made()

    assert "orders-0 ends at 10, before 15: it lost what was copied from it" in left.trouble
    assert region.east.committed == {}


@pytest.mark.parametrize("awake", ["east", "west"])
async def test_a_group_with_members_on_either_side_stays(awake: str) -> None:
    region = Region({"g1": SEEN, "g2": SEEN}, {"g1": READ, "g2": READ})
    side = region.east if awake == "east" else region.west
    side.active.add("g1")

    first, second = await region.made()

    assert first.trouble == f"it has members on {awake}: stop them, and say it again"
    assert second.trouble == ""
    assert list(region.east.committed) == ["g2"]


async def test_a_group_that_works_on_the_target_alone_is_in_nobodys_way() -> None:
    region = Region({"g1": SEEN}, {"g1": READ, "g-own": {}})
    region.west.active.add("g-own")

    (only,) = await region.made()

    assert (only.group, only.trouble) == ("g1", "")


@pytest.mark.parametrize("side", ["east", "west"])
async def test_a_group_that_moved_while_somebody_thought_stays(side: str) -> None:
    region = Region({"g1": SEEN, "g2": SEEN}, {"g1": READ, "g2": READ})
    found = await region.found()
    if side == "east":
        region.east.groups["g1"] = {ORDERS: GroupOffset(9)}
    else:
        region.west.groups["g1"] = {COPY: GroupOffset(16)}

    first, second = await region.agreed(found)

    assert (first.trouble, second.trouble) == ("it has moved meanwhile: say it again", "")
    assert list(region.east.committed) == ["g2"]


async def test_a_group_that_joined_while_somebody_thought_stays() -> None:
    region = Region({"g1": SEEN}, {"g1": READ})
    found = await region.found()
    region.west.active.add("g1")

    (left,) = await region.agreed(found)

    assert "has members on west" in left.trouble
    assert region.east.committed == {}


@pytest.mark.parametrize(
    ("topics", "said"), [(deleted, "`exclude`"), (hidden, "did not say whether it still has")]
)
async def test_a_group_stays_where_the_map_may_be_of_another_topic(
    topics: Callable[[], Target], said: str
) -> None:
    region = Region({"g1": SEEN}, {"g1": READ}, topics())

    (left,) = await region.made()

    assert said in left.trouble
    assert region.east.committed == {}


async def test_who_is_refused_is_told_with_what_was_set_and_the_others_are_set() -> None:
    region = Region({"g1": SEEN, "g2": SEEN}, {"g1": READ, "g2": READ})
    region.east.refuses["g1"] = JOINED

    first, second = await region.made()

    assert first.trouble.endswith("UNKNOWN_MEMBER_ID (25); 0 of its 1 offsets are set")
    assert (second.trouble, list(region.east.committed)) == ("", ["g2"])
    assert [row["outcome"] for row in return_rows([first, second], "set")] == ["NOT SET", "set"]


async def test_what_was_set_by_a_cluster_that_went_away_is_told() -> None:
    region = Region({"g1": SEEN}, {"g1": READ})
    region.east.is_away = True

    (done,) = await region.made()

    assert done.trouble == "east does not answer; 1 of its 1 offsets are set"
    assert [row["outcome"] for row in return_rows([done], "set")] == ["set"]


@pytest.mark.parametrize("side", ["east", "west"])
async def test_a_group_whose_offsets_a_cluster_does_not_tell_stays_and_has_a_row(side: str) -> None:
    home: Answers = {"g1": MAY_NOT if side == "east" else SEEN}
    there: Answers = {"g1": MAY_NOT if side == "west" else READ}

    (left,) = await Region(home, there).made()

    assert left.trouble.startswith(f"{side}: OffsetFetch: GROUP_AUTHORIZATION_FAILED")
    (row,) = return_rows([left], "set")
    assert (row["group"], row["outcome"], row["trouble"]) == ("g1", "NOT SET", left.trouble)


async def test_only_groups_that_are_there_are_set_by_name() -> None:
    region = Region({}, {"g1": READ, "g2": READ, "g3": {}})

    assert [each.group for each in await region.found("g2")] == ["g2"]
    assert await region.found("g3") == []
    with pytest.raises(RefusedError, match="'nobody' is no group of west that a rule takes"):
        await region.found("nobody", "g1")


async def test_nobody_passes_over_what_the_target_had_lost_before_the_group_came_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Written, "groups", frozenset({"g1"}))
    monkeypatch.setattr(Written, "of", lambda *_: {COPY: (TargetOffset(12),)})
    region = Region({"g1": SEEN}, {"g1": READ})
    region.west.start = 12

    (one,) = await region.made()

    assert one.trouble == (
        f"{ORDERS}: it stood at 7, and on the target it began behind that, at 12: what lies between"
        " it has read on neither side"
    )
    assert region.east.committed == {}
    region.west.start = 11  # it has what lies between: the group was set back at home, or the like
    assert [each.trouble for each in await region.found()] == [""]
    region.west.start = 12
    for before in ((TargetOffset(7),), ()):  # nothing: it was left alone from the first look on
        monkeypatch.setattr(Written, "of", lambda *_, wrote=before: {COPY: wrote})
        assert [each.trouble for each in await region.found()] == [""]
