"""A span as data, made afterwards from stamps; and the thread that hands spans to a sender.

The event loop never waits: `offer` puts spans into a bounded queue, or counts them as dropped.
What the sender does with them (network, retries) happens in the thread. One line is logged when
deliveries begin to fail and one when they succeed again; the counters say the rest.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mirrorfleet.runtime.log import fields, logger

if TYPE_CHECKING:
    from mirrorfleet.runtime.metric_names import Span

MOST_WAITING: Final = 2_048
"""Spans that wait for the sender: some minutes at the usual rate, a megabyte or two."""
AT_ONCE: Final = 512
GATHER_S: Final = 1.0
"""Spans of so long go out together."""

Value = str | int | float | bool
_log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecord:
    """A finished span. Times are nanoseconds since 1970; no `parent_id`: it begins its trace."""

    kind: Span
    subject: str
    trace_id: int
    span_id: int
    parent_id: int | None
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value] = field(default_factory=dict)
    events: tuple[tuple[str, int], ...] = ()
    """(name, nanoseconds since 1970)."""
    error: str = ""
    """A word from a fixed list when what the span stands for failed."""


class SendError(Exception):
    """Raised by a sender when spans were not delivered; says why."""


Send = Callable[[Sequence[SpanRecord]], None]


class SpanQueue:
    """Spans on their way out."""

    def __init__(self, send: Send, where: str) -> None:
        self._send = send
        self._where = where
        self._waiting: deque[SpanRecord] = deque()
        self._news = threading.Event()
        self._closing = threading.Event()
        self._failing = False
        self._counts = {"delivered": 0, "failed": 0, "dropped": 0}
        # A daemon: a collector that hangs must not hold the process.
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    def offer(self, spans: Sequence[SpanRecord]) -> None:
        """Take all of them, or none when the queue is full."""
        if len(self._waiting) + len(spans) > MOST_WAITING:
            self._counts["dropped"] += len(spans)
            return
        self._waiting.extend(spans)
        self._news.set()

    def outcomes(self) -> Iterator[tuple[tuple[str, ...], float]]:
        """How many spans were delivered, failed, dropped; for a metric."""
        for word, count in list(self._counts.items()):
            yield (word,), float(count)

    def close(self, seconds: float) -> None:
        """Deliver what waits, for at most `seconds`; blocks. What is left then is dropped."""
        self._closing.set()
        self._news.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        while True:
            self._news.wait()
            self._closing.wait(GATHER_S)
            self._news.clear()
            while self._waiting:
                self._deliver([self._waiting.popleft() for _ in range(self._next_size())])
            if self._closing.is_set():
                return

    def _next_size(self) -> int:
        return min(AT_ONCE, len(self._waiting))

    def _deliver(self, spans: list[SpanRecord]) -> None:
        try:
            self._send(spans)
        except SendError as error:
            self._counts["failed"] += len(spans)
            if not self._failing:
                self._failing = True
                text = f"{self._where}: {error}"
                _log.warning("traces are not delivered", extra=fields(error=text))
            return
        self._counts["delivered"] += len(spans)
        if self._failing:
            self._failing = False
            _log.info("traces are delivered again")
