"""What a writer looks at once its place is its own, and before each thing that it writes there."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from kio.schema.errors import ErrorCode

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.errors import DeadlineError, RefusedError
from mirrorfleet.core.ids import ClusterAlias, TopicPartition
from mirrorfleet.kafka import fenced_writer
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.fenced_writer import FencedWriter, by_order
from tests.fakes import broker as fake
from tests.fakes.broker import Asked, FakeBroker

AT = TopicPartition("t", 0)


@pytest.fixture
async def cluster(broker: FakeBroker) -> AsyncIterator[Cluster]:
    settings = ClusterSettings(alias=ClusterAlias("fake"), bootstrap=(broker.bootstrap,))
    async with Cluster(settings) as opened:
        yield opened


async def test_nothing_is_written_where_the_look_after_the_take_says_no(
    broker: FakeBroker, cluster: Cluster
) -> None:
    taken = []

    async def look() -> None:
        taken.append(len(broker.asked(fake.INIT_PRODUCER_ID)))
        raise RefusedError("no")

    writer = FencedWriter(cluster, "slot", may_take=by_order, on_taken=look)
    with pytest.raises(RefusedError, match="no"):
        await writer.write(AT, [(b"k", b"v")], 1)
    writer.close()

    assert (taken, broker.asked(fake.PRODUCE)) == ([1], [])


async def test_a_place_that_is_taken_again_is_looked_at_again_before_the_next_attempt(
    broker: FakeBroker, cluster: Cluster
) -> None:
    taken = []

    async def look() -> None:
        taken.append(len(broker.asked(fake.INIT_PRODUCER_ID)))
        if broker.asked(fake.PRODUCE):
            raise RefusedError("somebody was here meanwhile")

    broker.then(fake.PRODUCE, fake.hang_up)
    writer = FencedWriter(cluster, "slot", may_take=by_order, on_taken=look)
    with pytest.raises(RefusedError, match="meanwhile"):
        await writer.write(AT, [(b"k", b"v")], 1)
    writer.close()

    assert (taken, len(broker.asked(fake.PRODUCE))) == ([1, 2], 1)


def lacks_replicas(asked: Asked) -> object:
    """A leader whose partition is under its min.insync.replicas."""
    schema = fake.answers(asked)
    (topic,) = asked.request.topic_data
    response = schema.PartitionProduceResponse(
        index=0, error_code=ErrorCode.not_enough_replicas, base_offset=-1, record_errors=()
    )
    answer = schema.TopicProduceResponse(topic_id=topic.topic_id, partition_responses=(response,))
    return schema.ProduceResponse(responses=(answer,), throttle_time=fake.no_time())


async def test_a_partition_without_its_replicas_is_not_taken_for_a_place_that_another_one_took(
    broker: FakeBroker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its coordinator aborts what is open for too long, and gives the id another epoch."""
    monkeypatch.setattr(fenced_writer, "_OPEN_S", 0.5)
    broker.then(fake.PRODUCE, *[lacks_replicas] * 1_000)
    broker.then(fake.METADATA, *[fake.topic_of(broker, "t")] * 100)
    writer = FencedWriter(cluster, "slot", may_take=by_order, deadline_s=1.5)
    with pytest.raises(DeadlineError, match="NOT_ENOUGH_REPLICAS"):
        await writer.write(AT, [(b"k", b"v")], 1)
    writer.close()

    assert len(broker.asked(fake.INIT_PRODUCER_ID)) > 1
    assert len(broker.asked(fake.PRODUCE)) < 20
