"""`resolve`: the way out for a partition that stands still, asked of the fleet and answered by it.

    catalog, progress -> request in the commands topic -> the worker's event with the same id

The worker decides: what it stands at may have changed since we looked.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.faults import standing_in
from mirrorfleet.core.errors import BrokerError, ConfigError, DeadlineError, RefusedError
from mirrorfleet.core.ids import FleetName, Link, SourceOffset, TopicPartition
from mirrorfleet.core.names import control_topic
from mirrorfleet.kafka.control import ControlWriter
from mirrorfleet.kafka.control_tailing import PartitionTail
from mirrorfleet.kafka.offsets import LATEST, list_offsets
from mirrorfleet.mapping.catalog import CatalogView, read_catalog
from mirrorfleet.mapping.standing import newest_progress
from mirrorfleet.records import commands, events
from mirrorfleet.records.commands import Action, Command
from mirrorfleet.records.events import Event, EventKind
from mirrorfleet.records.topics import ControlKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.records.progress import PartitionProgress, Progress

PATIENCE_S: Final = 60.0
"""A request that nobody answers in this time has ended, and is not carried out later."""
_POLL_S: Final = 10.0
_RANGE: Final = re.compile(r"(\d{1,18})\.\.(\d{1,18})")


@dataclass(frozen=True, slots=True)
class Wish:
    """What an operator says; `first` and `end` None where the fleet knows them."""

    action: Action
    first: int | None = None
    end: int | None = None


def wish_of(accept_gap: str | None, seek: int | None, *, skip: bool) -> Wish:
    """One wish from the three options.

    Raises: ConfigError when it is not exactly one, or the range is none.
    """
    if [accept_gap is not None, seek is not None, skip].count(True) != 1:
        raise ConfigError(
            "one way out is wanted.", hint="Say --accept-gap FIRST..END, --seek OFFSET or --skip."
        )
    if accept_gap is None:
        return Wish(Action.SKIP) if seek is None else Wish(Action.SEEK, end=seek)
    found = _RANGE.fullmatch(accept_gap)
    if found is None or int(found[1]) > int(found[2]):
        raise ConfigError(
            f"--accept-gap {accept_gap!r} is no range of offsets.",
            hint="It is FIRST..END, END being the first offset that is not lost.",
        )
    return Wish(Action.ACCEPT_GAP, int(found[1]), int(found[2]))


async def resolve(
    target: Cluster, fleet: FleetName, link: Link, at: TopicPartition, wish: Wish, clock: Clock
) -> Event:
    """Ask, and wait for the ledger's entry.

    Raises: RefusedError (it does not stand still, or not at that; nothing has changed),
    DeadlineError when no worker answers, and as `read_catalog`.
    """
    entry = _entry(await read_catalog(target, fleet), link, at)
    told = _told(await newest_progress(target, fleet), entry)
    command = _command(entry, told, wish, clock.now_ms())
    answers = TopicPartition(control_topic(fleet, ControlKind.EVENTS), 0)
    tail = PartitionTail(target, answers.topic)
    writer = ControlWriter(target)
    try:
        end = (await list_offsets(target, {answers: LATEST}))[answers]
        if isinstance(end, BrokerError):
            raise end
        tail.start(answers.partition, end.offset)
        requests = TopicPartition(control_topic(fleet, ControlKind.COMMANDS), 0)
        await writer.write(requests, [commands.encode(command)], command.time_ms)
        async with asyncio.timeout(PATIENCE_S):
            return await _answer(tail, command)
    except TimeoutError:
        raise DeadlineError(
            f"no worker answered for {at} within {PATIENCE_S:g} s; the request has ended.",
            hint="Does a mirror run? See: mirrorfleet status.",
        ) from None
    finally:
        tail.close()
        writer.close()


async def _answer(tail: PartitionTail, command: Command) -> Event:
    while True:
        for record in await tail.poll(deadline_s=_POLL_S):
            event = events.decode(record.value)
            if not isinstance(event, Event) or event.request != command.id:
                continue
            if event.kind == EventKind.REQUEST_REFUSED:
                where = f"{command.topic}-{command.identity.partition}"
                raise RefusedError(f"{where}: {event.detail}", hint="Nothing has changed.")
            return event


def _entry(view: CatalogView, link: Link, at: TopicPartition) -> CatalogPartition:
    found = [
        entry
        for entry in view.of_link(link)
        if (entry.source_topic, entry.identity.partition) == (at.topic, at.partition)
    ]
    if not found:
        raise RefusedError(
            f"{link} copies no {at}.", hint="Name the source topic, with -PARTITION."
        )
    return max(found, key=lambda entry: entry.identity.incarnation)


def _told(progress: Iterable[Progress], entry: CatalogPartition) -> PartitionProgress:
    """What the owner of the slot said last of the partition."""
    for snapshot in sorted(progress, key=lambda each: each.time_ms, reverse=True):
        for one in snapshot.partitions:
            if one.identity == entry.identity:
                return one
    raise RefusedError(
        f"no worker has told of {entry.source_topic}-{entry.identity.partition} yet.",
        hint="See: mirrorfleet status.",
    )


def _command(entry: CatalogPartition, told: PartitionProgress, wish: Wish, now_ms: int) -> Command:
    stands = standing_in(told.fault)
    if stands is None:
        raise RefusedError(
            f"{entry.source_topic}-{entry.identity.partition} does not stand still"
            f" ({told.state}, next offset {told.next_source}).",
            hint="There is nothing to resolve.",
        )
    _, offset = stands
    first, end = {
        Action.ACCEPT_GAP: (wish.first, wish.end),
        Action.SEEK: (told.next_source, wish.end),
    }.get(wish.action, (offset, offset + 1))
    return Command(
        id=uuid.uuid4().hex,
        action=wish.action,
        identity=entry.identity,
        link=entry.link,
        topic=entry.source_topic,
        first=SourceOffset(first or 0),
        end=SourceOffset(end or 0),
        time_ms=now_ms,
        expires_ms=now_ms + int(PATIENCE_S * 1000),
        writer="mirrorfleet resolve",
    )
