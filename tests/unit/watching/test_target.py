"""A look at the target: configs that nobody told are not taken for Kafka's defaults.

They are asked for in turns, link by link; and a broker that is down is still one of the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError, MirrorfleetError
from mirrorfleet.core.ids import ClusterAlias, ClusterId, Link, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.configs import ConfigSource, ConfigValue
from mirrorfleet.kafka.metadata import Broker, Metadata, PartitionMeta, TopicMeta
from mirrorfleet.kafka.offsets import LATEST, ListedOffset, OffsetSpec
from mirrorfleet.planning.observed import TargetTopic
from mirrorfleet.watching import configs
from mirrorfleet.watching import target as target_module
from mirrorfleet.watching.target import TargetWatch
from tests.unit.planning.samples import LINK

LARGE = {"max.message.bytes": ConfigValue("9000000", ConfigSource.TOPIC, False, False)}
PARTITION = PartitionMeta(1, 0, (1,), (1,), (), ErrorCode.NONE)
BRIEFLY_DOWN = PartitionMeta(1, 0, (1, 2, 3), (1,), (2, 3), ErrorCode.NONE)
ORDERS = TopicMeta("orders", UUID(int=1), ErrorCode.NONE, False, {0: PARTITION})
NORTH = Link(ClusterAlias("north"), ClusterAlias("west"))

Answer = dict[str, ConfigValue] | BrokerError


class Target:
    """One topic, and what is told of its configs."""

    def __init__(self) -> None:
        self.answer: Answer = LARGE
        self.topics = {"orders": ORDERS}
        self.brokers: dict[int, Broker] = {}
        self.asked: list[int] = []
        self.ends: dict[TopicPartition, int] = {}

    async def metadata(self, topics: Sequence[str] | None) -> Metadata:
        return Metadata(ClusterId("WEST-ID"), 1, self.brokers, self.topics)

    async def describe_configs(self, _: Cluster, names: Sequence[str]) -> dict[str, Answer]:
        self.asked.append(len(names))
        return dict.fromkeys(names, self.answer)

    async def list_offsets(
        self, _: Cluster, wanted: Mapping[TopicPartition, OffsetSpec], **__: object
    ) -> dict[TopicPartition, ListedOffset]:
        assert all(self.topics[topic].partitions[n].leader >= 0 for topic, n in wanted)
        return {
            at: ListedOffset(self.ends[at] if spec == LATEST else 0, -1, 0)
            for at, spec in wanted.items()
        }

    def refuses(self, code: ErrorCode) -> None:
        self.answer = BrokerError(code, "configs of orders")


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    made = Target()
    monkeypatch.setattr(configs, "describe_configs", made.describe_configs)
    monkeypatch.setattr(target_module, "list_offsets", made.list_offsets)
    return made


@pytest.fixture
def watch(target: Target) -> TargetWatch:
    cluster = SimpleNamespace(metadata=target.metadata)
    return TargetWatch(cast("Cluster", cluster), configs_a_look=10, answer_s=1.0)


async def look(watch: TargetWatch) -> TargetTopic:
    return (await watch.look(LINK, ["orders"], [])).topics["orders"]


async def test_each_link_asks_for_its_topics_once_and_then_in_turns(
    target: Target, watch: TargetWatch
) -> None:
    east, north = ([f"{side}.{n}" for n in range(50)] for side in ("east", "north"))
    target.topics = {name: ORDERS._replace(name=name) for name in (*east, *north)}

    for _ in range(3):
        await watch.look(LINK, east, [])
        await watch.look(NORTH, north, [])

    assert target.asked == [50, 50, 10, 10, 10, 10]


async def test_what_was_changed_is_asked_for_again_at_once(
    target: Target, watch: TargetWatch
) -> None:
    names = [f"east.{n}" for n in range(50)]
    target.topics = {name: ORDERS._replace(name=name) for name in names}
    await watch.look(LINK, names, [])

    watch.forget({"east.49"})
    await watch.look(LINK, names, [])

    assert target.asked == [50, 11]


async def test_who_begins_anew_believes_no_config_that_was_read_before(
    target: Target, watch: TargetWatch
) -> None:
    names = [f"east.{n}" for n in range(50)]
    target.topics = {name: ORDERS._replace(name=name) for name in names}
    await watch.look(LINK, names, [])

    watch.begin_anew()
    await watch.look(LINK, names, [])

    assert target.asked == [50, 50]


@pytest.mark.parametrize(
    "refusal",
    [
        BrokerError(ErrorCode.INVALID_REPLICATION_FACTOR, "defaults of probe"),
        DeadlineError("west: no answer."),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_defaults_that_are_not_told_at_first_are_asked_for_at_each_look_until_they_are(
    watch: TargetWatch, monkeypatch: pytest.MonkeyPatch, refusal: MirrorfleetError
) -> None:
    known = {"compression.type": "producer"}
    first = BrokerError(ErrorCode.INVALID_REPLICATION_FACTOR, "defaults of probe")
    answers: list[MirrorfleetError | dict[str, str]] = [first, refusal, known]
    asked: list[str] = []

    async def default_configs(
        _: Cluster, name: str, *, deadline_s: float | None
    ) -> dict[str, str] | BrokerError:
        asked.append(name)
        answer = answers.pop(0)
        if isinstance(answer, dict | BrokerError):
            return answer
        raise answer

    monkeypatch.setattr(target_module, "default_configs", default_configs)
    await watch.learn_defaults("probe")

    seen = [(await watch.look(LINK, [], [])).defaults for _ in range(3)]

    assert seen == [{}, known, known]
    assert asked == ["probe"] * 3


async def test_defaults_that_are_doubted_are_asked_for_once_more_and_count_until_others_are_told(
    watch: TargetWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an upgrade of the target, which knows other names then."""
    before, after = {"message.format.version": "3.0-IV1"}, {"compression.type": "producer"}
    restarts = BrokerError(ErrorCode.INVALID_REPLICATION_FACTOR, "defaults of probe")
    answers: list[BrokerError | dict[str, str]] = [before, restarts, after]
    asked: list[str] = []

    async def default_configs(
        _: Cluster, name: str, *, deadline_s: float | None
    ) -> dict[str, str] | BrokerError:
        asked.append(name)
        return answers.pop(0)

    monkeypatch.setattr(target_module, "default_configs", default_configs)
    await watch.learn_defaults("probe")
    first = (await watch.look(LINK, [], [])).defaults

    watch.doubt_defaults()
    seen = [(await watch.look(LINK, [], [])).defaults for _ in range(3)]

    assert [first, *seen] == [before, before, after, after]
    assert asked == ["probe"] * 3


