"""One TCP connection to a broker: frames in, frames out, answers in order.

Knows correlation ids and deadlines; nothing of what a request means. Bytes are received into
buffers of ours (`frames`); request parts are handed to the transport as they are.
A broker answers in the order of the requests (one connection is one queue), so one request
without an answer at its deadline is the end of the connection: everything behind it is late too.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeVar, cast

from mirrorfleet.core.errors import (
    ConnectionLostError,
    DeadlineError,
    MirrorfleetError,
    NoMemoryError,
)
from mirrorfleet.core.primitives import legacy_string, skip_tags
from mirrorfleet.kafka.frames import Frame, FrameReader, NotAFrameError, unread
from mirrorfleet.kafka.low_water import RECORD, LowWater
from mirrorfleet.kafka.tls import explain_alert
from mirrorfleet.kafka.versions import ApiVersions, api_name

Part = bytes | bytearray | memoryview
T = TypeVar("T")
Reader = Callable[[Frame, int], T]
"""Reads the body of an answer, which begins at a position of its frame."""

API_VERSIONS: Final = 18
"""Its answer never has a flexible header, so that any client can read it (KIP-511)."""

_SIZE: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">ihhi")
_WRITE_HIGH_WATER: Final = 4 << 20
_COMING_S: Final = 5.0
"""An answer that is late may still be coming in: as long as bytes of it come in that time."""
_LOOK_S: Final = 0.1  # for the loop to tell of bytes that were below the low-water mark
_FIRST_REQUESTS: Final = 2
_MAYBE_SECURED: Final = "If its listener wants TLS, a certificate or SASL, check `security`."


class _Waiting(NamedTuple):
    correlation: int
    answer: asyncio.Future[object]
    read: Reader[object]
    flexible: bool
    plain_answer: bool
    """Whether the answer has the old header: ApiVersions only, so that any client can read it."""
    deadline: float
    api_key: int
    version: int

    @property
    def what(self) -> str:
        """What the request is called in messages."""
        return f"{api_name(self.api_key)} v{self.version}"


class _Held(NamedTuple):
    api_key: int
    version: int
    parts: Sequence[Part]
    waiting: _Waiting


class Renewal(NamedTuple):
    """When to authenticate again (loop time), and how; `run` gives the next renewal."""

    due: float
    run: Callable[[Connection], Awaitable[Renewal | None]]


class Connection(asyncio.BufferedProtocol):
    """Requests are written at once and may be many in flight; answers come in their order."""

    def __init__(self, peer: str, client_id: str) -> None:
        """`peer` is what messages call the broker: "host:port"."""
        self.peer = peer
        self.versions: ApiVersions | None = None
        """What the broker speaks; None until negotiated."""
        self.rtt_s = 0.0
        """How long the quickest answer took, of those that were timed: an upper bound; 0 before."""
        self.renewal: Renewal | None = None
        """How and when to authenticate again (KIP-368); None: never."""
        self._loop = asyncio.get_running_loop()
        self._client = legacy_string(client_id)
        self._transport: asyncio.Transport | None = None
        self._failure: MirrorfleetError | None = None
        self._waiting: deque[_Waiting] = deque()
        self._correlation = 0
        self._frames, self._low_water = FrameReader(), LowWater()
        self._drained: asyncio.Future[None] | None = None
        self._muted_until = 0.0
        self._watch: asyncio.Handle | None = None
        self._watch_at = 0.0  # uvloop's handle of a moment that has passed cannot tell it
        self._held: list[_Held] | None = None
        self._renewing = asyncio.Lock()
        self._closed = self._loop.create_future()
        self._bytes_in = self._bytes_seen = self._requests = 0

    # -- what callers use ------------------------------------------------------------------

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
    def must_wait(self) -> bool:
        """Whether `ready` has anything to wait for; False is the quick way past it."""
        return (
            self._drained is not None
            or self._failure is not None
            or self._muted_until > self._loop.time()
            or (self.renewal is not None and self.renewal.due <= self._loop.time())
        )

    @property
    def muted_s(self) -> float:
        """For how long the broker's quota wants silence; no time-out counts meanwhile."""
        return max(self._muted_until - self._loop.time(), 0.0)

    def request(
        self,
        api_key: int,
        version: int,
        parts: Sequence[Part],
        read: Reader[T],
        *,
        flexible: bool,
        deadline_s: float,
    ) -> asyncio.Future[T]:
        """Write a request now (after a running re-authentication); the future is what `read` gives.

        Raises: ConnectionLostError when it is closed already. The future raises ConnectionLostError
        (ended, or an answer that `read` refuses) or DeadlineError (no answer in `deadline_s`, and
        none coming in); both leave the outcome unknown.
        """
        waiting, answer = self._expect(
            api_key, version, read, flexible=flexible, deadline_s=deadline_s
        )
        if self._held is not None:
            self._held.append(_Held(api_key, version, parts, waiting))
        else:
            self._write(api_key, version, parts, waiting)
        return answer

    def request_ahead(
        self,
        api_key: int,
        version: int,
        parts: Sequence[Part],
        read: Reader[T],
        *,
        flexible: bool,
        deadline_s: float,
    ) -> asyncio.Future[T]:
        """Like `request`, but not held back by a running re-authentication: for its own steps."""
        waiting, answer = self._expect(
            api_key, version, read, flexible=flexible, deadline_s=deadline_s
        )
        self._write(api_key, version, parts, waiting)
        return answer

    def _expect(
        self, api_key: int, version: int, read: Reader[T], *, flexible: bool, deadline_s: float
    ) -> tuple[_Waiting, asyncio.Future[T]]:
        if self._failure is not None:
            raise self._failure.with_traceback(None)  # not those of all who asked before
        self._correlation = correlation = (self._correlation + 1) & 0x7FFFFFFF
        answer: asyncio.Future[T] = self._loop.create_future()
        deadline = self._loop.time() + self.muted_s + deadline_s
        waiting = _Waiting(
            correlation,
            cast("asyncio.Future[object]", answer),
            read,
            flexible,
            api_key == API_VERSIONS,
            deadline,
            api_key,
            version,
        )
        return waiting, answer

    def _write(self, api_key: int, version: int, parts: Sequence[Part], waiting: _Waiting) -> None:
        if self._transport is None:
            raise ConnectionLostError(f"connection to {self.peer} is not open.")
        tail = self._client + b"\0" if waiting.flexible else self._client
        size = 8 + len(tail) + sum(map(len, parts))
        self._waiting.append(waiting)
        self._arm(waiting.deadline)
        head = _HEAD.pack(size, api_key, version, waiting.correlation) + tail
        try:
            self._transport.writelines((head, *parts))
        except MemoryError:  # a part of it may be written
            self._fail(NoMemoryError(f"a request to {self.peer}"))
        self._requests += 1

    async def ready(self) -> None:
        """Wait until a request may be sent: throttle time over, write buffer below its mark, and
        authenticated again when that is due.

        Raises: ConnectionLostError, DeadlineError, AuthenticationError when the connection ends.
        """
        if (wait := self.muted_s) > 0:
            await asyncio.sleep(wait)
        if self._drained is not None:
            await asyncio.shield(self._drained)
        if self.renewal is not None and self.renewal.due <= self._loop.time():
            await self._renew()
        if self._failure is not None:
            raise self._failure.with_traceback(None)

    async def _renew(self) -> None:
        """Authenticate again; requests made meanwhile wait, because the broker allows nothing
        else between the steps (KIP-368).
        """
        async with self._renewing:
            renewal = self.renewal
            if renewal is None or renewal.due > self._loop.time():
                return
            self._held = []
            before = self._requests
            try:
                self.renewal = await renewal.run(self)
            except MirrorfleetError as error:
                self._fail(error)
                raise
            except BaseException:
                if self._requests != before:  # half-way: the broker takes only the next step
                    self._fail(ConnectionLostError(f"{self.peer}: re-authentication was given up."))
                raise
            finally:
                held, self._held = self._held, None
                if self._failure is None:
                    for item in held:
                        self._write(item.api_key, item.version, item.parts, item.waiting)

    def throttle(self, throttle_ms: int) -> None:
        """Send nothing for `throttle_ms`: the broker's quota says so (KIP-219)."""
        if throttle_ms > 0:
            before_s, until = self.muted_s, self._loop.time() + throttle_ms / 1000
            self._muted_until = max(self._muted_until, until)
            more_s = self.muted_s - before_s  # the broker reads nothing meanwhile: not its fault
            late = (each._replace(deadline=each.deadline + more_s) for each in self._waiting)
            self._waiting = deque(late)

    def close(self, reason: MirrorfleetError | None = None) -> None:
        """End the connection now; requests without an answer raise `reason`."""
        self._fail(reason or ConnectionLostError(f"connection to {self.peer} was closed by us."))

    async def wait_closed(self) -> None:
        """Wait until the transport is gone."""
        if self._transport is not None:
            await asyncio.shield(self._closed)

    # -- asyncio's side: the connection ----------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_WATER)
        within = 0 if transport.get_extra_info("sslcontext") is None else RECORD
        self._low_water = LowWater(transport.get_extra_info("socket"), within=within)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        if isinstance(exc, ssl.SSLError):
            self._fail(explain_alert(self.peer, exc))
        else:
            reason = f": {exc}" if exc is not None else " by the broker"
            hint = _MAYBE_SECURED if self._requests <= _FIRST_REQUESTS else ""
            self._fail(
                ConnectionLostError(f"connection to {self.peer} was closed{reason}.", hint=hint)
            )
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        """Called by the loop when the write buffer is over its mark."""
        if self._drained is None:
            self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        """Called by the loop when the write buffer is below its mark again."""
        self._release_writers()

    # -- asyncio's side: bytes -------------------------------------------------------------

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Called by the loop: where the next bytes go."""
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the loop: so many bytes came."""
        self._bytes_in += nbytes
        try:
            frames = self._frames.received(nbytes)
        except NotAFrameError as error:
            self._fail(error.explained(self.peer))
        except MemoryError:
            self._fail(NoMemoryError(f"an answer of {self.peer}"))
        else:
            self._low_water.want(self._frames.missing, self.rtt_s)
            for frame in frames:
                self._deliver(frame)

    def _deliver(self, frame: Frame) -> None:
        if not self._waiting:
            self._fail(ConnectionLostError(f"{self.peer} sent an answer that nobody asked for."))
            return
        waiting = self._waiting.popleft()
        if _SIZE.unpack_from(frame)[0] != waiting.correlation:
            self._waiting.appendleft(waiting)
            self._fail(ConnectionLostError(f"{self.peer} answered out of order."))
        elif not waiting.answer.done():
            self._read(waiting, frame)

    def _read(self, waiting: _Waiting, frame: Frame) -> None:
        try:
            start = skip_tags(frame, 4) if waiting.flexible and not waiting.plain_answer else 4
            result = waiting.read(frame, start)
        except Exception as error:  # noqa: BLE001 - whatever it is, also no memory: who asked hears
            self._waiting.appendleft(waiting)
            self._fail(unread(self.peer, waiting.what, error))
        else:
            waiting.answer.set_result(result)

    # -- ends ------------------------------------------------------------------------------

    def _arm(self, deadline: float) -> None:
        """Have the timer fire no later than `deadline`; one timer for all requests."""
        if self._watch is not None:
            if self._watch_at <= deadline:
                return
            self._watch.cancel()
        self._watch_at = deadline
        self._watch = self._loop.call_at(deadline, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._watch = None
        if not self._waiting:
            return
        late = min(self._waiting, key=lambda waiting: waiting.deadline)
        if late.deadline > self._loop.time():
            self._arm(late.deadline)
            return
        if self._low_water.lower():  # what has come may not have been told
            self._arm(self._loop.time() + _LOOK_S)
            return
        if self._frames.begun and self._bytes_in != self._bytes_seen:
            self._bytes_seen = self._bytes_in
            self._arm(self._loop.time() + _COMING_S)
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
        waiting.extend(item.waiting for item in self._held or ())
        for item in waiting:
            if not item.answer.done():
                item.answer.set_exception(self._failure)
                item.answer.exception()  # a caller that gave up must not cause a log line
        self._release_writers()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._transport is not None:
            self._transport.abort()  # also one that waits for ever to send what is left

    def _release_writers(self) -> None:
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
