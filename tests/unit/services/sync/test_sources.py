"""One of several sources that is not what it was holds up its own link."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import (
    BrokerError,
    ConnectionLostError,
    DeadlineError,
    MirrorfleetError,
    NotOursError,
    RefusedError,
)
from mirrorfleet.core.ids import ClusterAlias, ClusterId, Link, SlotNumber
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.planning.observed import SourceView
from mirrorfleet.records.catalog import CatalogLink, CatalogPartition, CatalogState
from mirrorfleet.records.events import Event, EventKind
from mirrorfleet.runtime.lifecycle import Stop
from mirrorfleet.syncing.fleet import FleetSync
from mirrorfleet.syncing.store import Store
from mirrorfleet.watching.source import SourceWatch
from services.sync.service import SyncService
from tests.faultkit.waiting import until
from tests.unit.config.making import parse
from tests.unit.copying.making import entry
from tests.unit.services.mirror.test_sources import EAST, SOUTH, TWO, WEST
from tests.unit.standby.test_demotion import Fleet, for_ever, nothing

if TYPE_CHECKING:
    from mirrorfleet.kafka.control_writer import ControlWriter
    from mirrorfleet.syncing.side import Side

VIEW = SourceView(cluster=ClusterId("east"), topics={})
OLD = Link(ClusterAlias("old"), WEST)
"""Copied once, and no longer in the estate."""
EVENT = Event(kind=EventKind.LINK_REFUSED, time_ms=1, writer="sync", detail="another cluster.")


async def a_view(_: SourceWatch) -> SourceView:
    return VIEW


class Meeting:
    """A sync of two links between clusters that answer with an id and no more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, estate: str = TWO) -> None:
        self.answering = {EAST: "east", SOUTH: "south", WEST: "west"}
        self.away: set[ClusterAlias] = set()
        self.not_retired: list[MirrorfleetError] = []
        """Each fails a write of what links copied."""

        async def meet(cluster: Cluster) -> None:
            if cluster.settings.alias in self.away:
                raise ConnectionLostError("no answer.")
            # as the first answer does: what was opened once is that cluster until it is forgotten
            answering = ClusterId(self.answering[cluster.settings.alias])
            if cluster.cluster_id not in ("", answering):
                raise RefusedError(f"{cluster.name} is now {answering}.")
            cluster._cluster_id = answering

        async def publish(
            store: Store, entries: list[CatalogLink | CatalogPartition], _: object = ()
        ) -> None:
            for each in entries:
                if self.not_retired and isinstance(each, CatalogPartition):
                    raise self.not_retired.pop()
                store.book.learn(each)

        monkeypatch.setattr(Cluster, "open", meet)
        monkeypatch.setattr(FleetSync, "learn_defaults", nothing)
        for name in ("take", "refresh", "ensure_topics", "check_made"):
            monkeypatch.setattr(Store, name, nothing)
        monkeypatch.setattr(Store, "publish", publish)
        context = replace(Fleet().context, estate=parse(estate, env={"WEST_PASSWORD": "x"}))
        self.service = SyncService(context)
        self.book = self.service._store.book
        self.reasons = context.health.reasons

    def known_as(self, source: ClusterAlias, cluster: str, slot: int) -> None:
        """The catalog has a link from before."""
        ids = ClusterId(cluster), ClusterId(self.answering[WEST])
        link, slots = Link(source, WEST), (SlotNumber(slot),)
        self.book.learn(
            CatalogLink(link=link, source_cluster=ids[0], target_cluster=ids[1], slots=slots)
        )

    async def begin(self) -> None:
        await self.service._fleet.target.open()
        await self.service._begin()

    async def meet(self, source: ClusterAlias) -> None:
        await self.service._meet(self.side(source))

    def side(self, source: ClusterAlias) -> Side:
        return next(side for side in self.service._sides if side.link.source == source)

    @property
    def known(self) -> list[ClusterAlias]:
        return [side.link.source for side in self.service._sides if side.known]


async def test_a_source_that_became_another_cluster_leaves_the_other_links_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = Meeting(monkeypatch)
    sync.known_as(SOUTH, "south", 1)
    sync.answering[SOUTH] = "rebuilt"

    await sync.begin()
    assert sync.known == [EAST]
    assert "was cluster.id south and is now rebuilt" in sync.reasons()["link south->west"]
    with pytest.raises(RefusedError, match="is now rebuilt"):
        await sync.meet(SOUTH)

    sync.answering[SOUTH] = "south"
    await sync.meet(SOUTH)
    assert sync.known == [EAST, SOUTH]


