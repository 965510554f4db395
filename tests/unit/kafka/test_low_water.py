"""Large answers wake the loop seldom, and are never waited for in vain."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import uvloop

from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.kafka.connection import Connection
from mirrorfleet.kafka.low_water import LEAST, MOST, RECORD, LowWater
from services.install.authority import Authority
from tests.faultkit.hold import hold

LOOPS: Final = pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
SIZE: Final = 6 << 20
Contexts = tuple[ssl.SSLContext, ssl.SSLContext]
"""Of the client, of the broker."""


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def secured(request: pytest.FixtureRequest, tmp_path: Path) -> Contexts | None:
    return contexts(Authority(tmp_path)) if request.param else None


def contexts(authority: Authority) -> Contexts:
    broker = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    broker.load_cert_chain(authority.issue("broker", ("localhost",), dt.timedelta(days=1)))
    return ssl.create_default_context(cafile=authority.ca_file), broker


class Raw:
    """Keeps what was set."""

    def __init__(self) -> None:
        self.marks: list[int] = []

    def setsockopt(self, level: int, option: int, value: int, /) -> None:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT)
        self.marks.append(value)


def test_the_mark_is_what_is_missing_up_to_a_most_and_is_said_once() -> None:
    raw = Raw()
    mark = LowWater(raw)
    for missing in (0, 3 * MOST, 2 * MOST, LEAST, LEAST - 1, 0):
        mark.want(missing, 0.001)
    assert raw.marks == [MOST, LEAST, 1]


def test_what_may_have_left_the_socket_is_not_waited_for_there() -> None:
    raw = Raw()
    mark = LowWater(raw, within=RECORD)
    for missing in (MOST + RECORD + 1, MOST + RECORD - 1, LEAST + RECORD, LEAST + RECORD - 1):
        mark.want(missing, 0.001)
    assert raw.marks == [MOST, MOST - 1, LEAST, 1]


def test_far_away_there_is_no_mark() -> None:
    raw = Raw()
    LowWater(raw).want(3 * MOST, 0.005)
    assert raw.marks == []


def test_a_mark_that_is_lowered_is_news_once() -> None:
    raw = Raw()
    mark = LowWater(raw)
    assert not mark.lower()
    mark.want(MOST, 0.001)
    assert mark.lower()
    assert not mark.lower()
    assert raw.marks == [MOST, 1]


class Counting(Connection):
    """Counts the turns in which bytes were read."""

    turns = 0

    def buffer_updated(self, nbytes: int) -> None:
        self.turns += 1
        super().buffer_updated(nbytes)


def body(frame: bytes | bytearray, start: int) -> int:
    return len(frame) - start


@asynccontextmanager
async def pair(secured: Contexts | None) -> AsyncIterator[tuple[Counting, asyncio.StreamWriter]]:
    """A connection over real sockets, and the broker's end of it."""
    ours, theirs = secured or (None, None)
    joined: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    server = await asyncio.start_server(
        lambda _, writer: joined.put_nowait(writer), "127.0.0.1", 0, ssl=theirs
    )
    host, port = server.sockets[0].getsockname()[:2]
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(
        lambda: Counting("b:1", "me"),
        host,
        port,
        ssl=ours,
        server_hostname="localhost" if ours else None,
    )
    writer = await joined.get()
    try:
        yield connection, writer
    finally:
        connection.close()
        writer.close()
        server.close()


def start_of_answer(size: int) -> bytes:
    """Up to its first byte of `size`: length, correlation and no tags."""
    return (5 + size).to_bytes(4, "big") + (1).to_bytes(4, "big") + b"\0"


@LOOPS
def test_a_large_answer_is_read_in_few_turns(
    new_loop: Callable[[], asyncio.AbstractEventLoop], secured: Contexts | None
) -> None:
    async def run() -> tuple[int, int]:
        async with pair(secured) as (connection, writer):
            asked = connection.request(1, 3, (), body, flexible=True, deadline_s=20.0)
            writer.write(start_of_answer(SIZE))
            for _ in range(SIZE >> 14):
                writer.write(bytes(1 << 14))
                await writer.drain()
                await asyncio.sleep(0)  # a turn of the loop: time for the connection to read
            return await asked, connection.turns

    with asyncio.Runner(loop_factory=new_loop) as runner:
        size, turns = runner.run(run())
    assert size == SIZE
    assert turns <= 4 * SIZE // MOST  # and 384 without a mark


@LOOPS
def test_an_answer_that_trickles_below_the_mark_is_waited_for(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
    secured: Contexts | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mirrorfleet.kafka.connection._COMING_S", 0.2)
    size, piece = 4 * LEAST, 4096

    async def run() -> int:
        async with pair(secured) as (connection, writer):
            asked = connection.request(1, 3, (), body, flexible=True, deadline_s=0.2)
            writer.write(start_of_answer(size) + bytes(LEAST))
            for _ in range(10):
                writer.write(bytes(piece))
                await hold(0.1, reason="a slow line")
            writer.write(bytes(size - LEAST - 10 * piece))
            return await asked

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(run()) == size


@LOOPS
def test_an_answer_that_stops_below_the_mark_ends_the_connection(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
    secured: Contexts | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mirrorfleet.kafka.connection._COMING_S", 0.1)

    async def run() -> None:
        async with pair(secured) as (connection, writer):
            asked = connection.request(1, 3, (), body, flexible=True, deadline_s=0.1)
            writer.write(start_of_answer(SIZE) + bytes(LEAST))
            await asyncio.wait_for(asked, 10.0)

    with asyncio.Runner(loop_factory=new_loop) as runner, pytest.raises(DeadlineError):
        runner.run(run())
