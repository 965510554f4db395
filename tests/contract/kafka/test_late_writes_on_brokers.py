"""What comes too late of an owner that was replaced: brokers refuse it, also those that check less.

Before 3.6 no broker asked the coordinator whether a transactional batch is part of a transaction:
`transaction.partition.verification.enable` gives that back. And whose transactional id expired has
another producer id than its heir, so that no epoch tells the two apart.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Final
from uuid import uuid4

import pytest

from mirrorfleet.copying.faults import FENCING
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, FencedError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.inspection import describe_producers, describe_transactions
from mirrorfleet.kafka.transactions import TransactionVersion
from services.local.region import Region, RegionSpec
from tests.conftest import running
from tests.contract.kafka.making import entry, new_topic
from tests.contract.kafka.writing import until_committed, writer_on
from tests.faultkit.waiting import until

EXPIRES_MS: Final = 8_000
UNCHECKED: Final = {"transaction.partition.verification.enable": "false"}
EXPIRING: Final = {
    "transactional.id.expiration.ms": str(EXPIRES_MS),
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
}


@pytest.fixture(scope="module", params=["4.3.0", "3.9.1"])
def expiring(request: pytest.FixtureRequest) -> Iterator[Region]:
    """A broker that forgets transactional ids within seconds."""
    spec = RegionSpec(name="expiring", kafka=str(request.param), extra=EXPIRING)
    for started in running(spec):
        yield started[0]


@pytest.fixture(scope="module")
def unchecking() -> Iterator[Region]:
    """One that appends transactional batches without a question, as all did before 3.6."""
    for started in running(RegionSpec(name="unchecking", kafka="3.9.1", extra=UNCHECKED)):
        yield started[0]


@pytest.fixture
async def forgetting(expiring: Region) -> AsyncIterator[Cluster]:
    async with Cluster(expiring.settings()) as opened:
        yield opened


async def test_a_batch_that_comes_after_its_transaction_was_aborted_joins_no_later_one(
    unchecking: Region,
) -> None:
    async with Cluster(unchecking.settings()) as cluster:
        topic = await new_topic(cluster)
        writer = await writer_on(cluster, topic)
        before = writer.producer
        await writer.write(b"lost")
        await writer.init()  # how v1 aborts
        late = entry(topic, 0, (b"k", b"late"), producer=before, sequence=1)
        (ack,) = await writer.lane.send([late])
        assert ack.error is ErrorCode.INVALID_PRODUCER_EPOCH
        await writer.write(b"kept")
        await writer.end(commit=True)
        await until_committed(cluster, topic, [b"kept"])
        producers = (await describe_producers(cluster, [at := TopicPartition(topic.name, 0)]))[at]
        assert isinstance(producers, list)
        assert [each.transaction_start for each in producers] == [None]


async def test_an_owner_whose_id_expired_writes_nothing_beside_its_heir(
    forgetting: Cluster,
) -> None:
    topic = await new_topic(forgetting)
    zombie = await writer_on(forgetting, topic, name := f"slot-{uuid4().hex[:8]}")
    await zombie.write(b"before")
    await zombie.end(commit=True)

    async def expired() -> bool:
        found = (await describe_transactions(forgetting, [name]))[name]
        return isinstance(found, BrokerError)

    await until(expired, deadline_s=60, what=f"{name} to expire")
    heir = await writer_on(forgetting, topic, name)
    assert heir.producer.producer_id != zombie.producer.producer_id

    if await forgetting.transaction_version() is TransactionVersion.V1:
        with pytest.raises(FencedError):
            await zombie.write(b"again")
    late = entry(topic, 0, (b"k", b"again"), producer=zombie.producer, sequence=zombie.sequence)
    assert await zombie.answer(late) in FENCING
    with pytest.raises(FencedError):
        await zombie.end(commit=True)
    await heir.write(b"after")
    await heir.end(commit=True)
    await until_committed(forgetting, topic, [b"before", b"after"])