def renamed(monkeypatch: pytest.MonkeyPatch) -> tuple[Meeting, CatalogPartition]:
    """South is in the catalog under the alias that it had, with a partition that is copied."""
    sync, copy = Meeting(monkeypatch), entry(link=OLD)
    sync.known_as(OLD.source, "south", 1)
    sync.book.learn(copy)
    return sync, copy


async def test_no_link_is_retired_while_one_is_refused_which_may_be_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync, copy = renamed(monkeypatch)

    await sync.begin()
    assert "cluster.id south is in the catalog as 'old'" in sync.reasons()["link south->west"]
    assert sync.book.partitions[copy.identity].state is CatalogState.ACTIVE

    sync.answering[SOUTH] = "another"
    await sync.meet(SOUTH)
    assert sync.book.partitions[copy.identity].state is CatalogState.REMOVED


async def test_no_link_is_retired_while_a_source_is_away_which_may_be_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync, copy = renamed(monkeypatch)
    sync.away.add(SOUTH)

    await sync.begin()
    assert sync.known == [EAST]
    assert sync.book.partitions[copy.identity].state is CatalogState.ACTIVE

    sync.away.clear()
    sync.answering[SOUTH] = "another"
    await sync.meet(SOUTH)
    assert sync.book.partitions[copy.identity].state is CatalogState.REMOVED


async def test_a_link_that_could_not_be_retired_is_retired_by_a_later_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def silent(*_: object) -> None:
        raise DeadlineError("west does not answer.")

    sync = Meeting(monkeypatch)
    copy = entry(link=OLD)
    sync.book.learn(copy)
    sync.away.add(SOUTH)
    await sync.begin()
    sync.away.clear()
    sync.not_retired.append(DeadlineError("not in time."))
    with pytest.raises(DeadlineError, match="not in time"):
        await sync.meet(SOUTH)
    assert sync.known == [EAST, SOUTH]
    assert sync.book.partitions[copy.identity].state is CatalogState.ACTIVE

    monkeypatch.setattr(SourceWatch, "look", a_view)
    monkeypatch.setattr(SyncService, "_mend_topics", nothing)
    monkeypatch.setattr(FleetSync, "plan", silent)  # what else a look does is not the matter here
    with pytest.raises(DeadlineError, match="west does not answer"):
        await sync.service._look(sync.side(EAST))

    assert sync.book.partitions[copy.identity].state is CatalogState.REMOVED


async def test_of_two_sources_that_are_one_cluster_neither_is_taken_first_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = Meeting(monkeypatch)
    sync.answering[SOUTH] = "east"

    with pytest.raises(RefusedError, match="are the same cluster"):
        await sync.begin()
    for source in (EAST, SOUTH):
        with pytest.raises(RefusedError, match="are the same cluster"):
            await sync.meet(source)
    assert sync.known == []

    sync.answering[SOUTH] = "south"
    await sync.begin()
    assert sync.known == [EAST, SOUTH]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NotOursError("another process is active, or nobody can say."), []),
        (RefusedError("another cluster."), [EventKind.LINK_REFUSED]),
    ],
    ids=["no word of the group", "refused"],
)
async def test_a_look_that_may_not_write_now_is_no_refusal_of_its_link(
    monkeypatch: pytest.MonkeyPatch, error: MirrorfleetError, told: list[EventKind]
) -> None:
    sync = Meeting(monkeypatch)
    await sync.begin()
    events: list[Event] = []
    monkeypatch.setattr(Store, "tell", lambda _, event: events.append(event))

    async def look(*_: object) -> None:
        raise error

    def held() -> bool:
        return str(error) in sync.reasons().get("link east->west", "")

    monkeypatch.setattr(SyncService, "_look", look)
    async with asyncio.TaskGroup() as group:
        following = group.create_task(sync.service._follow(sync.side(EAST)))
        await until(held, deadline_s=5, what="the look that failed")
        following.cancel()

    assert [event.kind for event in events] == told


async def test_a_look_does_not_wait_for_events_to_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = Meeting(monkeypatch)
    looks = Counter[ClusterAlias]()
    writing: list[bool] = []

    async def look(_: SyncService, side: Side) -> float:
        looks[side.link.source] += 1
        return 0.01

    async def flush(_: Store) -> str:
        writing.append(True)
        await for_ever()
        return ""

    monkeypatch.setattr(SyncService, "_look", look)
    monkeypatch.setattr(Store, "flush", flush)
    await sync.service._fleet.target.open()
    sync.service._store.tell(EVENT)
    async with asyncio.TaskGroup() as group:
        working = group.create_task(sync.service._work())
        await until(lambda: writing, deadline_s=5, what="a write of events")
        looks.clear()
        await until(
            lambda: min(looks[EAST], looks[SOUTH]) >= 3, deadline_s=5, what="three looks each"
        )
        working.cancel()

    assert writing == [True]


