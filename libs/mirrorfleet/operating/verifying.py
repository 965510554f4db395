"""`verify`: a copied topic is read on both sides and compared, record by record.

catalog -> offset map, gap ledger -> what both logs hold -> committed records of both, in step
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mirrorfleet.config.flows import find_link
from mirrorfleet.config.load import load_estate
from mirrorfleet.core.errors import BrokerError, MirrorfleetError, RefusedError
from mirrorfleet.kafka.offsets import EARLIEST, list_offsets
from mirrorfleet.kafka.stored import bounds_that_are_told, committed_records
from mirrorfleet.mapping.asking import load_map, named
from mirrorfleet.mapping.catalog import read_catalog
from mirrorfleet.mapping.ledger import read_ledgers
from mirrorfleet.mapping.live import side_words, sides_seen
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.verifying import Bounds, Span, Step, Verified, place_in, span_of
from mirrorfleet.operating.connecting import open_cluster
from mirrorfleet.operating.terminal import (
    EXIT_ERROR,
    EXIT_OK,
    EXIT_UNHEALTHY,
    Output,
    say_note,
    show,
)
from mirrorfleet.records.overview import shown
from mirrorfleet.runtime.clock import SystemClock

if TYPE_CHECKING:
    from mirrorfleet.core.ids import FleetName, Link, PartitionIdentity, TopicPartition
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.offsets.floors import Sides
    from mirrorfleet.offsets.ledger import Ledger
    from mirrorfleet.operating.usage import Where
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.wire.records import Record

COLUMNS: Final = (
    "outcome",
    "topic",
    "partition",
    "first",
    "end",
    "equal",
    "missing",
    "explained",
    "changed",
    "extra",
)
INTACT: Final = "intact"
DIFFERENT: Final = "DIFFERENT"
UNREAD: Final = "not read"
NOTHING: Final = "nothing there"
Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Wanted:
    """TOPIC or TOPIC-PARTITION of the source, and which offsets of each partition: `most` from
    `first` on, or the last ones.
    """

    topic: str
    first: int | None
    most: int


def run(where: Where, wanted: Wanted, output: Output) -> int:
    """Prints a row a partition. Exit 2 where both sides differ, 1 where one cannot be read."""
    estate = load_estate(where.file)
    link = find_link(estate, where.target, where.source).link
    fleet = estate.fleet_of(link.target)

    async def ask() -> list[Row]:
        async with (
            open_cluster(estate, link.source) as source,
            open_cluster(estate, link.target) as target,
        ):
            return await verified(source, target, fleet, link, wanted, SystemClock())

    rows = asyncio.run(ask())
    show(output, COLUMNS, rows, "", if_any=("explained",))
    for row in rows:
        if row["words"]:
            say_note(f"{row['topic']}-{row['partition']}: {row['words']}")
    outcomes = {row["outcome"] for row in rows}
    if UNREAD in outcomes:
        return EXIT_ERROR
    return EXIT_UNHEALTHY if DIFFERENT in outcomes else EXIT_OK


async def verified(
    source: Cluster, target: Cluster, fleet: FleetName, link: Link, wanted: Wanted, clock: Clock
) -> list[Row]:
    """Each partition of a copied topic.

    Raises: RefusedError when it is not copied by this link, or the source is not the cluster that
    the catalog means; as `load_map`. What keeps one partition from being read is in its row.
    """
    view = await read_catalog(target, fleet)
    view.known_link(link, fleet)
    view.check_source(link.source, source.cluster_id, fleet)
    entries = named(shown(view.of_link(link)), wanted.topic)
    if not entries:
        raise RefusedError(
            f"{link} copies no {wanted.topic!r}.", hint=f"See: mirrorfleet explain {wanted.topic}"
        )
    follower = await load_map(target, fleet, {entry.slot for entry in entries}, clock)
    copies = Copies(entries, follower.index, view.losses)
    # behind the map, so that what that passes is told
    ledgers = await read_ledgers(target, fleet, entries)
    sides = await sides_seen(source, target, entries)
    words = {entry.source: _side_words(entry, sides[entry.identity]) for entry in entries}
    bounds = await _bounds(source, target, [one for one in entries if not words[one.source]])
    rows: list[Row] = []
    for entry in entries:
        told = words[entry.source] or bounds[entry.source]
        if isinstance(told, Bounds):
            span = span_of(copies, entry, told, wanted.first, wanted.most)
            rows.append(
                _row(entry, NOTHING, words="nothing of it is copied and kept on both sides")
                if span is None
                else await _compared(source, target, entry, span, _begun(copies, entry, ledgers))
            )
        else:
            rows.append(_row(entry, UNREAD, words=str(told)))
    return rows


def _side_words(entry: CatalogPartition, sides: Sides) -> str:
    """Why the map may be of another topic than one that is there now."""
    gone, unsure = side_words(entry, sides)
    return gone or unsure


async def _bounds(
    source: Cluster, target: Cluster, entries: Sequence[CatalogPartition]
) -> dict[TopicPartition, Bounds | BrokerError]:
    """Of one topic. One that is gone would be asked for until the deadline."""
    if not entries:
        return {}
    topic = await source.topic(entries[0].source_topic, refresh=True)
    numbers = [entry.identity.partition for entry in entries]
    here = await bounds_that_are_told(source, topic, numbers)
    there = await list_offsets(target, {entry.target: EARLIEST for entry in entries})
    found: dict[TopicPartition, Bounds | BrokerError] = {}
    for entry in entries:
        told, begin = here[entry.identity.partition], there[entry.target]
        if isinstance(told, BrokerError):
            found[entry.source] = told
        elif isinstance(begin, BrokerError):
            found[entry.source] = begin
        else:
            found[entry.source] = Bounds(*told, begin.offset)
    return found


def _begun(
    copies: Copies, entry: CatalogPartition, ledgers: Mapping[PartitionIdentity, Ledger]
) -> Verified:
    ledger = ledgers[entry.identity]
    return Verified(place_in(copies, entry), ledger, is_retimed=entry.target_append_time)


async def _compared(
    source: Cluster, target: Cluster, entry: CatalogPartition, span: Span, found: Verified
) -> Row:
    try:
        await _in_step(source, target, entry, span, found)
    except MirrorfleetError as error:
        return _row(entry, UNREAD, span, found, str(error))
    return _row(entry, INTACT if found.is_intact else DIFFERENT, span, found, _words(entry, found))


async def _in_step(
    source: Cluster, target: Cluster, entry: CatalogPartition, span: Span, found: Verified
) -> None:
    number = entry.identity.partition
    here = await source.topic(entry.source_topic, refresh=True)
    there = await target.topic(entry.target_topic, refresh=True)
    async with (
        aclosing(committed_records(source, here, number, span.first, span.end)) as ours,
        aclosing(
            committed_records(target, there, number, span.target_first, span.target_end)
        ) as theirs,
    ):
        one, other = await _next(ours, span.end), await _next(theirs, span.target_end)
        while one is not None or other is not None:
            step = found.step(one, other)
            if step is not Step.TARGET:
                one = await _next(ours, span.end)
            if step is not Step.SOURCE:
                other = await _next(theirs, span.target_end)


async def _next(records: AsyncIterator[Record], end: int) -> Record | None:
    """The next one below `end`; a batch may go beyond it."""
    record = await anext(records, None)
    return record if record is not None and record.offset < end else None


def _words(entry: CatalogPartition, found: Verified) -> str:
    """Where they differ, and whether compaction may have done it."""
    kinds: Mapping[str, object] = {
        "missing on the target, at the source's": found.missing,
        "changed, at the source's": found.changed,
        "on the target alone, at its": found.extra,
    }
    told = [f"{what} {each}" for what, each in kinds.items() if str(each)]
    if found.explained.count:
        told.append(f"not copied, as the gap ledger tells, at the source's {found.explained}")
    if not found.is_intact and (entry.source_compacted or entry.target_compacted):
        told.append("it is compacted, which each side does in its own time")
    return "; ".join(told)


def _row(
    entry: CatalogPartition,
    outcome: str,
    span: Span | None = None,
    found: Verified | None = None,
    words: str = "",
) -> Row:
    return {
        "outcome": outcome,
        "topic": entry.source_topic,
        "partition": entry.identity.partition,
        "target_topic": entry.target_topic,
        "first": None if span is None else span.first,
        "end": None if span is None else span.end,
        "equal": None if found is None else found.equal,
        "missing": None if found is None else found.missing.count,
        "explained": None if found is None else found.explained.count,
        "changed": None if found is None else found.changed.count,
        "extra": None if found is None else found.extra.count,
        "words": words or None,
    }
