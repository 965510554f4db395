"""Requests that change a cluster: sent to its controller, each part answered for itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Final, TypeVar

from kio.static.protocol import Entity

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, ConnectionLostError, DeadlineError
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.codec import Request
from mirrorfleet.kafka.each import each_until_deadline

R = TypeVar("R", bound=Entity)
T = TypeVar("T")

_LEAST_S: Final = 5.0
"""Least time for a change, which a controller first tells its brokers of."""
_LOOK_S: Final = 5.0
_RECORDS: Final = 5_000
"""A controller makes 10,000 of one request, and else refuses all of it (QuorumController,
MAX_RECORDS_PER_USER_OP): one for each topic, partition, config entry and ACL."""

Answers = Mapping[str, BrokerError | None]
"""By name: done, or why not."""


class Mode(Enum):
    """Whether a change is made or only checked."""

    APPLY = False
    VALIDATE_ONLY = True


def in_requests(
    parts: Iterable[T], records: Callable[[T], int], most: int | None = None
) -> Iterator[tuple[T, ...]]:
    """Parts of a change by requests: as many as a controller takes at once, `most` at the most.

    One that is too large by itself has a request of its own: what is wrong the controller says.
    """
    some, left = list[T](), _RECORDS
    for part in parts:
        size = records(part)
        if some and (size > left or len(some) == most):
            yield tuple(some)
            some, left = [], _RECORDS
        some.append(part)
        left -= size
    if some:
        yield tuple(some)


async def ask_controller(cluster: Cluster, request: Request, expect: type[R], left_s: float) -> R:
    """Ask the controller (before KRaft only it answers; in KRaft any broker forwards)."""
    node = cluster.controller if cluster.controller in cluster.brokers else None
    return await cluster.ask(request, expect, node=node, deadline_s=left_s)


async def on_controller(
    cluster: Cluster,
    what: str,
    names: Iterable[str],
    attempt: Callable[[list[str], float], Awaitable[dict[str, BrokerError | None]]],
    deadline_s: float | None,
) -> dict[str, BrokerError | None]:
    """`each_until_deadline` for changes. The controller is looked up again where it says that it is
    none, or nothing: one that is frozen has its part of the time only.
    """

    async def routed(left: list[str], left_s: float) -> dict[str, BrokerError | None]:
        try:
            answers = await attempt(left, max(left_s / 2, min(left_s, _LEAST_S)))
        except (ConnectionLostError, DeadlineError):
            await cluster.metadata((), deadline_s=_LOOK_S)
            raise
        if any(e is not None and e.code is ErrorCode.NOT_CONTROLLER for e in answers.values()):
            await cluster.metadata(())
        return answers

    return await each_until_deadline(cluster, what, names, routed, deadline_s)
