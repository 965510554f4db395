"""`failover`: who can start over there, who not yet, and who as far as the target alone knows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError, MirrorfleetError, RefusedError
from mirrorfleet.core.ids import FleetName, TopicPartition
from mirrorfleet.kafka.offsets import LATEST, ListedOffset, OffsetSpec
from mirrorfleet.mapping.catalog import CatalogView
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.floors import Seen, Sides
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.operating import failover
from mirrorfleet.operating.failover import (
    Asked,
    Outcome,
    Takeover,
    as_last_seen,
    find_takeovers,
    wait_for,
)
from mirrorfleet.operating.options import Drain
from mirrorfleet.records.catalog import CatalogLink
from mirrorfleet.records.progress import BEFORE_THE_FIRST, Progress
from mirrorfleet.views.groups import GroupFacts
from mirrorfleet.wire.k01_fetch import Isolation
from tests.fakes.clock import HandClock
from tests.unit.offsets.making import run_of
from tests.unit.offsets.test_homes import flow
from tests.unit.records.making import CLUSTER, LINK
from tests.unit.views.making import entry, report, snapshot

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster

COPIED = entry()
ORDERS, COPY = COPIED.source, COPIED.target
AWAY = DeadlineError("east does not answer.")
READY = Takeover(Outcome.READY, "g1", 1, 0, ("east.orders",), "it can go on")
WAITS = replace(READY, outcome=Outcome.WAITS, words="it is further back")
LAST = {
    "group": "g1",
    "topic": "orders",
    "partition": 0,
    "target_topic": "east.orders",
    "translated": 15,
    "target_offset": 15,
    "target_state": "Empty",
    "refused": None,
    "unchecked": "as of noon",
}


@dataclass
class Estate:
    """A link that has copied 0..20, and g1 at 15 on both sides; which reads came in which order."""

    here: int = 15
    there: int | None = 15
    states: tuple[str, str] = ("Empty", "Empty")
    end: int = 100
    copied: int = 100
    start: int = 0
    fault: str = ""
    source: MirrorfleetError | None = None
    later: MirrorfleetError | None = None
    order: list[str] = field(default_factory=list)

    async def found(self, *only: str, drain: Drain = Drain.READ) -> list[Takeover]:
        @asynccontextmanager
        async def open_source() -> AsyncIterator[Cluster]:
            if self.source is not None:
                raise self.source
            yield cast("Cluster", self)

        asked = Asked(FleetName("west"), flow(), only, drain)
        return await find_takeovers(open_source, cast("Cluster", self), asked, HandClock())

    cluster_id = CLUSTER
    name = "east"

    async def read_catalog(self, *_: object) -> CatalogView:
        view = CatalogView()
        view.links[LINK.source] = CatalogLink(
            link=LINK, source_cluster=CLUSTER, target_cluster=CLUSTER, slots=(COPIED.slot,)
        )
        view.partitions[COPIED.identity] = COPIED
        return view

    async def list_offsets(
        self, _: object, wanted: dict[TopicPartition, OffsetSpec], *, isolation: Isolation
    ) -> dict[TopicPartition, ListedOffset]:
        self.order.append("ends")
        assert (wanted, isolation) == ({ORDERS: LATEST}, Isolation.READ_UNCOMMITTED)
        return {ORDERS: ListedOffset(self.end, -1, 0)}

    async def newest_progress(self, *_: object) -> list[Progress]:
        self.order.append("progress")
        old = snapshot(report(COPIED, next_source=0), time_ms=1)
        now = report(COPIED, next_source=self.copied, last_stable=110, fault=self.fault)
        return [snapshot(now), old]

    async def copies_of(self, *_: object) -> Copies:
        self.order.append("map")
        if self.later is not None:
            raise self.later
        index = OffsetIndex()
        index.add(COPIED.identity, [run_of(0, 20, 0)])
        return Copies([COPIED], index)

    async def ask_target(
        self, *_: object, why: str, only: Sequence[str]
    ) -> list[dict[str, object]]:
        return [LAST | {"group": name, "unchecked": why} for name in set(only) or {"g1"}]

    def asker(self, *_: object) -> Estate:
        return self

    async def page(
        self, choose: Callable[[dict[str, str]], Sequence[str]], _: object
    ) -> GroupFacts:
        self.order.append("groups")
        states = {"g1": self.states[0], "g-else": "Empty", "mine": "Empty"}
        assert set(choose(states)) <= {"g1", "g-else"}
        there = {} if self.there is None else {COPY: GroupOffset(self.there)}
        return GroupFacts(
            source_states=states,
            target_states={"g1": self.states[1]},
            source_offsets={"g1": {ORDERS: GroupOffset(self.here)}},
            target_offsets={"g1": there},
            target_starts={COPY: self.start},
            sides={COPIED.identity: Sides(Seen.THERE, Seen.THERE)},
        )


@pytest.fixture
def estate(monkeypatch: pytest.MonkeyPatch) -> Estate:
    made = Estate()
    for name in (
        "read_catalog",
        "list_offsets",
        "newest_progress",
        "copies_of",
        "ask_target",
    ):
        monkeypatch.setattr(failover, name, getattr(made, name))
    monkeypatch.setattr(failover, "GroupAsker", made.asker)
    monkeypatch.setattr(failover, "_AGAIN_S", 0.0)
    return made


async def test_a_group_in_its_place_is_ready_and_what_is_copied_is_asked_before_the_map(
    estate: Estate,
) -> None:
    (found,) = await estate.found()

    assert found == Takeover(
        Outcome.READY, "g1", 1, 0, ("east.orders",), "it can go on over there where it stands here"
    )
    assert estate.order == ["ends", "progress", "map", "groups"]
    assert found.row()["topics"] == ["east.orders"]


@pytest.mark.parametrize(
    ("changed", "outcome", "words"),
    [
        ({"states": ("Stable", "Empty")}, Outcome.AT_WORK, "it has members at home"),
        ({"states": ("Stable", "Stable")}, Outcome.AT_WORK, "it has members at home"),
        ({"states": ("Empty", "Stable")}, Outcome.OVER, "it has members there"),
        ({"there": 14}, Outcome.WAITS, "further back on the target"),
        ({"there": None}, Outcome.WAITS, "no offset of it is set"),
        ({"there": 16}, Outcome.WAITS, "further on the target"),
        ({"there": 17, "start": 17}, Outcome.READY, "it can go on"),
        ({"here": 99, "there": 20}, Outcome.READY, "it can go on"),
        ({"here": 99, "there": 20, "copied": 98}, Outcome.WAITS, "not all copied yet"),
    ],
)
async def test_what_keeps_a_group(
    estate: Estate, changed: dict[str, object], outcome: Outcome, words: str
) -> None:
    for name, value in changed.items():
        setattr(estate, name, value)

    (found,) = await estate.found()

    assert (found.outcome, found.outcome.is_ready) == (
        outcome,
        outcome in {Outcome.READY, Outcome.OVER},
    )
    assert words in found.words


async def test_who_wants_all_of_a_topic_waits_until_nothing_is_left_to_copy(
    estate: Estate,
) -> None:
    estate.end = 103

    (ready,), (waits,) = await estate.found(), await estate.found(drain=Drain.ALL)

    assert (ready.outcome, ready.not_copied) == (Outcome.READY, 3)
    assert waits.outcome is Outcome.WAITS
    assert waits.words == "3 offsets of its topics are not copied yet"
    estate.end = 100
    assert (await estate.found(drain=Drain.ALL))[0].outcome is Outcome.READY


async def test_where_nobody_knows_what_is_copied_a_topic_is_not_all_copied(estate: Estate) -> None:
    estate.fault = f"source-denied {BEFORE_THE_FIRST}: no right"

    (found,) = await estate.found(drain=Drain.ALL)

    assert (found.outcome, found.not_copied) == (Outcome.WAITS, None)
    assert found.words == "some offsets of its topics are not copied yet"


async def test_a_group_that_is_named_is_told_of_though_it_has_read_nothing(estate: Estate) -> None:
    (found,) = await estate.found("g-else")

    assert (found.group, found.outcome, found.partitions) == ("g-else", Outcome.WAITS, 0)
    with pytest.raises(RefusedError, match="'mine' is no group of east that a rule takes"):
        await estate.found("mine")


@pytest.mark.parametrize("when", ["source", "later"])
async def test_without_its_source_a_group_is_where_it_was_last_seen(
    estate: Estate, when: str
) -> None:
    setattr(estate, when, AWAY)

    found = await estate.found()

    assert [(one.outcome, one.group, one.not_copied) for one in found] == [
        (Outcome.AS_LAST_SEEN, "g1", 10)
    ]
    assert found[0].words == "east was not asked: east does not answer"
    assert [one.group for one in await estate.found("g9", "g1", "g9")] == ["g1", "g9"]


async def test_a_source_that_refuses_is_not_one_that_is_away(estate: Estate) -> None:
    estate.later = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "OffsetFetch")

    with pytest.raises(BrokerError):
        await estate.found()


@pytest.mark.parametrize(
    ("changed", "outcome", "words"),
    [
        ({}, Outcome.AS_LAST_SEEN, "as of noon"),
        (
            {"target_offset": 17},
            Outcome.AS_LAST_SEEN,
            "as of noon; 1 partition not where that says",
        ),
        ({"target_offset": None}, Outcome.WAITS, "no offset of it is set in 1 partition"),
        ({"target_state": "Stable"}, Outcome.OVER, "it has members there"),
        ({"refused": "west: NOT_COORDINATOR"}, Outcome.WAITS, "west: NOT_COORDINATOR"),
    ],
)
def test_what_the_target_alone_knows(
    changed: dict[str, object], outcome: Outcome, words: str
) -> None:
    found = as_last_seen("g1", [LAST, LAST | changed], 3)

    assert found == Takeover(outcome, "g1", 2, 3, ("east.orders",), words)


class Looks:
    """Answers one after the other, a second each, and what was noted meanwhile."""

    def __init__(self, *answers: list[Takeover] | MirrorfleetError) -> None:
        self.answers = list(answers)
        self.clock = HandClock()
        self.notes: list[str] = []

    async def look(self) -> list[Takeover]:
        self.clock.seconds += 1
        answer = self.answers.pop(0)
        if isinstance(answer, MirrorfleetError):
            raise answer
        return answer

    async def waited(self, within_s: float) -> list[Takeover]:
        return await wait_for(self.look, self.clock, within_s, self.notes.append)


@pytest.mark.usefixtures("estate")
async def test_it_waits_until_all_are_ready_and_says_once_for_what() -> None:
    looks = Looks([WAITS, READY], [WAITS, READY], AWAY, [WAITS, WAITS], [READY, READY], [WAITS])

    assert await looks.waited(60) == [READY, READY]
    assert len(looks.answers) == 1
    assert looks.notes == [
        "waiting: g1: it is further back",
        "waiting: east does not answer.",
        "waiting: g1: it is further back, and 1 more",
    ]


@pytest.mark.usefixtures("estate")
async def test_at_the_end_it_says_what_it_has_seen() -> None:
    assert await Looks([WAITS], [WAITS], [WAITS], [READY]).waited(1.5) == [WAITS]
    once = Looks([WAITS], [READY])
    assert (await once.waited(0), once.notes) == ([WAITS], [])
    with pytest.raises(DeadlineError):
        await Looks(AWAY, AWAY).waited(0.5)


@pytest.mark.usefixtures("estate")
async def test_it_does_not_wait_where_there_is_no_hope() -> None:
    with pytest.raises(RefusedError):
        await Looks(RefusedError("no such group."), [READY]).waited(60)
