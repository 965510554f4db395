"""Brokers that make each topic that somebody asks about: nobody of ours has them do so."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import aiokafka
import pytest

from mirrorfleet.core.errors import BrokerError
from mirrorfleet.kafka.aiokafka_options import client_options, keep_up
from mirrorfleet.kafka.cluster import Cluster
from services.local.region import RegionSpec
from tests.conftest import Regions


@pytest.mark.timeout(120)
async def test_a_topic_that_is_missing_is_not_made_by_asking_about_it(regions: Regions) -> None:
    making = {"auto.create.topics.enable": "true"}
    (region,) = regions(RegionSpec(name="making", extra=making))
    settings, missing = region.settings(), f"missing-{uuid4().hex[:8]}"
    consumer = aiokafka.AIOKafkaConsumer(group_id=None, **client_options(settings))
    keep_up(consumer._client, settings)
    async with asyncio.timeout(30), Cluster(settings) as cluster:
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition(missing, 0)])
            for _ in range(3):  # the first has a broker make it, a later one would see it
                assert await consumer._client.force_metadata_update()
        finally:
            await consumer.stop()
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await cluster.topic(missing, refresh=True)
