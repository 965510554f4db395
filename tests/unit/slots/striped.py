"""A striped lane with a far broker made of lists."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.budget import FrameLease, MemoryBudget
from mirrorfleet.copying.limits import Limits
from mirrorfleet.copying.partition import Pace, SourceEnds
from mirrorfleet.copying.seats import Seats
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.kafka.fetcher import Fetched, FetchedPartition, FetchPoint
from mirrorfleet.slots import striping
from mirrorfleet.slots.leaders import LeaderAt
from mirrorfleet.slots.striping import StripedLane
from mirrorfleet.wire.copybatch import AbortedTransaction
from tests.unit.copying.making import BIG, SOURCE_TOPIC, entry, fetched, identity, slot

if TYPE_CHECKING:
    from mirrorfleet.copying.stripes import Piece
    from mirrorfleet.kafka.connection import Connection
    from mirrorfleet.kafka.fetcher import FetchLane
    from mirrorfleet.slots.runner import SlotRunner

NODE, REPLICA, SEATS = 1, 3, 8
END = 100


async def stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def turns(count: int = 20) -> None:
    """Let the tasks of a lane go on, which never wait for long."""
    for _ in range(count):
        await asyncio.sleep(0)


def plain_source() -> SimpleNamespace:
    """Settings of a source without TLS."""
    protocol = SimpleNamespace(tls=False)
    return SimpleNamespace(rack="a", security=SimpleNamespace(protocol=protocol))


class World:
    """A partition of a hundred batches that catches up; a lane of the broker that leads it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seats = Seats()
        self.budget = MemoryBudget(8 << 20)
        self.slot = slot(entry(0), budget=self.budget)
        self.partition = self.slot.partitions[identity(0)]
        self.partition.pace, self.partition.source = Pace.CATCH_UP, SourceEnds(END, END, 0)
        self.preferred, self.rack = -1, ""
        self.asked: list[int] = []
        """Bytes of each request."""
        self.wanted: FetchPoint | None = None
        self.points: list[FetchPoint] = []
        self.diverging: tuple[int, int] | None = None
        self.examined: list[object] = []
        self.connects = self.rerouted = 0
        self.settings = plain_source()
        self.runner = SimpleNamespace(
            number=0,
            slot=self.slot,
            budget=self.budget,
            seats=self.seats,
            limits=Limits(),
            clock=SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time()),
            settings=SimpleNamespace(
                partition_fetch_bytes=1 << 20, fetch_connections=SEATS, fetch_wait_ms=1
            ),
            meters=SimpleNamespace(fetched=SimpleNamespace(value=0)),
            source=SimpleNamespace(connect=self.connect, settings=self.settings),
            sources=SimpleNamespace(of=lambda *_: LeaderAt(NODE, 0)),
            room=asyncio.sleep,
            wake=lambda: None,
            reroute=self.reroute,
            report_fault=lambda partition: None,
            examine=self.examined.append,
            source_moved=lambda partition, error: None,
            link="east->west",
        )
        monkeypatch.setattr(striping, "FetchLane", self._lane)
        monkeypatch.setattr(striping, "LOOK_S", 0.0)
        monkeypatch.setattr(striping, "FAR_S", 0.0)  # its answers take no time
        self.lane = StripedLane(cast("SlotRunner", self.runner), NODE, 0.1)

    def _lane(self, *_: object, in_session: bool = True, **__: object) -> World:
        assert not in_session, "a session has a partition once, and its requests are serial"
        return self

    async def connect(self, node: int, *, purpose: str) -> object:
        """It is being made for ever."""
        del node, purpose
        self.connects += 1
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    def reroute(self) -> None:
        self.rerouted += 1

    def want(self, point: FetchPoint) -> None:
        self.wanted = point
        self.points.append(point)

    def forget(self, *_: object) -> None:
        self.wanted = None

    async def fetch(self, *, max_bytes: int, min_bytes: int, max_wait_ms: int) -> Fetched:
        del min_bytes, max_wait_ms
        point = self.wanted
        assert point is not None
        self.asked.append(max_bytes)
        await asyncio.sleep(0)
        is_refused = self.preferred >= 0 or self.diverging is not None
        frame = bytearray() if is_refused else fetched((point.offset, [BIG]))
        return Fetched(frame, [self.part(frame, [])], 0)

    def pieces(self, count: int, offsets: int) -> list[Piece]:
        """So many pieces on the way, each of so many offsets; nothing is left behind them."""
        end = count * offsets
        self.partition.source = SourceEnds(end, end, 0)
        self.lane._stripes._bytes_an_offset[self.partition] = (1 << 20) / (offsets + 0.2)
        made = [self.lane._next() for _ in range(count)]
        assert [each and (each.first, each.end) for each in made] == [
            (first, first + offsets) for first in range(0, end, offsets)
        ]
        return [each for each in made if each is not None]

    async def fetch_piece(self, piece: Piece) -> None:
        await self.lane._fetch_piece(cast("FetchLane", self), piece)

    async def arrive(self, piece: Piece, frame: bytearray, *aborted: tuple[int, int]) -> None:
        """The answer to a piece, with its list of aborted transactions."""
        account = self.budget.account()
        account.resize(0, len(frame))
        lease = FrameLease(account, len(frame))
        part = self.part(frame, [AbortedTransaction(*each) for each in aborted])
        await self.lane._arrived(piece, Fetched(frame, [part], 0), lease)
        lease.done()

    def part(self, frame: bytearray, aborted: list[AbortedTransaction]) -> FetchedPartition:
        return FetchedPartition(
            "orders",
            SOURCE_TOPIC,
            0,
            ErrorCode.NONE,
            high_watermark=END,
            last_stable_offset=END,
            log_start_offset=0,
            diverging_epoch=self.diverging,
            current_leader=None,
            preferred_replica=self.preferred,
            aborted=aborted,
            start=0,
            end=len(frame),
        )

    async def run(self) -> None:
        first = SimpleNamespace(rtt_s=0.1, close=lambda: None)
        await self.lane.run(cast("Connection", first))
