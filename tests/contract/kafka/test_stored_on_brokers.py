"""Reading a partition up to an end, on a real broker of Kafka 4.3."""

from __future__ import annotations

import asyncio

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.producer import ProduceLane
from mirrorfleet.kafka.stored import bounds_that_are_told, committed_records
from services.local.region import Region
from tests.contract.kafka.making import entry, new_topic
from tests.faultkit.roles import Roles

CLIENT = "reader-under-quota"
BATCHES, BYTES = 8, 1_000_000
RATE = 600_000.0
"""Bytes a second, judged over 10 s: one answer of 4 MB is within it, a second one is not."""


async def test_under_a_quota_all_is_read(east: Region) -> None:
    """The broker takes all out of an answer that exceeds a quota, and says so with its time."""
    async with Cluster(east.settings()) as cluster:
        topic = await new_topic(cluster)
        producing = ProduceLane(await cluster.connect(1, purpose="test"))
        for number in range(BATCHES):
            value = number.to_bytes(1, "big") * BYTES
            (ack,) = await producing.send([entry(topic, 0, (None, value))])
            assert ack.error is ErrorCode.NONE
    roles = Roles(east.settings())
    await asyncio.to_thread(roles.set_quota, CLIENT, consumer_byte_rate=RATE)
    try:
        async with Cluster(east.settings(client_id=CLIENT)) as cluster:
            (bounds,) = (await bounds_that_are_told(cluster, topic)).values()
            assert not isinstance(bounds, BrokerError), bounds
            start, end = bounds
            found = [
                (each.offset, len(each.value or b""))
                async for each in committed_records(cluster, topic, 0, start, end)
            ]
    finally:
        await asyncio.to_thread(roles.set_quota, CLIENT, consumer_byte_rate=None)

    assert (start, end) == (0, BATCHES)
    assert found == [(number, BYTES) for number in range(BATCHES)]
