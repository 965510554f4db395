"""`inspect`: the headers of stored batches, or the decoded records of a control topic.

Record contents are users' data: they are shown only when asked for, shortened, with a warning.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final

from mirrorfleet.config.load import load_estate
from mirrorfleet.config.model import Estate
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
from mirrorfleet.records.topics import control_kind
from services.cli.connecting import open_cluster
from services.cli.output import EXIT_OK, Output, Row, print_json, print_table, say_note

_WARNING: Final = (
    "warning: record contents may be personal or secret data; keep this output off tickets and chat"
)


class Show(Enum):
    """What to show of a data topic."""

    HEADERS = auto()
    RECORDS = auto()


@dataclass(frozen=True, slots=True)
class Asked:
    """The command's arguments; `start` None means the last ones."""

    topic: str
    cluster: str | None
    start: int | None
    limit: int
    show: Show


def run(estate_file: Path, asked: Asked, output: Output) -> int:
    """Prints what is stored."""
    estate = load_estate(estate_file)
    alias = _cluster_of(estate, asked)
    rows = asyncio.run(_rows(estate, alias, asked))
    if output is Output.JSON:
        print_json(rows)
    elif rows:
        print_table(list(rows[0]), rows)
    else:
        say_note("nothing is stored there")
    return EXIT_OK


def _cluster_of(estate: Estate, asked: Asked) -> str:
    """The cluster asked for, that of the control topic's fleet, or the only one there is."""
    if asked.cluster is not None:
        estate.cluster(asked.cluster)
        return asked.cluster
    kind = control_kind(_without_partition(asked.topic)) or control_kind(asked.topic)
    known = list(estate.clusters)
    if kind is not None:
        known = [alias for alias in known if estate.fleet_of(alias) == kind[0]]
    if len(known) == 1:
        return known[0]
    aliases = ", ".join(estate.clusters)
    raise ConfigError(
        f"{asked.topic}: on which cluster?", path="--cluster", hint=f"Add --cluster: {aliases}."
    )


async def _rows(estate: Estate, alias: str, asked: Asked) -> list[Row]:
    async with open_cluster(estate, alias) as cluster:
        topic, only = await _find(cluster, asked.topic)
        kept: deque[Row] = deque(maxlen=asked.limit)
        for number, (start, end) in sorted((await partition_bounds(cluster, topic)).items()):
            if only is None or number == only:
                async with aclosing(
                    _partition(cluster, topic, number, (start, end), asked)
                ) as rows:
                    async for row in rows:
                        kept.append(row)
                        if asked.start is not None and len(kept) == asked.limit:
                            return list(kept)
        return list(kept)


async def _find(cluster: Cluster, asked: str) -> tuple[TopicMeta, int | None]:
    """The topic, and the partition when one was named. A topic whose name is all of it wins."""
    bare = _without_partition(asked)
    found = (await cluster.metadata(tuple({asked, bare}))).topics
    for name in (asked, bare):
        topic = found[name]
        if topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
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
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"{cluster.name}: topic {asked}",
        hint="Check the name, --cluster, and that we may DESCRIBE it.",
    )


async def _partition(
    cluster: Cluster, topic: TopicMeta, number: int, bound: tuple[int, int], asked: Asked
) -> AsyncGenerator[Row, None]:
    start, end = bound
    if asked.start is not None:
        start = max(start, asked.start)
    elif control_kind(topic.name) is None:
        # A batch holds a record at least, so the last `limit` batches begin no earlier than that.
        start = max(start, end - asked.limit)
    decode = decoder_of(topic.name)
    if decode is None and asked.show is Show.RECORDS:
        say_note(_WARNING)
    async with aclosing(stored_batches(cluster, topic, number, start, end)) as stored:
        async for seen in stored:
            if decode is None and asked.show is Show.HEADERS:
                yield header_row(number, seen)
            elif not seen.header.is_control:
                for record in seen.records():
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


def _without_partition(name: str) -> str:
    return re.sub(r"-\d+$", "", name)
