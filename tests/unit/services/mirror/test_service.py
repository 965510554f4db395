"""What a worker tells while it is no member of the group that gives it slots."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.copying import contact
from mirrorfleet.copying.lifecycle import SlotState
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import ClusterId
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control_writer import ControlWriter
from mirrorfleet.kafka.transactions import TransactionVersion
from mirrorfleet.records.catalog import CatalogConfig, CatalogLink
from mirrorfleet.records.members import Known
from mirrorfleet.runtime.lifecycle import Stop
from mirrorfleet.runtime.metrics import Exposition
from mirrorfleet.slots import contacts, requests
from mirrorfleet.slots.leaders import Leaders
from services.mirror import reporting
from services.mirror import service as module
from services.mirror.service import CATALOG, GROUP, MirrorService
from tests.faultkit.waiting import until
from tests.unit.config.making import RIGHT, parse
from tests.unit.copying.making import LINK, entry
from tests.unit.standby.test_demotion import Fleet, for_ever, nothing
from tests.unit.standby.test_leading import NOTHING, Group

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mirrorfleet.mapping.catalog import CatalogView
    from mirrorfleet.records.catalog import CatalogEntry


class Members(Group):
    """The workers' group as one of its members sees it."""

    generation = 1
    knows_we_leave = False
    silent_s = 0.0

    def wake(self) -> None:
        self.news.set()


class Worker:
    """A worker without clusters; catalog and group are the test's to give."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, estate: str = RIGHT) -> None:
        self.group, fleet = Members(group="mirrorfleet.west.mirror"), Fleet()
        of_text = parse(estate, env={"WEST_PASSWORD": "x"})
        self.context = replace(fleet.context, estate=of_text)
        self.service = MirrorService(self.context)
        self._published: asyncio.Queue[CatalogEntry] = asyncio.Queue()
        monkeypatch.setattr(Cluster, "open", nothing)
        monkeypatch.setattr(Cluster, "transaction_version", version)
        monkeypatch.setattr(Leaders, "keep", for_ever)
        monkeypatch.setattr(ControlWriter, "write", nothing)
        monkeypatch.setattr(module, "Membership", lambda *_, **__: self.group)
        monkeypatch.setattr(module, "follow_catalog", self._follow)
        monkeypatch.setattr(module, "check_versions", nothing)
        monkeypatch.setattr(requests, "follow", for_ever)

    async def _follow(
        self,
        _settings: object,
        _fleet: object,
        view: CatalogView,
        *,
        on_caught_up: Callable[[], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        del on_trouble
        while True:
            view.apply(await self._published.get())
            on_caught_up()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        stop = Stop(self.context.clock, 5.0)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.service.serve(stop))
            await until(lambda: self.reasons, deadline_s=5, what="the first words")
            yield
            stop.set()

    def publish(self, published: CatalogEntry) -> None:
        self._published.put_nowait(published)

    @property
    def reasons(self) -> dict[str, str]:
        return dict(self.context.health.reasons())

    @property
    def owned(self) -> list[str]:
        lines = Exposition(self.context.metrics).text().decode().splitlines()
        return [line for line in lines if line.startswith("mirrorfleet_slots_owned{")]


async def version(_: Cluster) -> TransactionVersion:
    return TransactionVersion.V2


async def test_a_worker_that_does_not_join_its_group_is_not_ready_and_its_links_have_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Worker(monkeypatch)
    nobody = ['mirrorfleet_slots_owned{link="east->west"} 0.0']
    async with worker.serving():
        assert (list(worker.reasons), worker.owned) == ([CATALOG], nobody)

        worker.publish(entry())
        await until(lambda: GROUP in worker.reasons, deadline_s=5, what="the group to be missed")
        assert worker.reasons == {GROUP: "mirrorfleet.west.mirror: not a member yet"}
        worker.group.trouble = "west: the coordinator does not answer"
        assert worker.reasons == {GROUP: "west: the coordinator does not answer"}
        assert worker.owned == nobody

        worker.group.trouble = ""
        worker.group.give(NOTHING)
        assert worker.reasons == {}


async def test_a_link_with_nothing_to_copy_needs_no_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Worker(monkeypatch)
    async with worker.serving():
        worker.publish(CatalogConfig(generation=1))
        await until(lambda: not worker.reasons, deadline_s=5, what="the catalog")
        assert len(worker.owned) == 1  # it may still come

        ids = ClusterId("source"), ClusterId("target")
        worker.publish(
            CatalogLink(
                link=LINK, source_cluster=ids[0], target_cluster=ids[1], slots=(entry().slot,)
            )
        )
        await until(lambda: not worker.owned, deadline_s=5, what="the link to be known")


async def test_a_worker_that_copies_none_of_its_slots_is_not_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = "none of 8 slots is copied"
    monkeypatch.setattr(reporting, "standing_still", lambda *_: said)
    worker = Worker(monkeypatch)
    async with worker.serving():
        await until(lambda: worker.reasons.get("slots") == said, deadline_s=5, what="the reason")


async def test_a_worker_whose_coordinator_is_silent_and_whose_slots_others_copy_is_not_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is cut off from the broker of its group alone: it has no other trouble."""
    worker = Worker(monkeypatch)
    async with worker.serving():
        worker.publish(entry())
        worker.group.give(NOTHING)
        await until(lambda: not worker.reasons, deadline_s=5, what="a member")
        worker.group.silent_s = reporting.SILENT_S
        said = "its coordinator has named no member here for 30s; others copy its slots"
        assert worker.reasons == {GROUP: f"mirrorfleet.west.mirror: {said}"}

        copying = SimpleNamespace(state=SlotState.COPYING)
        with monkeypatch.context() as alone:
            alone.setattr(worker.service, "_ours", lambda: [copying])
            alone.setattr(reporting, "standing_still", lambda *_: "")
            assert worker.reasons == {}  # alone it loses none


