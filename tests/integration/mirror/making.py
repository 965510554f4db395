"""Making topics and records with librdkafka, so that what is copied was not made by our client."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its public names, not in its __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.faultkit.regions import address
from tests.faultkit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from services.local.region import Region

ANSWER_S = 30.0
"""Deadline of one question to a region, and of the last answers to produced records."""
ONE_BATCH: dict[str, str | int] = {"linger.ms": 20_000}
"""Records produced together make one batch, because only the flush sends them."""
EACH_ALONE: dict[str, str | int] = {"linger.ms": 0, "batch.num.messages": 1}

Headers = list[tuple[str, str | bytes | None]]


class Made(NamedTuple):
    """A record to produce; `timestamp` in ms, 0 is now."""

    value: bytes | None
    key: bytes | None = b"k"
    partition: int = 0
    timestamp: int = 0
    headers: Headers | None = None


class Seen(NamedTuple):
    """A record as a consumer is handed it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def numbered(first: int, end: int, *, size: int = 20, partition: int = 0) -> list[Made]:
    """Records that tell their number, `size` bytes each."""
    return [
        Made(b"%0*d" % (size, number), key=b"k%d" % number, partition=partition)
        for number in range(first, end)
    ]


def create(region: Region, name: str, partitions: int = 1, /, **configs: str | int) -> None:
    """Make a topic; `segment_ms=1` is the config `segment.ms`."""
    config = {key.replace("_", "."): str(value) for key, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": address(region)})
    topic = NewTopic(name, partitions, 1, config=config)
    admin.create_topics([topic], operation_timeout=ANSWER_S)[name].result(ANSWER_S)


def create_on(region: Region, name: str, nodes: list[int], /, **configs: str | int) -> None:
    """Make a topic of one partition on these brokers, the first of which leads."""
    config = {key.replace("_", "."): str(value) for key, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": address(region)})
    topic = NewTopic(name, 1, replica_assignment=[nodes], config=config)
    admin.create_topics([topic], operation_timeout=ANSWER_S)[name].result(ANSWER_S)


def grow(region: Region, name: str, total: int) -> None:
    """Give a topic more partitions."""
    admin = AdminClient({"bootstrap.servers": address(region)})
    made = admin.create_partitions([NewPartitions(name, total)], operation_timeout=ANSWER_S)
    made[name].result(ANSWER_S)


def delete(region: Region, name: str) -> None:
    """Delete a topic."""
    admin = AdminClient({"bootstrap.servers": address(region)})
    admin.delete_topics([name], operation_timeout=ANSWER_S)[name].result(ANSWER_S)


def delete_before(region: Region, topic: str, partition: int, offset: int) -> None:
    """Delete the records below an offset, as retention does, but at once."""
    admin = AdminClient({"bootstrap.servers": address(region)})
    at = TopicPartition(topic, partition, offset)
    admin.delete_records([at], operation_timeout=ANSWER_S)[at].result(ANSWER_S)


def alter_topic(region: Region, name: str, **configs: str | int) -> None:
    """Set configs of a topic, named as in `create`."""
    values = {key.replace("_", "."): str(value) for key, value in configs.items()}
    _alter(region, ResourceType.TOPIC, name, values)


def alter_broker(region: Region, configs: Mapping[str, str | None]) -> None:
    """Set configs of all brokers while they run; None gives back the default."""
    for broker in region.brokers:
        _alter(region, ResourceType.BROKER, str(broker.node_id), configs)


def _alter(
    region: Region, kind: ResourceType, name: str, configs: Mapping[str, str | None]
) -> None:
    entries = [
        ConfigEntry(
            key,
            value or "",
            incremental_operation=(
                AlterConfigOpType.SET if value is not None else AlterConfigOpType.DELETE
            ),
        )
        for key, value in configs.items()
    ]
    admin = AdminClient({"bootstrap.servers": address(region)})
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(ANSWER_S)


def producer(region: Region, **settings: str | int) -> Producer:
    """A producer with acks=all; `compression_type="lz4"` is the setting `compression.type`."""
    values = {key.replace("_", "."): value for key, value in settings.items()}
    return Producer(
        {
            "bootstrap.servers": address(region),
            "acks": "all",
            "message.max.bytes": 10_000_000,
            "queue.buffering.max.messages": 1_000_000,
            **values,
        }
    )


def producer_to(region: Region, topic: str, **settings: str | int) -> Producer:
    """A producer that knows the topic's partitions before the first record is given to it.

    A record given to librdkafka before that is kept aside and moved to its partition later, one
    by one; a flush that has begun by then sends the first of them alone, in a batch of its own.
    One question is not enough: `create` returns when the controller has the topic, which the
    broker that answers may learn a moment later.
    """
    made = producer(region, **settings)

    def known() -> bool:
        found = made.list_topics(topic, ANSWER_S).topics[topic]
        leaders = [partition.leader for partition in found.partitions.values()]
        return found.error is None and bool(leaders) and min(leaders) >= 0

    wait_until(known, deadline_s=ANSWER_S, what=f"a leader of each partition of {topic}")
    return made


def transactional(region: Region, name: str, **settings: str | int) -> Producer:
    """A producer that may begin transactions, which may stay open for ten minutes."""
    made = producer(region, transactional_id=name, transaction_timeout_ms=600_000, **settings)
    made.init_transactions(ANSWER_S)
    return made


def send(to: Producer, topic: str, records: Iterable[Made]) -> None:
    """Produce records and wait until all are acknowledged."""
    refused: list[KafkaError] = []

    def answered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(error)

    for record in records:
        to.produce(
            topic,
            record.value,
            record.key,
            record.partition,
            on_delivery=answered,
            timestamp=record.timestamp,
            headers=record.headers or [],
        )
    left = to.flush(ANSWER_S)
    assert (left, refused) == (0, [])


def put(region: Region, topic: str, records: Iterable[Made], **settings: str | int) -> None:
    """Produce records with a producer of their own."""
    send(producer_to(region, topic, **settings), topic, records)


def commit(to: Producer, topic: str, records: Iterable[Made]) -> None:
    """One committed transaction."""
    to.begin_transaction()
    send(to, topic, records)
    to.commit_transaction(ANSWER_S)


def abort(to: Producer, topic: str, records: Iterable[Made]) -> None:
    """One transaction that is written and then aborted."""
    to.begin_transaction()
    send(to, topic, records)
    to.abort_transaction(ANSWER_S)


def read(region: Region, topic: str, partitions: int) -> list[list[Seen]]:
    """What a read_committed consumer is handed now of each partition, from begin to end."""
    consumer = Consumer(
        {
            "bootstrap.servers": address(region),
            "group.id": "test",  # librdkafka wants one; it is never joined
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
        }
    )
    found: list[list[Seen]] = [[] for _ in range(partitions)]
    ended: set[int] = set()
    try:
        consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(partitions)])
        while len(ended) < partitions and (message := consumer.poll(ANSWER_S)) is not None:
            number, error = message.partition() or 0, message.error()
            if error is None:
                found[number].append(_seen(message))
                continue
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(number)
    finally:
        consumer.close()
    assert len(ended) == partitions, f"{topic}: no end of {partitions} within {ANSWER_S:g} s"
    return found


def _seen(message: Message) -> Seen:
    return Seen(message.offset() or 0, message.timestamp()[1], message.key(), message.value())


def seen(region: Region, topic: str, partition: int = 0) -> list[Seen]:
    """The same of one partition; those before it are read too."""
    return read(region, topic, partition + 1)[partition]


def values(region: Region, topic: str, partition: int = 0) -> list[bytes | None]:
    """The values only."""
    return [record.value for record in seen(region, topic, partition)]