class Ledger:
    """Takes no event while a test wants it so."""

    def __init__(self) -> None:
        self.full = True
        self.written = 0

    async def write_out(self, _: object, waiting: list[object], __: int) -> None:
        if self.full:
            raise DeadlineError("NOT_ENOUGH_REPLICAS.")
        self.written += len(waiting)
        waiting.clear()


async def test_events_that_cannot_be_written_are_said_until_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def there(*_: object) -> bool:
        return True

    sync, ledger = Meeting(monkeypatch), Ledger()
    notes = sync.service._context.health.active.notes
    monkeypatch.setattr("services.sync.service._TROUBLE_S", 0.01)
    monkeypatch.setattr(Store, "_is_there", there)
    sync.service._store._writer = cast("ControlWriter", ledger)
    sync.service._store.tell(EVENT)
    async with asyncio.TaskGroup() as group:
        writing = group.create_task(sync.service._write_events())
        text = await until(lambda: notes().get("events", ""), deadline_s=5, what="a note")
        ledger.full = False
        await until(lambda: "events" not in notes(), deadline_s=5, what="no note any more")
        writing.cancel()

    assert "NOT_ENOUGH_REPLICAS" in text
    assert ledger.written == 1


@pytest.mark.parametrize(
    ("retriable", "ends"), [(True, False), (False, True)], ids=["all away", "all refused"]
)
async def test_sources_that_are_away_are_waited_for_and_only_a_refusal_of_all_ends_it(
    *, retriable: bool, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = Meeting(monkeypatch)
    error = ConnectionLostError("no answer.") if retriable else RefusedError("not you.")
    worked: list[bool] = []

    async def no_source(*_: object) -> None:
        raise error

    async def run(*_: object) -> None:
        worked.append(True)

    monkeypatch.setattr(FleetSync, "open_source", no_source)
    monkeypatch.setattr(sync.service._leadership, "run", run)
    monkeypatch.setattr(FleetSync, "close", nothing)
    with pytest.raises(RefusedError) if ends else nullcontext():
        await sync.service.serve(Stop(sync.service._context.clock, 1.0))

    assert worked == ([] if ends else [True])


async def test_who_is_a_standby_is_ready_though_a_source_was_away_when_it_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = Meeting(monkeypatch)
    stop = Stop(sync.service._context.clock, 1.0)
    asked = asyncio.Event()

    async def away(*_: object) -> None:
        asked.set()
        raise ConnectionLostError("no answer.")

    async def run(*_: object) -> None:
        assert asked.is_set()
        assert set(sync.reasons()) == {"group"}  # that of the standbys
        assert [report.trouble for report in sync.service.reports] == ["", ""]

    monkeypatch.setattr(FleetSync, "open_source", away)
    monkeypatch.setattr(sync.service._leadership, "run", run)
    monkeypatch.setattr(FleetSync, "close", nothing)
    await sync.service.serve(stop)


async def test_it_ends_when_it_is_asked_to_though_a_source_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = Meeting(monkeypatch)
    stop = Stop(sync.service._context.clock, 1.0)

    async def silent(*_: object) -> None:
        stop.set()
        await for_ever()

    monkeypatch.setattr(FleetSync, "open_source", silent)
    monkeypatch.setattr(sync.service._leadership, "run", nothing)
    monkeypatch.setattr(FleetSync, "close", nothing)
    async with asyncio.timeout(5):
        await sync.service.serve(stop)


async def test_a_control_topic_that_may_not_be_made_again_is_named_and_holds_up_no_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    meeting = Meeting(monkeypatch)
    answers: list[BrokerError | list[str]] = [
        BrokerError(ErrorCode.POLICY_VIOLATION, "reports"),
        ["reports"],
    ]

    async def mend(*_: object) -> list[str]:
        answer = answers.pop(0)
        if isinstance(answer, BrokerError):
            raise answer
        return answer

    monkeypatch.setattr(Store, "mend_topics", mend)
    side = meeting.side(EAST)
    notes = meeting.service._context.health.active.notes

    await meeting.service._mend_topics(side)
    assert "POLICY_VIOLATION" in notes()[f"control topics of {side.link}"]
    await meeting.service._mend_topics(side)
    assert notes() == {}