class Joining(Worker):
    """Tells when it joins the group, and which slots it claims then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, connect_s: float) -> None:
        super().__init__(monkeypatch)
        self.joined, self.reached = asyncio.Event(), asyncio.Event()
        self._known: list[Callable[[], Known]] = []
        monkeypatch.setattr(module, "Membership", self._member)
        monkeypatch.setattr(self.group, "run", self._run)
        monkeypatch.setattr(module, "open_source", self._open)
        monkeypatch.setattr(module, "CONNECT_S", connect_s)

    def claims(self) -> Known:
        (known,) = self._known
        return known()

    def _member(self, *_: object, **how: Callable[[], Known]) -> Members:
        self._known.append(how["known"])
        return self.group

    async def _run(self) -> None:
        self.joined.set()
        await for_ever()

    async def _open(self, *_: object) -> None:
        await self.reached.wait()


async def test_a_worker_that_reaches_its_sources_joins_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker, slot = Joining(monkeypatch, connect_s=60.0), frozenset({entry().slot})
    worker.reached.set()
    async with asyncio.timeout(5), worker.serving():
        worker.publish(entry())
        await worker.joined.wait()
        assert worker.claims() == Known(slot, slot)


async def test_a_worker_that_does_not_reach_a_source_joins_and_says_which_slots_it_cannot_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker, slot = Joining(monkeypatch, connect_s=0.2), frozenset({entry().slot})
    async with asyncio.timeout(10), worker.serving():
        worker.publish(entry())
        await worker.joined.wait()
        assert worker.claims() == Known(slot, frozenset(), slot)
        worker.reached.set()
        await until(lambda: worker.claims().busy == slot, deadline_s=5, what="a claim to it")


async def test_a_worker_that_loses_a_source_claims_no_slot_of_it_until_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[int] = []

    async def answering(*_: object) -> int | None:
        return answers[0] if answers else None

    monkeypatch.setattr(contacts, "answering", answering)
    monkeypatch.setattr(contacts, "LOOK_S", 0.01)
    for limit, seconds in (("OTHERS_S", 0.2), ("OWN_S", 0.4), ("STEADY_S", 0.1)):
        monkeypatch.setattr(contact, limit, seconds)
    worker, slot = Joining(monkeypatch, connect_s=60.0), frozenset({entry().slot})
    worker.reached.set()
    async with asyncio.timeout(15), worker.serving():
        worker.publish(entry())
        await worker.joined.wait()
        lost = Known(slot, frozenset(), slot)
        await until(lambda: worker.claims() == lost, deadline_s=5, what="it to be given up")
        answers.append(1)
        await until(lambda: worker.claims().busy == slot, deadline_s=5, what="a claim to it again")


async def test_a_worker_that_has_reached_no_source_yet_is_not_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Joining(monkeypatch, connect_s=0.2)
    async with asyncio.timeout(10), worker.serving():
        worker.publish(entry())
        await worker.joined.wait()
        worker.group.give(NOTHING)
        assert worker.reasons == {"source east": "not reached yet"}
        worker.reached.set()
        await until(lambda: not worker.reasons, deadline_s=5, what="the source to be reached")


async def test_a_worker_stops_at_once_though_a_source_is_away_and_its_last_word_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connecting = asyncio.Event()

    async def away(*_: object) -> None:
        connecting.set()
        await for_ever()

    async def refused(*_: object) -> None:
        raise BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "events")

    worker = Worker(monkeypatch)
    monkeypatch.setattr(module, "open_source", away)
    monkeypatch.setattr(ControlWriter, "write", refused)
    async with asyncio.timeout(5), worker.serving():
        worker.publish(entry())
        await connecting.wait()
