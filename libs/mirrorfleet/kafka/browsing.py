"""What is stored in a topic, for people: batch headers, records, or decoded control records.

Rows are JSON-ready. Record contents are users' data: only `Show.RECORDS` has them, shortened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, ConfigError
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.metadata import TopicMeta
from mirrorfleet.kafka.stored import (
    header_row,
    partition_bounds,
    stored_batches,
    transaction_word,
)
from mirrorfleet.records.readable import decoder_of, shortened
from mirrorfleet.records.topics import control_kind, without_partition

Row = Mapping[str, object]

_UNSEEN: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
"""Who may not DESCRIBE a name is refused, whether there is such a topic or not."""


class Show(Enum):
    """What to show of a data topic."""

    HEADERS = auto()
    RECORDS = auto()


@dataclass(frozen=True, slots=True)
class Wanted:
    """A topic, or one partition of it as TOPIC-P; `start` None means the last `limit` of each."""

    topic: str
    start: int | None
    limit: int
    show: Show


async def stored_rows(cluster: Cluster, asked: Wanted) -> list[Row]:
    """The last `limit` rows of each partition, or the first ones from `start`; in order.

    Raises: BrokerError for an unknown topic, ConfigError for an unknown partition.
    """
    topic, only = await _find(cluster, asked.topic)
    found: list[Row] = []
    for number, bounds in sorted((await partition_bounds(cluster, topic)).items()):
        if only is None or number == only:
            found += await _kept(cluster, topic, number, bounds, asked)
    return found


async def _kept(
    cluster: Cluster, topic: TopicMeta, number: int, bounds: tuple[int, int], asked: Wanted
) -> deque[Row]:
    """Of one partition: with one limit for all, a busy one would hide the others."""
    kept: deque[Row] = deque(maxlen=asked.limit)
    async with aclosing(_partition(cluster, topic, number, bounds, asked)) as rows:
        async for row in rows:
            kept.append(row)
            if asked.start is not None and len(kept) == asked.limit:
                break
    return kept


async def _find(cluster: Cluster, asked: str) -> tuple[TopicMeta, int | None]:
    """The topic, and the partition when one was named. A topic whose name is all of it wins.

    Raises: BrokerError when we see neither: what the shorter name was answered; ConfigError.
    """
    bare = without_partition(asked)
    found = (await cluster.metadata(tuple({asked, bare}))).topics
    for name in (asked, bare):
        if found[name].error in _UNSEEN:
            continue
        topic = await cluster.topic(name)
        number = None if name == asked else int(asked[len(bare) + 1 :])
        if number is not None and number not in topic.partitions:
            raise ConfigError(
                f"{name} on {cluster.name} has no partition {number}.",
                hint=f"It has 0 to {len(topic.partitions) - 1}.",
            )
        return topic, number
    raise BrokerError(
        found[bare].error,
        f"{cluster.name}: topic {asked}",
        hint="Check the name, --cluster, and that we may DESCRIBE it.",
    )


async def _partition(
    cluster: Cluster, topic: TopicMeta, number: int, bound: tuple[int, int], asked: Wanted
) -> AsyncGenerator[Row, None]:
    start, end = bound
    if asked.start is not None:
        start = max(start, asked.start)
    elif control_kind(topic.name) is None:
        # A batch holds a record at least, so the last `limit` batches begin no earlier than that.
        start = max(start, end - asked.limit)
    decode = decoder_of(topic.name)
    async with aclosing(stored_batches(cluster, topic, number, start, end)) as stored:
        async for seen in stored:
            if decode is None and asked.show is Show.HEADERS:
                yield header_row(number, seen)
            elif not seen.header.is_control:
                for record in seen.records():
                    if asked.start is not None and record.offset < start:
                        continue  # the batch that holds `start` begins before it
                    shown = (
                        {"key": shortened(record.key), "value": shortened(record.value)}
                        if decode is None
                        else {"record": decode(record.key, record.value)}
                    )
                    yield {
                        "partition": number,
                        "offset": record.offset,
                        "time_ms": record.timestamp,
                        "txn": transaction_word(seen),
                        **shown,
                    }
