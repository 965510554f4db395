"""An answer that says nothing of what was asked for is an error of the broker, told with a name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.kafka import inspection
from mirrorfleet.kafka.admin import default_configs
from mirrorfleet.kafka.backoff import SystemDice

if TYPE_CHECKING:
    import pytest

    from mirrorfleet.kafka.cluster import Cluster


async def nothing(*_: object, **__: object) -> SimpleNamespace:
    return SimpleNamespace(topics=(), transaction_states=())


KNOWN = SimpleNamespace(name="west", dice=SystemDice(), ask=nothing, controller=-1, brokers={})
CLUSTER = cast("Cluster", KNOWN)


async def test_an_id_that_its_coordinator_says_nothing_of_is_an_error_with_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def coordinator(*_: object) -> int:
        return 1

    monkeypatch.setattr(inspection, "find_coordinator", coordinator)

    found = (await inspection.describe_transactions(CLUSTER, ["me"], deadline_s=1))["me"]

    assert isinstance(found, BrokerError)
    assert (found.code, found.where) == (ErrorCode.UNKNOWN_SERVER_ERROR, "transactional id me")


async def test_defaults_of_which_an_answer_says_nothing_are_an_error_with_the_topic() -> None:
    found = await default_configs(CLUSTER, "orders", deadline_s=1)

    assert isinstance(found, BrokerError)
    assert (found.code, found.where) == (ErrorCode.UNKNOWN_SERVER_ERROR, "defaults of orders")
