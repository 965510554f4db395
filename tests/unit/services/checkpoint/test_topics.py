"""MM2's topics, which checkpoint makes where they are missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import ClusterId, SourceOffset, TargetOffset
from mirrorfleet.kafka.metadata import Broker, Metadata, PartitionMeta, TopicMeta
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.records.offset_sync import OffsetSync
from mirrorfleet.runtime.clock import SystemClock
from services.checkpoint import link
from services.checkpoint.link import LinkGroups
from services.checkpoint.settings import CheckpointSettings
from tests.unit.copying.making import SOURCE_TOPIC
from tests.unit.mapping.test_written import Topic
from tests.unit.services.checkpoint.test_link import FLOW, copied, here, installed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from mirrorfleet.core.ids import TopicPartition
    from mirrorfleet.kafka.admin import NewTopic
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.kafka.control import ControlWriter


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


async def test_a_checkpoints_topic_that_was_made_again_gets_what_has_not_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, topic = installed(monkeypatch), Topic()
    link = world.link()
    link._ours, link._writer = topic.tail(monkeypatch), cast("ControlWriter", topic)
    await link.look(copied())
    written = list(topic.points)
    await link.look(copied())
    assert written
    assert topic.points == written

    topic.made_again()
    await link.look(copied())

    assert topic.points == written
    assert len(world.commits) == 1  # what stands there is known as ours


async def test_a_topic_of_offset_syncs_that_was_made_again_gets_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = OffsetSync(here(0), SourceOffset(99), TargetOffset(99))
    answers = iter([None, BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, "west"), None])
    writes: list[str] = []

    async def metadata(_: object) -> Metadata:
        return Metadata(ClusterId(""), 0, {1: Broker(1, "one", 9092, None)}, {})

    async def create(_: object, wanted: list[NewTopic]) -> dict[str, BrokerError | None]:
        return dict.fromkeys([each.name for each in wanted], next(answers))

    async def write(at: TopicPartition, *_: object) -> None:
        writes.append(at.topic)

    monkeypatch.setattr(Copies, "syncs", lambda _: iter([one]))
    monkeypatch.setattr(link, "create_topics", create)
    settings = SimpleNamespace(request_timeout_s=5.0)
    target = cast("Cluster", SimpleNamespace(metadata=metadata, settings=settings, dice=None))
    groups = LinkGroups(FLOW, target, target, CheckpointSettings(), SystemClock())
    monkeypatch.setattr(groups._writer, "write", write)

    for _ in range(3):
        await groups.prepare()
        await groups._write_syncs(copied())

    assert writes == ["mm2-offset-syncs.east.internal"] * 2
