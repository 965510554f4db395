"""What is stored in a topic, for people: batch headers, records, or decoded control records.

Rows are JSON-ready. Record contents are users' data: only `Show.RECORDS` has them, shortened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, ConfigError, MirrorfleetError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.metadata import TopicMeta
from mirrorfleet.kafka.offsets import LATEST, list_offsets
from mirrorfleet.kafka.stored import (
    Bounds,
    StoredBatch,
    bounds_that_are_told,
    header_row,
    stored_batches,
    transaction_word,
)
from mirrorfleet.records.readable import decoder_of, shortened
from mirrorfleet.records.topics import without_partition
from mirrorfleet.wire.k01_fetch import Isolation

Row = Mapping[str, object]

_UNSEEN: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
)
"""Who may not DESCRIBE a name is refused, whether there is such a topic or not; TOPIC-P may be too
long for a name."""
_OTHERS_WAIT_S: Final = 5.0
"""For a partition that has no leader now, where others can be shown without it."""
_WIDER: Final = 4
"""Times as many offsets are looked at where the last ones held too few rows."""


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


@dataclass(frozen=True, slots=True)
class Stored:
    """What was found in a topic, or in one partition of it."""

    topic: str
    rows: list[Row] = field(default_factory=list)
    """Up to the last stable offset of each partition."""
    held: dict[int, Bounds] = field(default_factory=dict)
    """What lies behind that, by partition: open transactions hold it back."""
    unread: dict[int, MirrorfleetError] = field(default_factory=dict)
    """Partitions that cannot be read now, though others can."""


async def stored_rows(cluster: Cluster, asked: Wanted) -> Stored:
    """The last `limit` rows of each partition, or the first ones from `start`; in order.

    Raises: BrokerError for an unknown topic, ConfigError for an unknown partition; where none can
    be read, what the first one cannot be read for.
    """
    topic, only = await _find(cluster, asked.topic)
    numbers = topic.partitions.keys() if only is None else {only}
    wait_s = _OTHERS_WAIT_S if len(numbers) > 1 else None
    highs = await _high_watermarks(cluster, topic, numbers, wait_s)  # before: they only grow
    told = await bounds_that_are_told(cluster, topic, numbers, deadline_s=wait_s)
    found = Stored(topic.name)
    for number, bounds in sorted(told.items()):
        try:
            if isinstance(bounds, BrokerError):
                raise bounds
            found.rows.extend(await _kept(cluster, topic, number, bounds, asked))
            if (high := highs.get(number, 0)) > bounds[1]:
                found.held[number] = bounds[1], high
        except MirrorfleetError as error:
            found.unread[number] = error
    if found.unread and len(found.unread) == len(numbers):
        raise found.unread[min(found.unread)]
    return found


async def _high_watermarks(
    cluster: Cluster, topic: TopicMeta, numbers: Collection[int], wait_s: float | None
) -> dict[int, int]:
    """Of those whose leaders tell."""
    wanted = {TopicPartition(topic.name, number): LATEST for number in numbers}
    isolation = Isolation.READ_UNCOMMITTED
    told = await list_offsets(cluster, wanted, isolation=isolation, deadline_s=wait_s)
    return {
        tp.partition: end.offset for tp, end in told.items() if not isinstance(end, BrokerError)
    }


async def _kept(
    cluster: Cluster, topic: TopicMeta, number: int, bounds: Bounds, asked: Wanted
) -> deque[Row]:
    """Of one partition: with one limit for all, a busy one would hide the others."""
    begin, end = bounds
    reach = asked.limit
    while True:
        start = max(begin, end - reach if asked.start is None else asked.start)
        kept: deque[Row] = deque(maxlen=asked.limit)
        async with aclosing(_rows(cluster, topic, number, (start, end), asked)) as rows:
            async for row in rows:
                kept.append(row)
                if asked.start is not None and len(kept) == asked.limit:
                    break
        if len(kept) == asked.limit or asked.start is not None or start == begin:
            return kept
        # a batch holds many records, and there are holes: so many offsets may be a row or none
        reach *= _WIDER


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


async def _rows(
    cluster: Cluster, topic: TopicMeta, number: int, part: Bounds, asked: Wanted
) -> AsyncGenerator[Row, None]:
    """From the batch on that holds the first offset of `part`."""
    async with aclosing(stored_batches(cluster, topic, number, *part)) as stored:
        async for seen in stored:
            for row in _rows_of(topic.name, number, seen, asked):
                yield row


def _rows_of(topic: str, number: int, seen: StoredBatch, asked: Wanted) -> Iterator[Row]:
    decode = decoder_of(topic)
    if decode is None and asked.show is Show.HEADERS:
        yield header_row(number, seen)
        return
    for record in () if seen.header.is_control else seen.records():
        if asked.start is not None and record.offset < asked.start:
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
