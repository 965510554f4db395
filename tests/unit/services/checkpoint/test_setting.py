"""Many groups are set a part after the other, and nobody waits for a coordinator that is away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, NotOursError
from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.kafka.groups import GroupOffsets, GroupState, ListedGroup
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.records import offset_sync
from mirrorfleet.records.offset_sync import OffsetSync
from services.checkpoint import link as link_module
from tests.unit.services.checkpoint.test_link import (
    Answers,
    World,
    copied,
    here,
    installed,
    places,
    there,
)

if TYPE_CHECKING:
    from mirrorfleet.core.ids import TopicPartition
    from mirrorfleet.kafka.cluster import Cluster

AWAY = BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "west: coordinator")
SILENT = BrokerError(ErrorCode.NETWORK_EXCEPTION, "OffsetCommit")
UNDECIDED = BrokerError(ErrorCode.UNSTABLE_OFFSET_COMMIT, "OffsetFetch")
GROUPS = [f"g{number:03}" for number in range(250)]
FAR = {there(0): GroupOffset(30)}


class Many:
    """Groups of both clusters; `moves` goes by itself once the first part was set."""

    def __init__(self, moves: str = "") -> None:
        self.moves = moves
        self.target: dict[str, GroupOffsets] = {}
        self.away: set[str] = set()
        self.silent: set[str] = set()
        self.undecided: set[str] = set()
        """Of a transaction whose marker is not there yet."""
        self.asked: list[tuple[str, int, bool]] = []
        self.set: list[list[str]] = []

    async def list_groups(
        self, cluster: Cluster, *, any_protocol: bool = False, deadline_s: float
    ) -> dict[str, ListedGroup]:
        self.asked.clear()
        return {name: ListedGroup(name, GroupState.EMPTY, 1) for name in GROUPS}

    async def fetch_offsets(
        self,
        cluster: Cluster,
        groups: Iterable[str],
        *,
        once: bool = False,
        stable: bool = False,
        deadline_s: float,
    ) -> Answers:
        wanted = list(groups)
        self.asked.append((cluster.name, len(wanted), once))
        if cluster.name == "east":
            return {name: places(20) for name in wanted}
        answers: Answers = {name: dict(self.target.get(name, {})) for name in wanted}
        undecided = self.undecided if stable else set()
        return answers | dict.fromkeys(self.away, AWAY) | dict.fromkeys(undecided, UNDECIDED)

    async def commit_offsets(
        self, _: Cluster, wanted: Mapping[str, GroupOffsets], *, once: bool, deadline_s: float
    ) -> dict[str, BrokerError | None]:
        assert once  # nothing is set again without another look
        self.set.append(sorted(wanted))
        answers = {name: SILENT if name in self.silent else None for name in wanted}
        self.target |= {name: dict(wanted[name]) for name in wanted if answers[name] is None}
        if self.moves:
            self.target[self.moves] = dict(FAR)
        return answers


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return installed(monkeypatch)


@pytest.fixture
def many(world: World, monkeypatch: pytest.MonkeyPatch) -> Many:
    made = Many()
    for name in ("list_groups", "fetch_offsets", "commit_offsets"):
        monkeypatch.setattr(link_module, name, getattr(made, name))
    return made


async def test_a_group_that_moves_while_others_are_set_is_not_set(world: World, many: Many) -> None:
    many.moves = GROUPS[240]
    link = world.link()

    await link.look(copied())

    assert [len(part) for part in many.set] == [100, 100, 49]
    assert (link.commits["set"], link.commits["raced"]) == (249, 1)
    assert many.target[GROUPS[240]] == FAR


async def test_a_group_whose_own_commit_is_not_decided_yet_is_not_set(
    world: World, many: Many
) -> None:
    """Its coordinator would drop what was committed before: it takes ours for the newer one."""
    many.undecided = {GROUPS[3]}
    link = world.link()

    await link.look(copied())

    assert sum(map(len, many.set)) == len(GROUPS) - 1
    assert GROUPS[3] not in many.target
    assert "UNSTABLE_OFFSET_COMMIT" in link.report.refused[GROUPS[3]]

    many.undecided.clear()
    await link.look(copied())
    assert GROUPS[3] in many.target


async def test_what_was_set_counts_when_a_broker_falls_silent_and_the_rest_waits_for_the_next_look(
    world: World, many: Many
) -> None:
    many.silent = {GROUPS[150]}
    link = world.link()

    await link.look(copied())
    first = [len(part) for part in many.set]
    many.silent.clear()
    await link.look(copied())

    assert first == [100, 100]
    assert [len(part) for part in many.set[2:]] == [51]
    assert (link.commits["set"], link.commits["refused"]) == (250, 1)


async def test_groups_whose_coordinator_is_away_are_asked_apart_until_it_is_there(
    world: World, many: Many
) -> None:
    many.away = set(GROUPS[:5])
    link = world.link()

    looks: list[list[tuple[str, int, bool]]] = []
    for _ in range(4):
        if len(looks) == 2:
            many.away.clear()
        await link.look(copied())
        looks.append([one for one in many.asked if one[0] == "west"])

    before, late, after = ("west", 250, False), ("west", 5, True), ("west", 245, False)
    assert looks[0][0] == before
    assert (looks[1], looks[2][:2], looks[3]) == ([after, late], [after, late], [before])
    assert many.target.keys() == set(GROUPS)


async def test_a_copy_that_was_made_again_at_other_offsets_has_a_new_offset_sync(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when its last record is the same one of the source."""
    first, again = (
        OffsetSync(here(0), SourceOffset(99), TargetOffset(target)) for target in (99, 349)
    )
    shown = iter([first, again, again])
    written: list[object] = []

    async def write(_: TopicPartition, entries: Iterable[tuple[bytes, bytes]], now_ms: int) -> None:
        written.extend(offset_sync.decode(*one) for one in entries)

    monkeypatch.setattr(Copies, "syncs", lambda _: iter([next(shown)]))
    monkeypatch.setattr(world, "write", write)
    world.source = {}
    link = world.link()

    for _ in range(3):
        await link.look(copied())

    assert written == [first, again]


async def test_who_has_lost_its_place_while_it_looked_writes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next one would take its checkpoint for what it wrote last, and its own for a move."""
    world = installed(monkeypatch)

    async def another_has_it() -> bool:
        assert world.asked  # it has looked by then
        return False

    link = world.link()
    link.is_ours = another_has_it

    with pytest.raises(NotOursError, match="another process is active"):
        await link.look(copied())
    assert (world.topic, world.commits) == ([], [])
