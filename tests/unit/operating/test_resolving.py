"""What an operator may say to `resolve`: one way out, and a range that is one; what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.core.errors import (
    AuthenticationError,
    ConfigError,
    DeadlineError,
    MirrorfleetError,
    RefusedError,
)
from mirrorfleet.core.ids import FleetName, SourceOffset, TopicPartition
from mirrorfleet.kafka.control import ControlRecord
from mirrorfleet.kafka.offsets import ListedOffset, OffsetSpec
from mirrorfleet.mapping.catalog import CatalogView
from mirrorfleet.operating import resolving
from mirrorfleet.operating.resolving import Wish, resolve, wish_of
from mirrorfleet.records import commands
from mirrorfleet.records.commands import LONGEST_MS, Action, Command
from mirrorfleet.records.progress import Progress
from tests.unit.copying.making import LINK, entry
from tests.unit.views.making import report, snapshot

if TYPE_CHECKING:
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster

REQUESTS = TopicPartition("__mirrorfleet.west.commands", 0)
NOON_MS = 1_790_078_400_000
GAP = Wish(Action.ACCEPT_GAP, 100, 150)
TOLD = report(entry(), fault="source-truncated at source offset 100: it ends at 100, not at 150")


@pytest.mark.parametrize(
    ("accept_gap", "seek", "skip", "wish"),
    [
        ("100..150", None, False, Wish(Action.ACCEPT_GAP, 100, 150)),
        ("7..7", None, False, Wish(Action.ACCEPT_GAP, 7, 7)),
        (None, 0, False, Wish(Action.SEEK, end=0)),
        (None, None, True, Wish(Action.SKIP)),
    ],
)
def test_each_way_out_is_one_wish(
    *, accept_gap: str | None, seek: int | None, skip: bool, wish: Wish
) -> None:
    assert wish_of(accept_gap, seek, skip=skip) == wish


@pytest.mark.parametrize(
    ("accept_gap", "seek", "skip"),
    [(None, None, False), ("1..2", 3, False), ("1..2", None, True), (None, 0, True)],
)
def test_two_ways_out_or_none_are_refused(
    *, accept_gap: str | None, seek: int | None, skip: bool
) -> None:
    with pytest.raises(ConfigError, match="one way out is wanted"):
        wish_of(accept_gap, seek, skip=skip)


@pytest.mark.parametrize("text", ["150..100", "1.2", "..5", "-1..5", "1..", "a..b", ""])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no range of offsets"):
        wish_of(text, None, skip=False)


@dataclass
class World:
    """A fleet that stands still, its commands topic, and what a worker writes into it."""

    worker: Callable[[Command], Command | None] = lambda _: None
    requests: list[tuple[bytes | None, int]] = field(default_factory=list)
    """Values and timestamps."""
    fault: str = TOLD.fault
    polls: list[list[ControlRecord] | MirrorfleetError] = field(default_factory=list)
    """What the ledger's next polls give; then nothing."""
    unread: dict[int, MirrorfleetError] = field(default_factory=dict)
    """Slots whose progress cannot be read."""
    silent: set[str] = field(default_factory=set)
    """Of the target, what gives no answer: write, read."""

    async def read_catalog(self, *_: object) -> CatalogView:
        view = CatalogView()
        view.apply(entry())
        return view

    async def newest_progress(
        self, _target: object, _fleet: object, unread: dict[int, MirrorfleetError]
    ) -> list[Progress]:
        unread.update(self.unread)
        return [snapshot(replace(TOLD, fault=self.fault))]

    async def list_offsets(
        self, _: object, wanted: Mapping[TopicPartition, OffsetSpec]
    ) -> dict[TopicPartition, ListedOffset]:
        return {at: ListedOffset(len(self.requests), -1, 0) for at in wanted}

    async def read_up_to(
        self,
        _: object,
        at: TopicPartition,
        stop: Callable[[ControlRecord], bool],
        *,
        deadline_s: float,
        start_offset: int,
        end_offset: int,
    ) -> None:
        assert at == REQUESTS
        assert deadline_s > 0
        if "read" in self.silent:
            raise DeadlineError("gave up after 10 s")
        for offset in range(start_offset, end_offset):
            value, time_ms = self.requests[offset]
            stop(ControlRecord(at.topic, at.partition, offset, time_ms, b"", value))

    def tail(self, *_: object) -> SimpleNamespace:
        async def poll(*, deadline_s: float) -> list[ControlRecord]:
            found = self.polls.pop(0) if self.polls else []
            if isinstance(found, MirrorfleetError):
                raise found
            if not found:
                await asyncio.sleep(deadline_s)
            return found

        return SimpleNamespace(start=lambda *_: None, poll=poll, close=lambda: None)

    def writer(self, _: object) -> SimpleNamespace:
        async def write(
            at: TopicPartition, entries: Sequence[tuple[bytes | None, bytes | None]], now_ms: int
        ) -> None:
            assert at == REQUESTS
            if "write" in self.silent:
                raise DeadlineError("gave up after 5 s")
            for _, value in entries:
                self.requests.append((value, now_ms))
                asked = commands.decode(value)
                assert isinstance(asked, Command)
                answer = self.worker(asked)
                if answer is not None:
                    self.requests.append((commands.encode(answer)[1], now_ms))

        return SimpleNamespace(write=write, close=lambda: None)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    for name in ("read_catalog", "newest_progress", "list_offsets", "read_up_to"):
        monkeypatch.setattr(resolving, name, getattr(made, name))
    monkeypatch.setattr(resolving, "PartitionTail", made.tail)
    monkeypatch.setattr(resolving, "ControlWriter", made.writer)
    monkeypatch.setattr(resolving, "PATIENCE_S", 0.05)
    return made


