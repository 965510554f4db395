"""One direction of one connection through the proxy: bytes in, the same bytes out, as a line would.

    source socket ─> read, at most what the window leaves ─> the line (bandwidth) ─> delay ─> sink
                          ^                                                           │
                          └────────── acknowledged after the way back's delay ────────┘

A plain line hands each read straight to the other socket. A held line reads nothing: as with lost
packets, what was sent waits in the sender's kernel, arrives after the heal, and an end or a reset
of a connection is not seen before either. Runs on the proxy's loop only (`proxy.py`).
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import sys
import termios
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK: Final = 256 << 10
"""Most bytes of one read."""

UNDER_WAY: Final = 64 << 20
"""Most bytes under way where no window is asked for, as much as any kernel would allow."""

SLICE_GAP_S: Final = 0.001
"""Between two slices: the finest that the loop's clock tells apart; each is a read of its own."""

_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: close sends RST."""


class Flow(StrEnum):
    """Whether anything gets through."""

    OPEN = "open"
    HELD = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What one direction is like, for each connection by itself; the default is a plain one.

    `delay_s`: one way. `bytes_per_s`: bandwidth. `window`: bytes that may be under way without an
    acknowledgement, which takes the delays of both ways. `slice_bytes`: hand on in such pieces, one
    a millisecond.
    """

    delay_s: float = 0.0
    bytes_per_s: float | None = None
    window: int | None = None
    slice_bytes: int | None = None
    flow: Flow = Flow.OPEN

    @property
    def is_plain(self) -> bool:
        """Whether bytes may go straight through."""
        return self == PLAIN


PLAIN: Final = Line()
BLACK_HOLE: Final = Line(flow=Flow.HELD)


class Stop(StrEnum):
    """Why nothing is read from the source."""

    UNPAIRED = "the other side is not connected yet"
    HELD = "the line is held"
    WINDOW = "the window is full"
    SINK = "the receiver takes no more"


class _Piece(NamedTuple):
    due: float
    data: bytes
    """Empty: the end of the stream."""


class Pipe:
    """One direction. `way_back_s` gives the delay of the other one."""

    def __init__(self, line: Line, way_back_s: Callable[[], float]) -> None:
        self.line = line
        self.carried = 0
        self._way_back_s = way_back_s
        self._loop = asyncio.get_running_loop()
        self._source: asyncio.Transport | None = None
        self._sink: asyncio.Transport | None = None
        self._stops = {Stop.UNPAIRED}
        self._reads = False
        self._ended = False
        self._buffer = memoryview(bytearray(CHUNK))
        self._queue: deque[_Piece] = deque()
        self._acks: deque[tuple[float, int]] = deque()
        self._under_way = 0
        self._free_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    # -- what the connection says

    def join(self, source: asyncio.Transport, sink: asyncio.Transport) -> None:
        """Both sides are there; `source` does not read yet."""
        self._source, self._sink = source, sink
        self._stops.discard(Stop.UNPAIRED)
        self.change(self.line)

    def change(self, line: Line) -> None:
        """Be another line from now on; what is under way keeps its time."""
        self.line = line
        self._mark(Stop.HELD, holds=line.flow is Flow.HELD)
        self._tick()

    def swallow(self) -> None:
        """Nobody listens any more: read on and drop."""
        self._sink = None
        self._queue.clear()
        self._settle()

    def end(self) -> None:
        """Forget everything."""
        self._ended = True
        self._queue.clear()
        self._source = self._sink = None
        if self._timer is not None:
            self._timer.cancel()

    @property
    def queued(self) -> int:
        """Bytes that were read and not yet handed on."""
        return sum(len(piece.data) for piece in self._queue)

    # -- what the loop says

    def buffer(self) -> memoryview:
        """Where the next bytes go: no more than the window leaves."""
        return self._buffer[: max(1, min(CHUNK, self._limit() - self._under_way))]

    def arrived(self, count: int) -> None:
        """So many bytes are in the buffer."""
        sink = self._sink
        if sink is None:
            return
        if self.line.is_plain and not self._queue:
            self.carried += count
            sink.write(self._buffer[:count])
            if sink.get_write_buffer_size():  # newer loops keep a view of what they did not send
                self._buffer = memoryview(bytearray(CHUNK))
            return
        data = bytes(self._buffer[:count])
        self._under_way += count
        size = self.line.slice_bytes or count
        for begin in range(0, count, size):
            self._send_later(data[begin : begin + size])
        self._tick()

    def finished(self) -> None:
        """The sender has ended its stream: so will we, after what is under way."""
        if self._sink is not None:
            self._queue.append(_Piece(self._arrival(), b""))
            self._tick()

    def sink_is_full(self) -> None:
        """The receiver takes no more for now."""
        self._mark(Stop.SINK, holds=True)

    def sink_has_room(self) -> None:
        """The receiver takes more."""
        self._mark(Stop.SINK, holds=False)

    # -- inside

    def _limit(self) -> int:
        if self.line.window is not None:
            return self.line.window
        if self.line.bytes_per_s is not None:  # no longer a queue than a router would keep
            seconds = self.line.delay_s + self._way_back_s() + 0.1
            return min(UNDER_WAY, int(self.line.bytes_per_s * seconds) + 1)
        return UNDER_WAY

    def _arrival(self) -> float:
        return max(self._loop.time(), self._free_at) + self.line.delay_s

    def _send_later(self, data: bytes) -> None:
        line = self.line
        took = 0.0 if line.bytes_per_s is None else len(data) / line.bytes_per_s
        if line.slice_bytes is not None:
            took = max(took, SLICE_GAP_S)
        self._free_at = max(self._loop.time(), self._free_at) + took
        self._queue.append(_Piece(self._free_at + line.delay_s, data))

    def _tick(self) -> None:
        """Deliver what is due, take back what is acknowledged, and set the timer anew."""
        if self._ended:
            return
        now = self._loop.time()
        if self.line.flow is Flow.OPEN:
            while self._queue and self._queue[0].due <= now:
                self._deliver(self._queue.popleft(), now)
        while self._acks and self._acks[0][0] <= now:
            self._under_way -= self._acks.popleft()[1]
        self._mark(Stop.WINDOW, holds=self._under_way >= self._limit())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = [self._acks[0][0]] if self._acks else []
        if self._queue and self.line.flow is Flow.OPEN:
            due.append(self._queue[0].due)
        if due:
            self._timer = self._loop.call_at(min(due), self._tick)

    def _deliver(self, piece: _Piece, now: float) -> None:
        if self._sink is None:
            return
        if not piece.data:
            self._sink.close()
            return
        self.carried += len(piece.data)
        self._sink.write(piece.data)
        back = self._way_back_s()
        self._acks.append((now + back, len(piece.data)))

    def _mark(self, stop: Stop, *, holds: bool) -> None:
        before = len(self._stops)
        (self._stops.add if holds else self._stops.discard)(stop)
        if len(self._stops) != before or stop is Stop.HELD:
            self._settle()

    def _settle(self) -> None:
        source = self._source
        wants = not self._stops or (self._sink is None and Stop.UNPAIRED not in self._stops)
        if source is None or wants == self._reads or source.is_closing():
            return
        self._reads = wants
        (source.resume_reading if wants else source.pause_reading)()


