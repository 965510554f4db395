"""The life of a service: its states as types, and `supervise`, which runs it to its end.

    Starting ──> Serving ──> Draining(deadline) ──> Stopped
        │           │               │
        └───────────┴───────────────┴────────────> Failed(cause)

A signal sets `Stop`. From then the service has one deadline for the whole drain; at the deadline,
or at a second signal, it is cancelled. Nothing here knows what a service does.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.runtime.deadline import Deadline
from mirrorfleet.runtime.log import fields, logger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from mirrorfleet.core.ports import Clock

T = TypeVar("T")

EXIT_OK: Final = 0
EXIT_ERROR: Final = 1

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Starting:
    """Configured, nothing connected."""


@dataclass(frozen=True, slots=True)
class Serving:
    """`serve` runs. Whether it does its job well is `Health`'s matter."""


@dataclass(frozen=True, slots=True)
class Draining:
    """Asked to stop; `deadline` is a monotonic time."""

    deadline: float


@dataclass(frozen=True, slots=True)
class Stopped:
    """Ended by itself or drained in time."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Ended by an error, or cancelled at the drain deadline."""

    cause: str


State = Starting | Serving | Draining | Stopped | Failed

_MOVES: Final[Mapping[type[State], frozenset[type[State]]]] = {
    Starting: frozenset({Serving, Stopped, Failed}),
    Serving: frozenset({Draining, Stopped, Failed}),
    Draining: frozenset({Stopped, Failed}),
    Stopped: frozenset(),
    Failed: frozenset(),
}


class Lifecycle:
    """The state that a service is in; an illegal move raises."""

    def __init__(self) -> None:
        self.state: State = Starting()

    def move(self, state: State) -> None:
        """Go to `state`.

        Raises:
            ValueError: the drawing above has no such arrow.
        """
        if type(state) not in _MOVES[type(self.state)]:
            raise ValueError(f"no way from {self.state} to {state}")
        self.state = state

    @property
    def name(self) -> str:
        """Lower-case name of the state, for metrics and `/status`."""
        return type(self.state).__name__.lower()


class Stop(asyncio.Event):
    """Set once, when the service must end; carries the drain deadline from that moment on."""

    def __init__(self, clock: Clock, drain_s: float) -> None:
        super().__init__()
        self._clock = clock
        self._drain_s = drain_s
        self._heard: list[Callable[[], None]] = []
        self.deadline: Deadline | None = None

    def set(self) -> None:
        """Ask for the end; only the first call starts the drain deadline."""
        if self.deadline is None:
            self.deadline = Deadline(self._clock, self._drain_s)
        super().set()
        for listener in self._heard:
            listener()

    def on_set(self, listener: Callable[[], None]) -> None:
        """Call `listener` at every `set`."""
        self._heard.append(listener)

    def remaining(self) -> float:
        """Seconds left to drain; the whole drain time while nobody asked to stop."""
        return self._drain_s if self.deadline is None else self.deadline.remaining()

    async def wait_at_most(self, seconds: float) -> bool:
        """Pause for `seconds` unless the stop comes first; whether it came."""
        try:
            async with asyncio.timeout(seconds):
                await self.wait()
        except TimeoutError:
            return self.is_set()
        return True

    async def unless(self, work: Coroutine[None, None, T]) -> T | None:
        """Do `work`, or give it up when the stop comes: None then. Raises: as `work`."""
        async with asyncio.TaskGroup() as group:
            doing = group.create_task(_outcome(work), name="work")
            stopped = group.create_task(self.wait(), name="stop")
            await asyncio.wait((doing, stopped), return_when=asyncio.FIRST_COMPLETED)
            doing.cancel()
            stopped.cancel()
        found = None if doing.cancelled() else doing.result()
        if isinstance(found, MirrorfleetError):
            raise found
        return found


async def _outcome(work: Coroutine[None, None, T]) -> T | MirrorfleetError:
    """An error of ours as a value: a group of tasks would wrap it."""
    try:
        return await work
    except MirrorfleetError as error:
        return error


class Service(Protocol):
    """What a program is, seen from outside."""

    async def serve(self, stop: Stop) -> None:
        """Work until `stop` is set, then drain within `stop.remaining()` and return."""
        ...

    def status(self) -> Mapping[str, object]:
        """What `/status` shows: JSON-ready, cheap, no await."""
        ...


async def supervise(
    service: Service,
    *,
    drain_s: float,
    clock: Clock,
    lifecycle: Lifecycle | None = None,
    stop: Stop | None = None,
) -> int:
    """Run `service` until it ends, a signal comes, or it fails; the exit code.

    An error of ours is logged as its message, anything else with its traceback.
    """
    life = lifecycle or Lifecycle()
    stop = stop or Stop(clock, drain_s)
    with _signals(stop):
        life.move(Serving())
        try:
            await _run(service, stop, life)
        except _DrainOverrunError:
            return _failed(life, f"not drained within {drain_s:g} s; cancelled")
        except Exception as error:  # noqa: BLE001 - reported, then exit 1
            _report(error)
            return _failed(life, describe(error))
    life.move(Stopped())
    return EXIT_OK


def describe(error: BaseException) -> str:
    """One line for an error; a group becomes its distinct members' lines."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(describe(each) for each in error.exceptions))
    if isinstance(error, MirrorfleetError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def is_ours(error: BaseException) -> bool:
    """Whether every leaf of `error` is in our tree: then its message is enough."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_ours(each) for each in error.exceptions)
    return isinstance(error, MirrorfleetError)


class _DrainOverrunError(Exception):
    """The drain deadline passed with the service still running."""


async def _run(service: Service, stop: Stop, life: Lifecycle) -> None:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as limit:

            def _start_drain() -> None:
                if limit.expired():
                    return
                if isinstance(life.state, Draining):
                    limit.reschedule(loop.time())  # asked twice: now
                elif isinstance(life.state, Serving):
                    limit.reschedule(loop.time() + stop.remaining())
                    life.move(Draining(loop.time() + stop.remaining()))

            stop.on_set(_start_drain)
            if stop.is_set():
                _start_drain()
            await service.serve(stop)
    except TimeoutError:
        if limit.expired():
            raise _DrainOverrunError from None
        raise


@contextmanager
def _signals(stop: Stop) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    caught = (signal.SIGTERM, signal.SIGINT)
    for number in caught:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in caught:
            loop.remove_signal_handler(number)


def _failed(life: Lifecycle, cause: str) -> int:
    _log.error("service failed", extra=fields(error=cause))
    life.move(Failed(cause))
    return EXIT_ERROR


def _report(error: Exception) -> None:
    if not is_ours(error):
        _log.error("unexpected error", exc_info=error)
