"""MM2's topics, which checkpoint makes where they are missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.ids import ClusterId
from mirrorfleet.kafka.metadata import Broker, Metadata, PartitionMeta, TopicMeta
from mirrorfleet.runtime.clock import SystemClock
from services.checkpoint import link
from services.checkpoint.link import LinkGroups
from services.checkpoint.settings import CheckpointSettings
from tests.unit.copying.making import SOURCE_TOPIC
from tests.unit.services.checkpoint.test_link import FLOW

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from mirrorfleet.kafka.admin import NewTopic
    from mirrorfleet.kafka.cluster import Cluster


async def test_they_have_as_many_copies_as_there_are_brokers_also_while_some_are_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everywhere = PartitionMeta(1, 0, (1, 2, 3), (1,), (2, 3), ErrorCode.NONE)
    orders = TopicMeta("orders", SOURCE_TOPIC, ErrorCode.NONE, False, {0: everywhere})
    made: list[NewTopic] = []

    async def metadata(topics: Sequence[str] | None) -> Metadata:
        known = {"orders": orders} if topics is None else {}
        return Metadata(ClusterId(""), 0, {1: Broker(1, "one", 9092, None)}, known)

    async def create(_: object, wanted: list[NewTopic]) -> dict[str, None]:
        made.extend(wanted)
        return {}

    monkeypatch.setattr(link, "create_topics", create)
    settings = SimpleNamespace(request_timeout_s=5.0)
    target = cast("Cluster", SimpleNamespace(metadata=metadata, settings=settings, dice=None))

    await LinkGroups(FLOW, target, target, CheckpointSettings(), SystemClock()).prepare()

    assert {each.replication_factor for each in made} == {3}