async def test_a_broker_that_is_down_counts_while_it_has_replicas(
    target: Target, watch: TargetWatch
) -> None:
    target.brokers = {node: Broker(node, "h", 9092) for node in (1, 4)}
    target.topics = {"orders": ORDERS._replace(partitions={0: BRIEFLY_DOWN})}

    assert (await watch.look(LINK, [], [])).brokers == 4


async def test_configs_that_a_broker_does_not_know_yet_are_unread_until_one_tells(
    target: Target, watch: TargetWatch
) -> None:
    target.refuses(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    before = await look(watch)
    target.answer = LARGE
    after = await look(watch)

    assert (before.unread, after.unread) == (True, False)
    assert after.terms.max_message_bytes == 9_000_000


async def test_configs_that_were_told_once_are_not_unread_when_a_broker_lags(
    target: Target, watch: TargetWatch
) -> None:
    await look(watch)
    target.refuses(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    again = await look(watch)

    assert not again.unread
    assert again.terms.max_message_bytes == 9_000_000


async def test_configs_that_we_may_not_read_are_taken_for_kafkas_own(
    target: Target, watch: TargetWatch
) -> None:
    target.refuses(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    denied = await look(watch)

    assert (denied.unread, denied.overrides) == (False, None)


@pytest.mark.parametrize(("end", "empty"), [(0, None), (1, False)])
async def test_a_partition_without_leader_is_not_waited_for_and_leaves_open_whether_all_are_empty(
    target: Target, watch: TargetWatch, end: int, *, empty: bool | None
) -> None:
    lost = PARTITION._replace(leader=-1, isr=())
    target.topics = {"orders": ORDERS._replace(partitions={0: PARTITION, 1: lost})}
    target.ends = {TopicPartition("orders", 0): end}

    view = await watch.look(LINK, ["orders"], ["orders"])

    assert view.topics["orders"].empty is empty
