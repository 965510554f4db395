"""A TCP proxy of ours: a gate for each broker, each direction of it as bad as a test wants.

    with Proxy() as proxy:
        gate = proxy.gate(broker_port)          # clients connect to gate.port
        gate.set(up=Line(delay_s=0.05), down=Line(delay_s=0.05, window=200_000))
        gate.set(down=BLACK_HOLE)               # requests arrive, answers do not
        gate.reset(); gate.half_open(Side.CLIENT)
        gate.heal()

Up is from the client to the broker. Runs in a thread with a loop of its own; every method here may
be called from any other thread. What it cannot do: lose a SYN. A client of a black hole connects
and then hears nothing, which ends at the same time-out of ours.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeVar

from services.local.ports import HOST, free_ports
from tests.faultkit.pipes import BLACK_HOLE, PLAIN, End, Flow, Line, Pipe

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator
    from types import TracebackType

__all__ = ["BLACK_HOLE", "PLAIN", "Gate", "Line", "Proxy", "Seen", "Side", "held"]

T = TypeVar("T")

ACCEPTING: Final = 4
"""Turns of the loop from a client's connect to an end that has told its channel."""
CALL_S: Final = 10.0
"""Deadline of a call into the proxy's thread."""


class Side(StrEnum):
    """One end of a connection."""

    CLIENT = "client"
    BROKER = "broker"


class Seen(NamedTuple):
    """What a gate has seen so far, or `waiting` and `open` as of now.

    `waiting`: bytes that were sent and did not get through yet; more than 0 in a black hole proves
    that it bit.
    """

    accepted: int
    open: int
    up: int
    down: int
    waiting: int
    reset: int
    halved: int


class _Channel:
    """Both directions of one connection, on the proxy's loop."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.near = End(self._arrived, self._gone)
        self.far = End(self._joined, self._gone)
        self.up = Pipe(gate.up, lambda: gate.down.delay_s)
        self.down = Pipe(gate.down, lambda: gate.up.delay_s)
        self.connecting = asyncio.Event()
        self._ends = 0

    def _arrived(self, _end: End) -> None:
        self._ends += 1
        self.gate.arrived(self)

    def _joined(self, _end: End) -> None:
        self._ends += 1
        near, far = self.near.transport, self.far.transport
        if near is None or far is None or near.is_closing():
            self.far.reset()
            return
        self.near.out = self.far.into = self.up
        self.far.out = self.near.into = self.down
        self.up.join(near, far)
        self.down.join(far, near)

    def _gone(self, end: End) -> None:
        """What still comes for an end that is gone is dropped; what it sent still arrives."""
        if end.into is not None:
            end.into.swallow()
        self._ends -= 1
        if self._ends == 0:
            self.up.end()
            self.down.end()
            self.gate.left(self)

    @property
    def waiting(self) -> int:
        """Bytes that did not get through yet."""
        kernel = self.near.unread + self.far.unread
        return kernel + self.up.queued + self.down.queued

    def refused(self) -> None:
        """The broker cannot be connected to."""
        self.near.reset()

    def reset(self) -> None:
        """Both ends get RST; nothing that is under way arrives."""
        for end in (self.near, self.far):
            end.out = None
        for pipe in (self.up, self.down):
            pipe.swallow()
        for end in (self.near, self.far):
            end.reset()

    def halve(self, stays: Side) -> None:
        """The end of `stays` hears nothing of the other's death; what it sends is dropped."""
        alive, dead = (self.near, self.far) if stays is Side.CLIENT else (self.far, self.near)
        dead.out = None
        if alive.out is not None:
            alive.out.swallow()
        dead.reset()