class End(asyncio.BufferedProtocol):
    """A socket of the proxy: `out` takes what it reads, `into` is what writes to it."""

    def __init__(self, joined: Callable[[End], None], gone: Callable[[End], None]) -> None:
        self._joined, self._gone = joined, gone
        self.transport: asyncio.Transport | None = None
        self.out: Pipe | None = None
        self.into: Pipe | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop, which reads from then on, also what is paused by now on some Pythons
        (3.11.2): a turn later it does as it is told.
        """
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=CHUNK)
        asyncio.get_running_loop().call_soon(self._begin, self.transport)

    def _begin(self, transport: asyncio.Transport) -> None:
        transport.pause_reading()
        self._joined(self)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Called by the loop: where the next bytes go."""
        return self.out.buffer() if self.out is not None else memoryview(bytearray(1))

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the loop: so many bytes came."""
        if self.out is not None:
            self.out.arrived(nbytes)

    def eof_received(self) -> bool:
        """Called by the loop: the peer sends no more; it may still receive."""
        if self.out is not None:
            self.out.finished()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        if self.out is not None:
            self.out.finished()
        self._gone(self)

    def pause_writing(self) -> None:
        """Called by the loop."""
        if self.into is not None:
            self.into.sink_is_full()

    def resume_writing(self) -> None:
        """Called by the loop."""
        if self.into is not None:
            self.into.sink_has_room()

    @property
    def unread(self) -> int:
        """Bytes that the peer has sent and that nobody has read: they wait in the kernel."""
        if self.transport is None or self.transport.is_closing():
            return 0
        raw = cast("socket.socket", self.transport.get_extra_info("socket"))
        answer = fcntl.ioctl(raw.fileno(), termios.FIONREAD, b"\0" * 4)
        return int.from_bytes(answer, sys.byteorder)

    def reset(self) -> None:
        """Close with RST, as a firewall or a crashed machine that is back would."""
        if self.transport is not None and not self.transport.is_closing():
            raw = cast("socket.socket", self.transport.get_extra_info("socket"))
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.transport.abort()
