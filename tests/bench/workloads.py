"""Data for the bench: topics filled with librdkafka before anything is measured."""

from __future__ import annotations

import random
from dataclasses import dataclass

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What lies in the source topic."""

    name: str
    partitions: int
    record_bytes: int
    megabytes: int
    codec: str = "none"
    batch_bytes: int = 65_536

    @property
    def records(self) -> int:
        """Records in all partitions together."""
        return self.megabytes * MEGABYTE // self.record_bytes


WORKLOADS = {
    each.name: each
    for each in (
        Workload(name="1k-plain", partitions=8, record_bytes=1_000, megabytes=2_000),
        Workload(name="100b-lz4", partitions=8, record_bytes=100, megabytes=1_000, codec="lz4"),
    )
}


def create(bootstrap: str, topic: str, partitions: int) -> None:
    """Make a topic with one replica and wait for it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})  # kept: its end cancels the futures
    made = admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])
    for future in made.values():
        future.result(30)


def fill(bootstrap: str, topic: str, workload: Workload) -> None:
    """Produce the workload, spread evenly, in full batches."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "batch.size": workload.batch_bytes,
            "compression.type": workload.codec,
            "queue.buffering.max.kbytes": 200_000,
        }
    )
    dice = random.Random(7)
    values = [dice.randbytes(workload.record_bytes) for _ in range(50)]
    for number in range(workload.records):
        _produce(producer, topic, values[number % 50], number % workload.partitions)
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
