"""How long `sync` keeps to a request for another incarnation, also one that it reads late."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, CorruptBatchError, MirrorfleetError
from mirrorfleet.core.ids import FleetName, TopicPartition
from mirrorfleet.kafka import control_following
from mirrorfleet.kafka.control_reading import ControlRecord
from mirrorfleet.kafka.offsets import LATEST, ListedOffset, OffsetSpec
from mirrorfleet.records import commands
from mirrorfleet.records.commands import LONGEST_MS, Command
from mirrorfleet.syncing.anew import AnewRequests
from tests.fakes.clock import HandClock
from tests.unit.records.test_commands import ONE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mirrorfleet.kafka.cluster import Cluster

HOUR_S = 3_600


class Log:
    """The commands topic, and who reads it."""

    def __init__(self) -> None:
        self.clock = HandClock(wall_ms=1_000_000_000)
        self.records: list[ControlRecord] = []
        self.next_offsets: dict[int, int] = {}
        self.fails: MirrorfleetError | None = None
        self.frozen = False
        self.polls = 0
        self.closed = 0

    def ask(self, *, behind_ms: int = 0) -> Command:
        """A request for an hour; the clocks of its writer and its broker may be behind ours."""
        at_ms = self.clock.now_ms() - behind_ms
        command = replace(ONE, time_ms=at_ms, expires_ms=at_ms + LONGEST_MS)
        _, value = commands.encode(command)
        self.records.append(ControlRecord("commands", 0, len(self.records), at_ms, b"", value))
        return command

    async def topic(self, _name: str, *, refresh: bool) -> SimpleNamespace:
        del refresh
        return SimpleNamespace(partitions={0: None})

    async def list_offsets(
        self, _: object, wanted: Mapping[TopicPartition, OffsetSpec], *, deadline_s: float
    ) -> dict[TopicPartition, ListedOffset]:
        del deadline_s
        return {at: ListedOffset(self._first(spec), -1, 0) for at, spec in wanted.items()}

    def _first(self, spec: OffsetSpec) -> int:
        if spec == LATEST:
            return len(self.records)
        late = (each.offset for each in self.records if each.timestamp >= spec.timestamp)
        return next(late, -1)

    def start(self, partition: int, offset: int) -> None:
        self.next_offsets[partition] = offset

    async def poll(self, *, deadline_s: float, max_wait_ms: int) -> list[ControlRecord]:
        del deadline_s, max_wait_ms
        self.polls += 1
        if self.fails is not None:
            raise self.fails
        if self.frozen:
            await asyncio.Event().wait()
        begin = self.next_offsets[0]
        self.next_offsets[0] = len(self.records)
        return self.records[begin:]

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = Log()
    monkeypatch.setattr(control_following, "PartitionTail", lambda *_: made)
    monkeypatch.setattr(control_following, "list_offsets", made.list_offsets)
    return made


@pytest.fixture
def requests(log: Log) -> AnewRequests:
    return AnewRequests(cast("Cluster", log), FleetName("west"), log.clock)


async def test_a_request_that_ended_while_nobody_looked_is_not_carried_out(
    log: Log, requests: AnewRequests
) -> None:
    assert await requests.open() == {}
    log.ask()

    log.clock.seconds += 2 * HOUR_S

    assert await requests.open() == {}


async def test_a_request_that_is_read_late_ends_when_the_operator_was_told(
    log: Log, requests: AnewRequests
) -> None:
    await requests.open()
    command = log.ask()

    log.clock.seconds += 600
    late = await requests.open()
    log.clock.seconds += HOUR_S - 601
    last = await requests.open()
    log.clock.seconds += 1

    assert late == last == {ONE.identity: command}
    assert await requests.open() == {}


async def test_a_request_lives_from_when_it_comes_while_we_look_whatever_its_clock_says(
    log: Log, requests: AnewRequests
) -> None:
    await requests.open()
    command = log.ask(behind_ms=2 * LONGEST_MS)

    log.clock.seconds += 2
    open_at_once = await requests.open()
    log.clock.seconds += HOUR_S

    assert open_at_once == {ONE.identity: command}
    assert await requests.open() == {}


async def test_while_nobody_leads_the_topic_what_was_read_before_counts_and_that_is_said(
    log: Log, requests: AnewRequests
) -> None:
    command = log.ask()
    before = await requests.open()
    log.fails = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, "commands")
    meanwhile, trouble = await requests.open(), requests.trouble
    log.fails, polls = None, log.polls

    await requests.open()
    asked_at_once = log.polls > polls
    log.clock.seconds += 60
    await requests.open()

    assert before == meanwhile == {ONE.identity: command}
    assert "LEADER_NOT_AVAILABLE" in trouble
    assert (asked_at_once, requests.trouble) == (False, "")
    log.fails = CorruptBatchError("no batch.")
    with pytest.raises(CorruptBatchError):
        await requests.open()


async def test_a_leader_that_is_frozen_holds_up_no_link(
    log: Log, requests: AnewRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests.deadline_s = 0.01
    command = log.ask()
    await requests.open()
    log.frozen = True

    async with asyncio.timeout(5):
        assert await requests.open() == {ONE.identity: command}

    assert "not read to its end" in requests.trouble
    assert log.closed == 1  # what it answers later is nobody's