class Gate:
    """The proxy of one broker. `up` and `down` are for every connection, old and new."""

    def __init__(self, proxy: Proxy, target: tuple[str, int], port: int) -> None:
        self._proxy = proxy
        self._server: asyncio.Server | None = None
        self._channels: set[_Channel] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepted = self._reset = self._halved = self._up = self._down = 0
        self.target, self.port = target, port
        self.up = self.down = PLAIN

    @property
    def address(self) -> str:
        """Where clients connect to."""
        return f"{HOST}:{self.port}"

    # -- what a test says

    def set(self, *, up: Line | None = None, down: Line | None = None) -> None:
        """Make the directions that are given as they are given, from now on."""
        self._proxy.run(lambda: self._set(up, down))

    def heal(self) -> None:
        """Make both directions plain again; what was held arrives."""
        self.set(up=PLAIN, down=PLAIN)

    def reset(self) -> int:
        """Reset every connection of now; how many."""
        return self._proxy.run(self._reset_all)

    def half_open(self, stays: Side) -> int:
        """Let one side of every connection of now die unnoticed by the other; how many."""
        return self._proxy.run(lambda: self._halve_all(stays))

    def refuse(self) -> None:
        """Listen no more and reset what there is, as a machine whose process is gone."""
        self._proxy.run_until_done(self._refuse())

    def listen(self) -> None:
        """Listen (again)."""
        self._proxy.run_until_done(self._listen())

    def seen(self) -> Seen:
        """Count."""
        return self._proxy.run(self._seen)

    def brought(self, least: int) -> int:
        """Connections of now that have each brought at least so many bytes from the broker."""
        return self._proxy.run(
            lambda: sum(channel.down.carried >= least for channel in self._channels)
        )

    # -- on the proxy's loop

    def arrived(self, channel: _Channel) -> None:
        """Take a new connection, and connect it on."""
        self._accepted += 1
        self._channels.add(channel)
        channel.up.change(self.up)  # set, perhaps, while it was being accepted
        channel.down.change(self.down)
        if Flow.HELD not in (self.up.flow, self.down.flow):
            channel.connecting.set()
        task = asyncio.get_running_loop().create_task(self._connect(channel))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def left(self, channel: _Channel) -> None:
        """Forget a connection whose ends are both gone."""
        self._up += channel.up.carried
        self._down += channel.down.carried
        self._channels.discard(channel)

    async def _connect(self, channel: _Channel) -> None:
        await channel.connecting.wait()
        try:
            await asyncio.get_running_loop().create_connection(lambda: channel.far, *self.target)
        except OSError:
            channel.refused()

    def _set(self, up: Line | None, down: Line | None) -> None:
        self.up, self.down = up or self.up, down or self.down
        for channel in list(self._channels):
            channel.up.change(self.up)
            channel.down.change(self.down)
            if Flow.HELD not in (self.up.flow, self.down.flow):
                channel.connecting.set()

    def _reset_all(self) -> int:
        count = len(self._channels)
        for channel in list(self._channels):
            channel.reset()
        self._reset += count
        return count

    def _halve_all(self, stays: Side) -> int:
        count = len(self._channels)
        for channel in list(self._channels):
            channel.halve(stays)
        self._halved += count
        return count

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Channel(self).near, HOST, self.port, backlog=200
        )

    async def _refuse(self) -> None:
        if self._server is not None:
            await _close(self._server)
            self._server = None
        self._reset_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.sleep(0)  # the loop tells each transport of its end

    def _seen(self) -> Seen:
        live = list(self._channels)
        return Seen(
            accepted=self._accepted,
            open=len(live),
            up=self._up + sum(channel.up.carried for channel in live),
            down=self._down + sum(channel.down.carried for channel in live),
            waiting=sum(channel.waiting for channel in live),
            reset=self._reset,
            halved=self._halved,
        )


async def _close(server: asyncio.Server) -> None:
    """Take nobody any more, and then close: who is just being accepted is a connection first.

    A closed server fails on such a one, and its socket stays open (CPython 3.11, Server._attach).
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    for _ in range(ACCEPTING):
        await asyncio.sleep(0)
    server.close()


class Proxy:
    """The gates and the thread that they live in; all are closed at the end of the `with`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self.gates: list[Gate] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for gate in self.gates:
            gate.refuse()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_S)
        self._loop.close()

    def gate(self, target_port: int, *, target_host: str = HOST, port: int = 0) -> Gate:
        """A gate that listens on `port`, or on a free one, before `target_port`."""
        made = Gate(self, (target_host, target_port), port or free_ports(1)[0])
        made.listen()
        self.gates.append(made)
        return made

    def run(self, function: Callable[[], T]) -> T:
        """Call a function on the loop and wait for what it gives."""
        done: Future[T] = Future()

        def call() -> None:
            try:
                done.set_result(function())
            except Exception as error:  # noqa: BLE001  # handed to the thread that asked
                done.set_exception(error)

        self._loop.call_soon_threadsafe(call)
        return done.result(CALL_S)

    def run_until_done(self, coroutine: Coroutine[None, None, None]) -> None:
        """Run a coroutine on the loop and wait for its end."""
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(CALL_S)


@contextmanager
def held(
    gates: Iterable[Gate], *, up: Line | None = None, down: Line | None = None
) -> Iterator[None]:
    """Gates under other conditions for a while; plain afterwards, whatever happens."""
    chosen = list(gates)
    try:
        for gate in chosen:
            gate.set(up=up, down=down)
        yield
    finally:
        for gate in chosen:
            gate.heal()
