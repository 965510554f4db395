"""Data for the bench: what lies in a source topic, written with librdkafka before a measurement."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

if TYPE_CHECKING:
    from tests.judge.reading import ClusterAccess

MEGABYTE = 1_000_000
A_TRANSACTION = 500
"""Records of a source transaction."""
HALF_S = 45_000
"""For both. Half of what MM2 copied of a backlog, with nothing beside it, when it was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A backlog, or a trickle when `paced_s` records come each second while it is measured."""

    name: str
    partitions: int
    record_bytes: int
    megabytes: int
    codec: str = "none"
    batch_bytes: int = 65_536
    batch_records: int = 100_000
    repeats: int = 1
    """A value is so often the same: a producer leaves plain what its codec makes no smaller."""
    transactional: bool = False
    paced_s: int = 0

    @property
    def records(self) -> int:
        """Records in all partitions together."""
        return self.megabytes * MEGABYTE // self.record_bytes


WORKLOADS = {
    each.name: each
    for each in (
        Workload(name="1k-plain", partitions=8, record_bytes=1_000, megabytes=5_000),
        Workload(name="100b-lz4", partitions=8, record_bytes=100, megabytes=1_600, codec="lz4"),
        Workload(name="single", partitions=8, record_bytes=1_000, megabytes=600, batch_records=1),
        Workload(
            name="single-lz4",
            partitions=8,
            record_bytes=200,
            megabytes=600,
            codec="lz4",
            batch_records=1,
            repeats=4,
        ),
        Workload(name="100p-hot", partitions=100, record_bytes=1_000, megabytes=4_000),
        Workload(
            name="txn-source", partitions=8, record_bytes=1_000, megabytes=2_000, transactional=True
        ),
        Workload(
            name="1000p-trickle", partitions=1_000, record_bytes=200, megabytes=0, paced_s=2_000
        ),
        Workload(name="1p", partitions=1, record_bytes=1_000, megabytes=3_000),
        Workload(name="40p", partitions=40, record_bytes=1_000, megabytes=3_000),
        Workload(name="latency", partitions=8, record_bytes=1_000, megabytes=0, paced_s=2_000),
        Workload(
            name="latency-half", partitions=8, record_bytes=1_000, megabytes=0, paced_s=HALF_S
        ),
    )
}

FAR = ("1p", "40p")
"""For `--rtt` and `--window`."""
WARMING = Workload(name="warming", partitions=8, record_bytes=1_000, megabytes=3_000)
"""As much as it takes for brokers to be quick: after 1 GB they used twice the CPU."""


def create(access: ClusterAccess, topic: str, partitions: int) -> None:
    """Make a topic with one replica and wait for it."""
    admin = AdminClient(access.client)  # kept: its end cancels the futures
    made = admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])
    for future in made.values():
        future.result(30)


def delete(access: ClusterAccess, topic: str) -> None:
    """Give the disk back."""
    admin = AdminClient(access.client)
    for future in admin.delete_topics([topic]).values():
        future.result(30)


def fill(access: ClusterAccess, topic: str, workload: Workload) -> None:
    """Produce the workload, spread evenly, in full batches (or as `batch_records` says)."""
    settings: dict[str, str | int | float | bool] = {
        **access.client,
        "linger.ms": 50 if workload.batch_records > 1 else 0,
        "batch.size": workload.batch_bytes,
        "batch.num.messages": workload.batch_records,
        "compression.type": workload.codec,
        "queue.buffering.max.kbytes": 200_000,
    }
    if workload.transactional:
        settings["transactional.id"] = f"bench-{topic}"
    producer = Producer(settings)
    if workload.transactional:
        producer.init_transactions(30)
    dice = random.Random(7)
    pieces = (dice.randbytes(workload.record_bytes // workload.repeats) for _ in range(50))
    values = [piece * workload.repeats for piece in pieces]
    for number in range(workload.records):
        if workload.transactional and number % A_TRANSACTION == 0:
            if number:
                producer.commit_transaction(30)
            producer.begin_transaction()
        _produce(producer, topic, values[number % 50], number % workload.partitions)
    if workload.transactional:
        producer.commit_transaction(30)
    producer.flush(60)


def _produce(producer: Producer, topic: str, value: bytes, partition: int) -> None:
    while True:
        try:
            producer.produce(topic, value, partition=partition)
        except BufferError:
            producer.poll(0.05)
        except KafkaException as error:
            raise SystemExit(f"the bench cannot fill {topic}: {error}") from error
        else:
            producer.poll(0)
            return