def anew(asked: Command) -> Command:
    """What a worker asks of `sync` when it takes a request."""
    return replace(
        asked,
        id="orders-0.0",
        action=Action.BEGIN_ANEW,
        expires_ms=asked.time_ms + LONGEST_MS,
        request=asked.id,
    )


async def told(expected: type[MirrorfleetError] = DeadlineError, wish: Wish = GAP) -> str:
    """What an operator is told, at once or at the end of his patience."""
    target, clock = SimpleNamespace(name="west"), SimpleNamespace(now_ms=lambda: NOON_MS)
    with pytest.raises(expected) as error:
        await resolve(
            cast("Cluster", target),
            FleetName("west"),
            LINK,
            TopicPartition("orders", 0),
            wish,
            cast("Clock", clock),
        )
    return str(error.value)


@pytest.mark.parametrize("silent", [(), ("write",)], ids=["written", "not known"])
async def test_until_when_a_request_holds_is_said_as_soon_as_it_is_written(
    silent: tuple[str, ...],
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Who stops the command while it waits would not hear what it says at the end."""
    world.silent.update(silent)
    shown: list[str] = []

    async def poll(**_: object) -> list[ControlRecord]:
        shown.extend(capsys.readouterr())
        raise MirrorfleetError("stopped")

    tail = SimpleNamespace(start=lambda *_: None, poll=poll, close=lambda: None)
    monkeypatch.setattr(resolving, "PartitionTail", lambda *_: tail)
    monkeypatch.setattr(resolving, "PATIENCE_S", 60.0)

    await told()

    until = "a worker may take it until 2026-09-22 12:01:00 UTC, also if this command is stopped"
    assert shown == ([] if silent else ["", f"asked: {until}\n"])


async def test_a_request_that_waits_for_sync_has_not_ended_and_what_makes_it_is_told(
    world: World,
) -> None:
    world.worker = anew

    said = await told()

    assert "a worker took the request for orders-0 and asked `sync` for a new incarnation" in said
    assert "Until 2026-09-22 13:00:00 UTC `sync` still makes it" in said
    assert "`mirrorfleet apply`" in said
    assert "has ended" not in said


@pytest.mark.parametrize(
    "worker",
    [
        lambda _: None,
        lambda asked: replace(anew(asked), request=""),
        lambda asked: replace(anew(asked), action=Action.SEEK),
    ],
    ids=["no worker", "for a rule", "another operator's"],
)
async def test_a_request_that_no_worker_takes_has_ended(
    world: World, worker: Callable[[Command], Command | None]
) -> None:
    world.worker = worker

    said = await told()

    assert "no worker answered for orders-0 within 0.05 s; the request has ended." in said
    assert "Does a mirror run?" in said


async def test_of_a_record_that_may_be_left_out_later_it_is_said_that_it_is(world: World) -> None:
    said = await told(wish=Wish(Action.SKIP))

    assert "no worker has told within 0.05 s that it went on with orders-0." in said
    assert "leaves the record out with its next commit there, whatever is changed meanwhile" in said
    assert "has ended" not in said


async def test_only_the_slot_of_a_partition_must_tell_of_it(world: World) -> None:
    world.unread = {entry().slot + 1: DeadlineError("away")}
    assert "no worker answered" in await told()

    world.unread = {entry().slot: DeadlineError("away")}
    assert await told() == "away"


STILL = "A worker may still take it within 0.05 s, and what it takes is done."


@pytest.mark.parametrize(
    ("silent", "what"),
    [
        ("write", "nobody knows whether it was written: gave up after 5 s"),
        ("read", "nobody knows whether a worker took it: gave up after 10 s"),
    ],
)
async def test_of_a_request_whose_end_nobody_knows_it_is_said_that_it_may_be_done(
    world: World, silent: str, what: str
) -> None:
    world.silent = {silent}

    said = await told()

    assert f"the request for orders-0: {what}" in said
    assert STILL in said


async def test_a_ledger_that_cannot_be_read_any_more_does_not_end_a_request(world: World) -> None:
    world.polls = [AuthenticationError("west: no such user")]

    said = await told()

    assert "its answer cannot be read: west: no such user" in said
    assert STILL in said


async def test_a_ledger_whose_leader_moves_is_asked_again(world: World) -> None:
    world.polls = [DeadlineError("gave up after 10 s")] * 2

    assert "no worker answered for orders-0 within 0.05 s; the request has ended." in await told()
    assert world.polls == []


@pytest.mark.parametrize(
    ("reason", "offset", "detail", "next_step"),
    [
        (FaultReason.POSITION_LOST, -1, "its position is gone", "positions import --help"),
        (FaultReason.SOURCE_DENIED, -1, "mirror may not READ Topic:orders", "Grant it"),
        (FaultReason.SOURCE_MISSING, -1, "east has no topic orders", "begins by itself"),
        (FaultReason.SOURCE_CORRUPT, -1, "no first offset", "Nothing has changed."),
        (FaultReason.QUARANTINED, 40, "east.orders-0 takes no marker", "back in sync"),
    ],
)
async def test_of_what_no_request_moves_the_fault_is_told_and_what_to_do_and_nothing_is_asked(
    world: World, *, reason: FaultReason, offset: int, detail: str, next_step: str
) -> None:
    world.fault = str(Fault(reason, SourceOffset(offset), detail))

    said = await told(RefusedError)

    assert f"orders-0 stands at what no request moves ({world.fault})." in said
    assert next_step in said
    assert "nothing to resolve" not in said
    assert world.requests == []


async def test_a_fault_in_the_words_of_a_newer_worker_is_told_as_it_is(world: World) -> None:
    world.fault = "moon-phase: it is full"

    assert "(moon-phase: it is full)" in await told(RefusedError)
    assert world.requests == []


async def test_what_does_not_stand_still_has_nothing_to_resolve(world: World) -> None:
    world.fault = ""

    assert "There is nothing to resolve." in await told(RefusedError)
