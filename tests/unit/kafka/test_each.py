"""One request about many things: what was answered is not lost with what was not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import (
    AuthenticationError,
    BrokerError,
    ConnectionLostError,
    DeadlineError,
)
from mirrorfleet.kafka.backoff import SystemDice
from mirrorfleet.kafka.each import each_until_deadline, of_each_node

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster

CLUSTER = cast("Cluster", SimpleNamespace(name="west", dice=SystemDice()))
LOADING = BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "west")


async def test_what_was_answered_counts_when_later_attempts_get_no_answer() -> None:
    async def attempt(left: list[str], _: float) -> dict[str, int | BrokerError]:
        if left != ["a", "b"]:
            raise ConnectionLostError("west is gone")
        return {"a": 1, "b": LOADING}

    found = await each_until_deadline(CLUSTER, "asking", "ab", attempt, 0.3)

    assert found == {"a": 1, "b": LOADING}


async def test_no_answer_at_all_is_told_as_such() -> None:
    async def attempt(_: list[str], __: float) -> dict[str, int | BrokerError]:
        raise ConnectionLostError("west is gone")

    with pytest.raises(DeadlineError, match="west is gone"):
        await each_until_deadline(CLUSTER, "asking", "ab", attempt, 0.3)


async def test_no_attempt_is_made_that_could_not_be_answered_and_the_refusal_is_kept() -> None:
    slow = SimpleNamespace(name="west", dice=SimpleNamespace(uniform=lambda _, high: high))
    lefts: list[float] = []

    async def attempt(_: list[str], left_s: float) -> dict[str, int | BrokerError]:
        lefts.append(left_s)
        return {"a": LOADING}

    # attempts are due after 0, 0.1 and 0.3 s
    found = await each_until_deadline(cast("Cluster", slow), "asking", "a", attempt, 0.34)

    assert found == {"a": LOADING}
    assert len(lefts) == 2


async def shut_at(node: int, shut: set[int]) -> dict[str, int | BrokerError]:
    if node in shut:
        raise AuthenticationError(f"{node} does not let us in")
    return {f"at {node}": node}


async def test_a_broker_that_does_not_let_us_in_takes_nothing_from_what_others_tell() -> None:
    wanted = {node: [f"at {node}"] for node in (1, 2)}

    found = await of_each_node("asking", wanted, lambda node: shut_at(node, {2}))

    refusal = found["at 2"]
    assert isinstance(refusal, BrokerError)
    assert (found["at 1"], refusal.code) == (1, ErrorCode.SASL_AUTHENTICATION_FAILED)
    assert "2 does not let us in" in str(refusal)
    assert not refusal.retriable


async def test_where_no_broker_lets_us_in_that_is_what_is_told() -> None:
    wanted = {node: [f"at {node}"] for node in (1, 2)}

    with pytest.raises(AuthenticationError, match="does not let us in"):
        await of_each_node("asking", wanted, lambda node: shut_at(node, {1, 2}))
