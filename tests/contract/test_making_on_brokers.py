"""Records that a test makes together arrive in the batches that it counts on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from services.local.region import Region
from tests.faultkit.hold import hold_sync
from tests.integration.mirror.making import ONE_BATCH, create, numbered, put
from tests.integration.mirror.stored import data

LATE_S = 0.4
TOPICS = 8
RECORDS = 3_000


def made_late(east: Region) -> list[int]:
    """How many records each batch of a topic has that the brokers learn of during the `put`."""
    topic = f"late-{uuid4().hex[:8]}"
    with ThreadPoolExecutor(1) as other:
        made = other.submit(put, east, topic, numbered(0, RECORDS), **ONE_BATCH)
        hold_sync(LATE_S, reason="the brokers do not know the topic yet")
        create(east, topic)
        made.result()
    return [batch.records for batch in data(east, topic)]


def test_records_for_a_topic_that_a_broker_does_not_know_yet_make_one_batch(east: Region) -> None:
    with ThreadPoolExecutor(TOPICS) as pool:
        assert list(pool.map(made_late, [east] * TOPICS)) == [[RECORDS]] * TOPICS
