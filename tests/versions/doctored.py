"""The coordinator's memory of transactional ids, doctored: ids that stand near the end of epochs.

A commit a millisecond would need half a minute to get there, and would not stop where a test wants
it. So a region's `__transaction_state` is given records that say that an id has committed with an
epoch just below the end, and its broker is started again, which loads them.

    key    version 0 i16, transactional id (i16 length)
    value  version 0 i16, producer id i64, epoch i16, time-out ms i32, status i8,
           partitions i32 (0: none), last update ms i64, start ms i64

Layout: Kafka's TransactionLogKey and TransactionLogValue. Producers may write there under one
client id only, that of the brokers' own tools.
"""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.ids import ProducerIdentity, TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control_writer import ControlWriter
from mirrorfleet.kafka.transactions import Transactions, TransactionVersion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from services.local.region import Region

LAST_EPOCH: Final = 32_766
"""Behind it comes a new producer id: 32,767 is kept for the coordinator's own fencing."""
STATE: Final = "__transaction_state"
TOOLS: Final = "__admin_client"
_COMPLETE_COMMIT: Final = 4
_VALUE: Final = struct.Struct(">hqhibiqq")
FAR_IDS: Final = 9_000_000
"""Producer ids from here on are never handed out by a broker of a test."""


async def stand_at(region: Region, epochs: Mapping[str, int]) -> dict[str, ProducerIdentity]:
    """Have each transactional id stand at an epoch, as after a commit; restarts a single broker.

    No client may use the region meanwhile. Gives the ids that the coordinator knows then.
    """
    made = {
        name: ProducerIdentity(FAR_IDS + number, epoch)
        for number, (name, epoch) in enumerate(epochs.items())
    }
    async with Cluster(region.settings(client_id=TOOLS)) as cluster:
        first = Transactions(cluster, "makes the topic", TransactionVersion.V1)
        await first.init_producer_id(timeout_ms=10_000)
        first.close()
        partitions = len((await cluster.topic(STATE, refresh=True)).partitions)
        writer = ControlWriter(cluster)
        now_ms = time.time_ns() // 1_000_000
        for name, producer in made.items():
            at = TopicPartition(STATE, partition_of(name, partitions))
            await writer.write(at, [(_key(name), _value(producer, now_ms))], now_ms)
        writer.close()
    (broker,) = region.brokers
    broker.kill()  # what it wrote is in the system's memory, and quicker than an orderly stop
    broker.restart()
    return made


def partition_of(name: str, partitions: int) -> int:
    """Where the coordinator of an id keeps it: Java's hash of the text."""
    hashed = 0
    for unit in name.encode("utf-16-be")[1::2]:  # ASCII: one unit a character
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed & 0x80000000 else hashed
    return abs(signed) % partitions


def _key(name: str) -> bytes:
    data = name.encode()
    return struct.pack(">hh", 0, len(data)) + data


def _value(producer: ProducerIdentity, now_ms: int) -> bytes:
    return _VALUE.pack(
        0, producer.producer_id, producer.epoch, 60_000, _COMPLETE_COMMIT, 0, now_ms, now_ms
    )
