"""`doctor`: what limits each slot of some workers now, by what they say of it at `/status`."""

from __future__ import annotations

import json
from http.client import HTTPException
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

from pydantic import BaseModel, ValidationError

from mirrorfleet.copying.limits import Limit
from mirrorfleet.core.errors import ConfigError, MirrorfleetError
from mirrorfleet.operating.several import ask_each
from mirrorfleet.operating.terminal import EXIT_ERROR, EXIT_OK, Output, show

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DEADLINE_S: Final = 5.0
_COLUMNS: Final = ("worker", "link", "slot", "state", "lag_records", "limit", "why")
_DIRECT: Final = build_opener(ProxyHandler({}))
"""A proxy for the internet knows no workers; Python's would ask it even for 127.0.0.1."""


class SlotStatus(BaseModel):
    """A slot in the answer of a worker."""

    link: str
    slot: int
    state: str
    lag_records: int
    lag_unknown: int = 0
    """Partitions of which it is not known; a worker of an earlier build does not tell."""
    limit: str
    why: str


class WorkerStatus(BaseModel):
    """The answer of a worker, as far as it is of use here."""

    owner: str
    slots: list[SlotStatus]


class NoAnswerError(MirrorfleetError):
    """Raised when an address gives no status of a mirror worker."""


def run(workers: Sequence[str], output: Output) -> int:
    """Prints every slot of the workers at these addresses, and by which figures one knows."""
    found, is_whole = ask_each(workers, asked)
    show(output, _COLUMNS, rows(found), "these workers have no slots")
    return EXIT_OK if is_whole else EXIT_ERROR


def asked(address: str) -> WorkerStatus:
    """The status of the worker at `http://HOST:PORT`.

    Raises: ConfigError for what is no such address; NoAnswerError.
    """
    if _scheme(address) not in {"http", "https"}:
        raise ConfigError(f"{address} is no address of a worker.", hint="Say http://HOST:PORT.")
    url = f"{address.rstrip('/')}/status"
    try:
        with _DIRECT.open(url, timeout=DEADLINE_S) as answer:
            text = answer.read()
    except (OSError, HTTPException, ValueError) as error:
        raise NoAnswerError(
            f"{url} gives no answer: {error}.",
            hint="Is the worker up, and is this its --http-port?",
        ) from error
    try:
        return WorkerStatus.model_validate(json.loads(text))
    except (ValidationError, ValueError) as error:
        raise NoAnswerError(
            f"{url} is no status of a mirror worker.",
            hint="Other services have no slots; a worker logs its address when it has `started`.",
        ) from error


def _scheme(address: str) -> str:
    """None of a text that cannot be split, such as `http://[::1:8110`."""
    try:
        return urlsplit(address).scheme
    except ValueError:
        return ""


def rows(workers: Iterable[WorkerStatus]) -> list[dict[str, object]]:
    """A line for each slot: those that something limits first, most records behind first.

    `lag_records` is None where that of a partition is not known: the others' is not the slot's.
    """
    slots = [(worker, slot) for worker in workers for slot in worker.slots]
    slots.sort(key=lambda one: (one[1].limit == Limit.NOTHING, -one[1].lag_records, one[1].slot))
    return [{"worker": worker.owner, **_row(slot)} for worker, slot in slots]


def _row(slot: SlotStatus) -> dict[str, object]:
    known = slot.lag_records if not slot.lag_unknown else None
    return {**slot.model_dump(), "lag_records": known}
