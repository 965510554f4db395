"""What takes no write, or no answer, keeps nothing else from being told."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.control_writer import ControlWriter
from mirrorfleet.kafka.membership import SESSION_S
from mirrorfleet.records import progress
from mirrorfleet.records.events import EventKind
from mirrorfleet.records.overview import STALE_MS
from services.mirror import reporting
from services.mirror.service import MirrorService
from services.mirror.telling import REPORT_S, Teller, last_told
from tests.faultkit.hold import hold
from tests.faultkit.virtual import in_virtual_time
from tests.unit.copying.making import LINK, slot
from tests.unit.slots.test_requests import asked
from tests.unit.slots.test_worker import EVENTS, worker
from tests.unit.standby.test_demotion import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mirrorfleet.slots.runner import SlotRunner

COMMANDS = TopicPartition("__mirrorfleet.west.commands", 0)
SLOWEST_S = 3.0
"""Between two reports, by the settings."""
LASTS_S = 60.0


def at(number: int) -> TopicPartition:
    return TopicPartition("__mirrorfleet.west.progress", number)


def runner(number: int, *, since: float | None = None, is_lost: bool = False) -> SlotRunner:
    found = SimpleNamespace(
        number=number,
        slot=slot(),
        link=LINK,
        untaken=SimpleNamespace(since=since),
        is_lost=is_lost,
    )
    return cast("SlotRunner", found)


class LoopClock:
    """Both faces of the loop's time."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def now_ms(self) -> int:
        return round(self.monotonic() * 1000)


class Target:
    """A target that takes no write of `silent` within its deadline, and refuses `refused`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.silent: set[TopicPartition] = set()
        self.refused: set[TopicPartition] = set()
        self.written: dict[TopicPartition, list[float]] = defaultdict(list)
        """When, by the loop's time."""
        self.tries: Counter[TopicPartition] = Counter()
        self.is_member, self.answers_after_s = True, 0.0
        self.worker = worker()
        self.worker.clock, self.worker.confirm = LoopClock(), self.confirm

        async def write(_: ControlWriter, at: TopicPartition, *__: object) -> None:
            await self.take(at)

        async def write_out(
            _: ControlWriter, at: TopicPartition, waiting: list[object], *__: object
        ) -> None:
            await self.take(at)
            waiting.clear()

        monkeypatch.setattr(ControlWriter, "write", write)
        monkeypatch.setattr(ControlWriter, "write_out", write_out)
        monkeypatch.setattr(reporting, "snapshot", lambda *_: None)
        monkeypatch.setattr(progress, "encode", lambda _: (b"", b""))

    async def take(self, at: TopicPartition) -> None:
        self.tries[at] += 1
        if at in self.silent:
            await hold(REPORT_S, reason="as long as a report may take")
            raise DeadlineError(f"west: writing {at}: gave up")
        if at in self.refused:
            raise BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS, f"writing {at}")
        self.written[at].append(asyncio.get_running_loop().time())

    async def confirm(self) -> bool:
        await hold(self.answers_after_s, reason="a coordinator that takes its time")
        return self.is_member

    async def told(self, runners: Iterable[SlotRunner]) -> list[TopicPartition]:
        async with asyncio.TaskGroup() as tasks:
            Teller(self.worker, tasks).tell(runners)
        return list(self.written)


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    return Target(monkeypatch)


def test_healthy_slots_are_heard_of_in_time_and_requests_are_written_whatever_takes_no_write(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slot that stands is told of once the coordinator answers, which may take as long again."""
    target.silent, target.answers_after_s = {at(1), EVENTS}, 5.0
    service = MirrorService(replace(Fleet().context, settings={"progress_s": SLOWEST_S}))
    runners = [runner(0), runner(1), runner(2, since=0.0)]
    monkeypatch.setattr(service, "_told_of", lambda: runners)

    async def reports() -> None:
        target.worker.event(EventKind.WORKER_STARTED)
        target.worker.asked.append(asked(5))
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(service._report(target.worker))
            await hold(LASTS_S, reason="many reports long")
            task.cancel()

    in_virtual_time(reports())

    for healthy in (at(0), at(2)):
        times = [0.0, *target.written[healthy], LASTS_S]
        assert max(late - early for early, late in pairwise(times)) < STALE_MS / 1000
    assert target.written[COMMANDS] == pytest.approx([SLOWEST_S])
    assert not target.worker.asked
    assert target.worker.events  # they wait on
    for silent in (at(1), EVENTS):  # again and again, and never twice at a time
        assert LASTS_S / STALE_MS * 1000 < target.tries[silent] <= LASTS_S / REPORT_S


def test_who_overslept_tells_nothing_until_the_coordinator_knows_it_as_a_member_again(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept_s = 0.0

    class Slept(LoopClock):
        def monotonic(self) -> float:
            return super().monotonic() + slept_s

    target.worker.clock, target.is_member = Slept(), False
    service = MirrorService(replace(Fleet().context, settings={"progress_s": 1.0}))
    monkeypatch.setattr(service, "_told_of", lambda: [runner(0)])

    async def reports() -> None:
        nonlocal slept_s
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(service._report(target.worker))
            await hold(0.5, reason="in the middle of a sleep")
            slept_s = SESSION_S
            await hold(4.0, reason="several reports long")
            assert not target.written
            target.is_member = True
            await hold(1.0, reason="a report long")
            assert target.written[at(0)]
            task.cancel()

    in_virtual_time(reports())


async def test_a_slot_whose_report_is_refused_silences_no_other_and_no_event(
    target: Target,
) -> None:
    target.refused = {at(1)}
    target.worker.event(EventKind.WORKER_STARTED)

    told = await target.told([*map(runner, range(3)), runner(3, is_lost=True)])

    assert told == [at(0), at(2), EVENTS]


@pytest.mark.parametrize("refused", [EVENTS, COMMANDS], ids=["events", "requests"])
async def test_events_and_requests_are_written_without_each_other(
    target: Target, refused: TopicPartition
) -> None:
    target.refused = {refused}
    target.worker.event(EventKind.WORKER_STARTED)
    target.worker.asked.append(asked(5))

    told = await target.told([])

    assert told == [each for each in (EVENTS, COMMANDS) if each != refused]
    assert [len(target.worker.events), len(target.worker.asked)] == [
        int(each == refused) for each in (EVENTS, COMMANDS)
    ]


@pytest.mark.parametrize(("is_member", "told"), [(True, [1, 2]), (False, [1])])
async def test_of_a_slot_that_stands_only_a_member_tells(
    target: Target, *, is_member: bool, told: list[int]
) -> None:
    target.is_member = is_member
    lost = runner(3, since=5.0, is_lost=True)  # while the group was asked

    assert await target.told([runner(1), runner(2, since=5.0), lost]) == list(map(at, told))


def test_the_last_report_ends_in_time_whatever_an_earlier_one_waits_for(target: Target) -> None:
    """Else who has handed over all that it had would end as one that has not."""
    target.silent, took_s = {EVENTS}, list[float]()

    async def leave() -> None:
        target.worker.event(EventKind.WORKER_STOPPED)
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            Teller(target.worker, tasks).tell([])
            await hold(0.1, reason="a report is under way")
            began = loop.time()
            await last_told(target.worker, lambda last: last.tell([runner(0)]), 3.0)
            took_s.append(loop.time() - began)

    in_virtual_time(leave())

    assert took_s == [pytest.approx(3.0)]
    assert target.written[at(0)]
