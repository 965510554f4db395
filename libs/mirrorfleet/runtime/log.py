"""Log lines as JSON, with a fixed dictionary of keys; the message says what, the keys say which.

Contents of records are never logged. Secrets that the estate holds are struck from every line,
whatever put them there. Lines written while a trace is current carry its ids. aiokafka says tens of
times a second that a broker is away: that is written now and then, with how often it was said.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple, TextIO, TypedDict, Unpack

_STRUCK: Final = "***"
_SHORTEST_SECRET: Final = 4
"""Striking shorter values would blank ordinary words and help nobody."""

SELDOM_S: Final = 10.0
"""Between two equal lines of a logger that repeats itself."""
_REPEATS: Final = "aiokafka"


class TraceIds(NamedTuple):
    """A trace and the span of it that is at work."""

    trace_id: int
    span_id: int


_current: Final[ContextVar[TraceIds | None]] = ContextVar("current trace", default=None)


@contextmanager
def tracing(ids: TraceIds) -> Iterator[None]:
    """Inside, log lines of this task carry the ids, as `trace_id` and `span_id` in hex."""
    token = _current.set(ids)
    try:
        yield
    finally:
        _current.reset(token)


class Fields(TypedDict, total=False):
    """The log dictionary."""

    link: str
    source: str
    target: str
    topic: str
    partition: int
    offset: int
    slot: int
    generation: int
    error: str
    fleet: str
    service: str
    count: int
    seconds: float
    url: str
    state: str
    traceback: str


_KEYS: Final = tuple(Fields.__annotations__)


def logger(name: str) -> logging.Logger:
    """A logger; give it `extra=fields(...)`."""
    return logging.getLogger(name)


def fields(**named: Unpack[Fields]) -> dict[str, object]:
    """`extra` for a log call, from the dictionary's keys only."""
    return dict(named)


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, then the dictionary's keys."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._secrets: tuple[str, ...] = ()
        self.also_strike(secrets)

    def also_strike(self, secrets: Iterable[str]) -> None:
        """Strike these, too."""
        forms = {form for each in secrets for form in _forms(each)}
        long_enough = {each for each in forms if len(each) >= _SHORTEST_SECRET}
        self._secrets = tuple(sorted({*self._secrets, *long_enough}, key=len, reverse=True))

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line: dict[str, object] = {
            "time_ms": int(record.created * 1000),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._strike(record.getMessage()),
        }
        for key in _KEYS:
            value = getattr(record, key, None)
            if value is not None:
                line[key] = self._strike(value) if isinstance(value, str) else value
        trace = _current.get()
        if trace is not None:
            line["trace_id"] = f"{trace.trace_id:032x}"
            line["span_id"] = f"{trace.span_id:016x}"
        if record.exc_info and record.exc_info[0] is not None:
            line["traceback"] = self._strike(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False, default=str)

    def _strike(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _STRUCK)
        return text


class Seldom(logging.Filter):
    """Lets an equal line of aiokafka pass once in `SELDOM_S`, with how many were left out since."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[tuple[str, str], float] = {}
        self._left_out: Counter[tuple[str, str]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write it; what was left out of lines that came to an end is forgotten."""
        if record.name.partition(".")[0] != _REPEATS:
            return True
        line, now = (record.name, record.getMessage()), record.created
        if 0 <= now - self._passed.get(line, -math.inf) < SELDOM_S:  # clocks are set back
            self._left_out[line] += 1
            return False
        if count := self._left_out.pop(line, 0):
            record.msg, record.args = "%s (and %d times more)", (line[1], count)
        recent = {each: at for each, at in self._passed.items() if now - at < 2 * SELDOM_S}
        self._passed = {**recent, line: now}
        self._left_out = Counter({each: self._left_out[each] for each in recent})
        return True


def _forms(secret: str) -> Iterator[str]:
    """How a text may show it: as it is, without its outer spaces, and both as `repr` does."""
    for form in (secret, secret.strip()):
        yield form
        yield repr(form)[1:-1]


def configure(
    *, level: str = "INFO", secrets: Iterable[str] = (), stream: TextIO | None = None
) -> None:
    """Send every log line of this process to `stream` (standard error by default) as JSON."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(secrets))
    handler.addFilter(Seldom())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("aiokafka", "kafka", "uvicorn.access", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def also_strike(secrets: Iterable[str]) -> None:
    """Strike further secrets, which are known only after `configure`."""
    found = tuple(secrets)
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, JsonLines):
            handler.formatter.also_strike(found)
