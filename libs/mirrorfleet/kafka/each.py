"""One request about many things, repeated for those that a retry can help, until a deadline, or
sent once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Hashable, Iterable, Mapping
from typing import Final, TypeVar

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import (
    AuthenticationError,
    BrokerError,
    ConnectionLostError,
    DeadlineError,
)
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.backoff import Attempts
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.together import all_of

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Results = dict[K, V | BrokerError]
"""What became of each thing: a value, or why not."""

LeaderEpochs = dict[TopicPartition, int]
"""Partitions of one leader, each with the leader epoch that we believe in."""

_FIRST_PAUSE_S: Final = 0.1
_LOOK_S: Final = 1.0
"""Least time for a look at the metadata: one that runs out of it ends a connection of others."""
_LEAST_SHARE: Final = 4
"""So much of the time, or `_LOOK_S`, must be left for another attempt, for the same reason."""


async def each_until_deadline(
    cluster: Cluster,
    what: str,
    keys: Iterable[K],
    attempt: Callable[[list[K], float], Awaitable[Mapping[K, V | BrokerError]]],
    deadline_s: float | None,
) -> Results[K, V]:
    """Do `attempt(keys left, seconds left)` until no key has a retriable error.

    At the deadline, or a little before it, the keys left keep their last error. A key that an
    answer left out counts as UNKNOWN_SERVER_ERROR. Raises: DeadlineError when no answer came at
    all; AuthenticationError, UnsupportedError.
    """
    left = list(dict.fromkeys(keys))
    seconds = deadline_s or cluster.settings.request_timeout_s
    attempts = Attempts(f"{cluster.name}: {what}", seconds, cluster.dice, first_s=_FIRST_PAUSE_S)
    results: Results[K, V] = {}
    while left:
        cause: Exception
        try:
            answers = await attempt(left, attempts.left_s)
        except (ConnectionLostError, DeadlineError) as error:
            cause = error
        else:
            results.update({key: answers.get(key, left_out(what)) for key in left})
            left = [key for key in left if _is_retriable(results[key])]
            cause = Exception(f"{len(left)} of {what} were refused for now")
        if left:
            try:
                await attempts.pause(cause)
            except DeadlineError:
                if not results:
                    raise
                break
            if results and attempts.left_s < min(_LOOK_S, seconds / _LEAST_SHARE):
                break
    return results


async def each_once(
    cluster: Cluster,
    what: str,
    keys: Iterable[K],
    attempt: Callable[[list[K], float], Awaitable[Mapping[K, V | BrokerError]]],
    deadline_s: float | None,
) -> Results[K, V]:
    """Do `attempt(keys, seconds)`; no retriable error is waited out.

    A key that the answer left out counts as UNKNOWN_SERVER_ERROR. Raises: as `attempt`.
    """
    wanted = list(dict.fromkeys(keys))
    if not wanted:
        return {}
    answers = await attempt(wanted, deadline_s or cluster.settings.request_timeout_s)
    return {key: answers.get(key, left_out(what)) for key in wanted}


async def on_leaders(
    cluster: Cluster,
    what: str,
    partitions: Iterable[TopicPartition],
    ask: Callable[[int, LeaderEpochs, float], Awaitable[Results[TopicPartition, V]]],
    deadline_s: float | None,
) -> Results[TopicPartition, V]:
    """`each_until_deadline` for partitions, asked of the brokers that lead them.

    A broker that does not answer is NETWORK_EXCEPTION for its partitions, and no concern of others.
    """

    async def attempt(left: list[TopicPartition], left_s: float) -> Results[TopicPartition, V]:
        found: Results[TopicPartition, V] = {}
        nodes: dict[int, LeaderEpochs] = {}
        leaders = await cluster.leaders(left, deadline_s=max(left_s, _LOOK_S))
        for tp, leader in leaders.items():
            if isinstance(leader, BrokerError):
                found[tp] = leader
            else:
                nodes.setdefault(leader.node_id, {})[tp] = leader.leader_epoch
        found |= await of_each_node(what, nodes, lambda node: ask(node, nodes[node], left_s))
        for tp in left:
            if _is_retriable(found.get(tp)):
                cluster.forget_leaders(tp.topic)
        return found

    return await each_until_deadline(cluster, what, partitions, attempt, deadline_s)


async def of_each_node(
    what: str,
    wanted: Mapping[int, Iterable[K]],
    ask: Callable[[int], Awaitable[Results[K, V]]],
) -> Results[K, V]:
    """Ask brokers side by side, each about its own keys; one that does not answer is
    NETWORK_EXCEPTION for these, and one that does not let us in, while another one does,
    SASL_AUTHENTICATION_FAILED: its certificate is old, or it has not heard of a password yet.

    Raises: as `ask`, but ConnectionLostError and DeadlineError; the first error of one broker.
    """
    found: Results[K, V] = {}
    shut: dict[int, AuthenticationError] = {}

    async def ask_node(node: int, keys: Iterable[K]) -> None:
        try:
            found.update(await ask(node))
        except (ConnectionLostError, DeadlineError) as error:
            lost = BrokerError(ErrorCode.NETWORK_EXCEPTION, what, detail=str(error))
            found.update(dict.fromkeys(keys, lost))
        except AuthenticationError as error:
            shut[node] = error

    await all_of(ask_node(node, keys) for node, keys in wanted.items())
    for node, refusal in shut.items():
        if len(shut) == len(wanted):
            raise refusal
        denied = BrokerError(ErrorCode.SASL_AUTHENTICATION_FAILED, what, detail=str(refusal))
        found.update(dict.fromkeys(wanted[node], denied))
    return found


async def in_turn(
    what: str, keys: Iterable[K], ask: Callable[[K], Awaitable[V | BrokerError]]
) -> Results[K, V]:
    """Ask one broker about keys one after the other. Once no answer comes, the keys that are left
    are NETWORK_EXCEPTION, and what was answered before counts.

    Raises: as `ask`, but ConnectionLostError and DeadlineError.
    """
    found: Results[K, V] = {}
    left = list(keys)
    for number, key in enumerate(left):
        try:
            found[key] = await ask(key)
        except (ConnectionLostError, DeadlineError) as error:
            lost = BrokerError(ErrorCode.NETWORK_EXCEPTION, what, detail=str(error))
            found.update(dict.fromkeys(left[number:], lost))
            break
    return found


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, in order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def verdict(
    code: ErrorCode, where: str, detail: str | None = None, *, final: Container[ErrorCode] = ()
) -> BrokerError | None:
    """The error for a code; None for NONE. `final` are not waited out, whatever Kafka says of
    other requests.
    """
    if code is ErrorCode.NONE:
        return None
    error = BrokerError(code, where, detail=detail or "")
    error.retriable = error.retriable and code not in final
    return error


def _is_retriable(result: object) -> bool:
    return isinstance(result, BrokerError) and result.retriable


def left_out(what: str) -> BrokerError:
    """What counts for a thing of which an answer says nothing."""
    return BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, what, detail="the answer left it out")
