"""One TCP connection to a broker: frames in, frames out, answers in order.

Knows sizes, correlation ids and deadlines; nothing of what a request means. Receive buffers are
ours: small answers are cut from one scratch buffer, a big one is read straight into a bytearray
of its own, which the caller keeps. Request parts are handed to the transport as they are.
A broker answers in the order of the requests (one connection is one queue), so one request
without an answer at its deadline is the end of the connection: everything behind it is late too.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from mirrorfleet.core.errors import ConnectionLostError, DeadlineError, MirrorfleetError
from mirrorfleet.core.primitives import legacy_string, skip_tags

Part = bytes | bytearray | memoryview
Frame = bytes | bytearray
"""An answer from its correlation id on; `body_start` says where its body begins."""

_SIZE: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">ihhi")
_SCRATCH_BYTES: Final = 64 << 10
_BIG_FRAME: Final = _SCRATCH_BYTES // 2
_MAX_FRAME: Final = 300 << 20
"""No answer is that large; and a TLS alert read as a size (0x1503xxxx) is larger."""
_WRITE_HIGH_WATER: Final = 4 << 20


class _Waiting(NamedTuple):
    correlation: int
    answer: asyncio.Future[Frame]
    deadline: float
    what: str


class Traffic(NamedTuple):
    """Bytes and requests since the connection was opened."""

    bytes_in: int
    bytes_out: int
    requests: int


class Connection(asyncio.BufferedProtocol):
    """Requests are written at once and may be many in flight; answers come in their order."""

    def __init__(self, peer: str, client_id: str) -> None:
        """`peer` is what messages call the broker: "host:port"."""
        self.peer = peer
        self.session_expires: float | None = None
        """Loop time at which the broker ends our SASL session (KIP-368); None: never."""
        self._loop = asyncio.get_running_loop()
        self._client = legacy_string(client_id)
        self._transport: asyncio.Transport | None = None
        self._failure: MirrorfleetError | None = None
        self._waiting: deque[_Waiting] = deque()
        self._correlation = 0
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._scratch_view = memoryview(self._scratch)
        self._have = 0
        self._frame: bytearray | None = None
        self._frame_view = self._scratch_view
        self._got = 0
        self._drained: asyncio.Future[None] | None = None
        self._muted_until = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._closed = self._loop.create_future()
        self._bytes_in = self._bytes_out = self._requests = 0

    # -- what callers use ---------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether requests are refused from now on."""
        return self._failure is not None or self._transport is None

    @property
    def in_flight(self) -> int:
        """Requests without an answer."""
        return len(self._waiting)

    @property
    def congested(self) -> bool:
        """Whether the write buffer is over its mark; wait for `ready` before sending more."""
        return self._drained is not None

    @property
    def traffic(self) -> Traffic:
        """What went through so far."""
        return Traffic(self._bytes_in, self._bytes_out, self._requests)

    def request(
        self,
        api_key: int,
        version: int,
        parts: Sequence[Part],
        *,
        flexible: bool,
        deadline_s: float,
    ) -> asyncio.Future[Frame]:
        """Write a request now; the future is its answer.

        Raises: ConnectionLostError when the connection is closed already. The future raises
        ConnectionLostError (ended before the answer) or DeadlineError (no answer in
        `deadline_s`); both leave the outcome unknown.
        """
        if self._transport is None or self._failure is not None:
            raise ConnectionLostError(f"connection to {self.peer} is closed.")
        self._correlation = correlation = (self._correlation + 1) & 0x7FFFFFFF
        tail = self._client + b"\0" if flexible else self._client
        size = 8 + len(tail) + sum(map(len, parts))
        answer: asyncio.Future[Frame] = self._loop.create_future()
        deadline = self._loop.time() + deadline_s
        self._waiting.append(_Waiting(correlation, answer, deadline, f"API {api_key} v{version}"))
        self._arm(deadline)
        head = _HEAD.pack(size, api_key, version, correlation) + tail
        if parts:
            self._transport.writelines((head, *parts))
        else:
            self._transport.write(head)
        self._bytes_out += size + 4
        self._requests += 1
        return answer

    async def ready(self) -> None:
        """Wait until the broker's throttle time is over and the write buffer is below its mark.

        Raises: ConnectionLostError, DeadlineError when the connection ends meanwhile.
        """
        wait = self._muted_until - self._loop.time()
        if wait > 0:
            await asyncio.sleep(wait)
        if self._drained is not None:
            await asyncio.shield(self._drained)
        if self._failure is not None:
            raise self._failure

    def throttle(self, throttle_ms: int) -> None:
        """Send nothing for `throttle_ms`: the broker's quota says so (KIP-219)."""
        if throttle_ms > 0:
            until = self._loop.time() + throttle_ms / 1000
            self._muted_until = max(self._muted_until, until)

    def close(self, reason: MirrorfleetError | None = None) -> None:
        """End the connection now; requests without an answer raise `reason`."""
        self._fail(reason or ConnectionLostError(f"connection to {self.peer} was closed by us."))

    async def wait_closed(self) -> None:
        """Wait until the transport is gone."""
        if self._transport is not None:
            await asyncio.shield(self._closed)

    # -- asyncio's side: the connection ------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_WATER)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        reason = f": {exc}" if exc is not None else " by the broker"
        self._fail(ConnectionLostError(f"connection to {self.peer} was closed{reason}."))
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        """Called by the loop when the write buffer is over its mark."""
        if self._drained is None:
            self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        """Called by the loop when the write buffer is below its mark again."""
        self._release_writers()

    # -- asyncio's side: bytes -----------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """Called by the loop: where the next bytes go."""
        if self._frame is not None:
            return self._frame_view[self._got :]
        return self._scratch_view[self._have :]

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the loop: so many bytes came."""
        self._bytes_in += nbytes
        if self._frame is None:
            self._have += nbytes
            self._cut_frames()
            return
        self._got += nbytes
        if self._got == len(self._frame):
            frame, self._frame = self._frame, None
            self._frame_view = self._scratch_view
            self._deliver(frame)

    def _cut_frames(self) -> None:
        """Deliver the complete frames of the scratch buffer; keep the tail, or move it out."""
        position, have, scratch = 0, self._have, self._scratch
        while have - position >= 4:
            (size,) = _SIZE.unpack_from(scratch, position)
            body = position + 4
            if not 4 <= size <= _MAX_FRAME:
                self._fail(_nonsense(self.peer, scratch[position:have]))
                return
            if have - body >= size:
                self._deliver(bytes(self._scratch_view[body : body + size]))
                position = body + size
            elif size > _BIG_FRAME:
                self._start_big_frame(size, body, have)
                return
            else:
                break
        if position:
            rest = have - position
            scratch[:rest] = scratch[position:have]
            self._have = rest

    def _start_big_frame(self, size: int, body: int, have: int) -> None:
        self._frame = bytearray(size)
        self._frame_view = memoryview(self._frame)
        self._got = have - body
        self._frame_view[: self._got] = self._scratch_view[body:have]
        self._have = 0

    def _deliver(self, frame: Frame) -> None:
        if not self._waiting:
            self._fail(ConnectionLostError(f"{self.peer} sent an answer that nobody asked for."))
            return
        waiting = self._waiting.popleft()
        if _SIZE.unpack_from(frame)[0] != waiting.correlation:
            self._waiting.appendleft(waiting)
            self._fail(ConnectionLostError(f"{self.peer} answered out of order."))
        elif not waiting.answer.done():
            waiting.answer.set_result(frame)

    # -- ends ------------------------------------------------------------------------------------

    def _arm(self, deadline: float) -> None:
        """Have the timer fire no later than `deadline`; one timer for all requests."""
        if self._watch is not None:
            if self._watch.when() <= deadline:
                return
            self._watch.cancel()
        self._watch = self._loop.call_at(deadline, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._watch = None
        if not self._waiting:
            return
        late = min(self._waiting, key=lambda waiting: waiting.deadline)
        if late.deadline > self._loop.time():
            self._arm(late.deadline)
            return
        self._fail(
            DeadlineError(
                f"no answer from {self.peer} to {late.what} in time"
                f" ({len(self._waiting)} requests were waiting)."
            )
        )

    def _fail(self, reason: MirrorfleetError) -> None:
        """Refuse requests from now on, and end those that wait."""
        if self._failure is None:
            self._failure = reason
        waiting, self._waiting = self._waiting, deque()
        for item in waiting:
            if not item.answer.done():
                item.answer.set_exception(self._failure)
                item.answer.exception()  # a caller that gave up must not cause a log line
        self._release_writers()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._transport is not None and not self._transport.is_closing():
            self._transport.abort()

    def _release_writers(self) -> None:
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None


def body_start(frame: Frame, *, flexible: bool) -> int:
    """Where the body of an answer begins: after the correlation id, and tags if flexible."""
    return skip_tags(frame, 4) if flexible else 4


def _nonsense(peer: str, first: bytes | bytearray) -> ConnectionLostError:
    """What to say when the first bytes of a frame are no size."""
    if first[:1] == b"\x15" and first[1:2] == b"\x03":
        return ConnectionLostError(
            f"{peer} speaks TLS and we do not.",
            hint="Set security.protocol to SSL or SASL_SSL, or use the plaintext listener's port.",
        )
    return ConnectionLostError(
        f"{peer} sent bytes that are not Kafka's: {bytes(first[:8])!r}.",
        hint="Check that the port is a broker's listener.",
    )
