"""`resolve`: the way out for a partition that stands still, asked of the fleet and answered by it.

    catalog, progress -> request in the commands topic -> the worker's event with the same id

The worker decides: what it stands at may have changed since we looked. Where it takes a new
incarnation it asks `sync` in turn, and what it asks outlives the operator's request.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.faults import FaultReason, standing_in
from mirrorfleet.core.errors import (
    BrokerError,
    ConfigError,
    DeadlineError,
    MirrorfleetError,
    RefusedError,
)
from mirrorfleet.core.ids import FleetName, Link, SourceOffset, TopicPartition
from mirrorfleet.core.names import control_topic
from mirrorfleet.kafka.control import ControlWriter, read_up_to
from mirrorfleet.kafka.control_tailing import PartitionTail
from mirrorfleet.kafka.offsets import LATEST, list_offsets
from mirrorfleet.mapping.catalog import CatalogView, read_catalog
from mirrorfleet.mapping.standing import newest_progress
from mirrorfleet.operating.terminal import say_note
from mirrorfleet.records import commands, events
from mirrorfleet.records.commands import Action, Command
from mirrorfleet.records.events import Event, EventKind
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.views.format import moment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.kafka.control import ControlRecord
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.records.progress import PartitionProgress, Progress

PATIENCE_S: Final = 60.0
"""A request that no worker takes in this time has ended, and is not carried out later.

One that was taken may be: what the worker asks of `sync` then has a longer life of its own.
"""
_POLL_S: Final = 10.0
_NEXT: Final[dict[str, str]] = {
    FaultReason.POSITION_LOST: "See: mirrorfleet positions import --help.",
    FaultReason.SOURCE_DENIED: "Grant it; then it begins by itself.",
    FaultReason.SOURCE_MISSING: "Once the topic is there and shown to us it begins by itself.",
    FaultReason.QUARANTINED: "Bring the replicas of its target partition back in sync: when"
    " the last transaction has ended there, it goes on by itself.",
}
"""What to do about a fault that no request moves."""
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
    """Ask, note until when that holds, and wait for the ledger's entry.

    Raises: RefusedError (it does not stand still, or not at that; nothing has changed),
    DeadlineError when no worker answers, or `sync` makes no new incarnation, and as `read_catalog`.
    What was asked may be done all the same: whoever raises says until when.
    """
    entry = _entry(await read_catalog(target, fleet), link, at)
    unread: dict[int, MirrorfleetError] = {}
    snapshots = await newest_progress(target, fleet, unread)
    if entry.slot in unread:
        raise unread[entry.slot]
    told = _told(snapshots, entry)
    command = _command(entry, told, wish, clock.now_ms())
    answers, requests = (
        TopicPartition(control_topic(fleet, kind), 0)
        for kind in (ControlKind.EVENTS, ControlKind.COMMANDS)
    )
    tail = PartitionTail(target, answers.topic)
    writer = ControlWriter(target)
    try:
        tail.start(answers.partition, await _end(target, answers))
        since = await _end(target, requests)
        try:
            await writer.write(requests, [commands.encode(command)], command.time_ms)
        except DeadlineError as error:
            raise _unheard(at, "nobody knows whether it was written", error) from None
        say_note(_asked_words(command, clock.now_ms()))
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await _answer(tail, command)
        except TimeoutError:
            raise await _unanswered(target, requests, since, command, clock) from None
        except RefusedError:
            raise
        except MirrorfleetError as error:
            raise _unheard(at, "its answer cannot be read", error) from None
    finally:
        tail.close()
        writer.close()


async def _end(target: Cluster, at: TopicPartition) -> int:
    end = (await list_offsets(target, {at: LATEST}))[at]
    if isinstance(end, BrokerError):
        raise end
    return end.offset


async def _asked_until(
    target: Cluster, requests: TopicPartition, since: int, command: Command, clock: Clock
) -> int | None:
    """When what a worker asked of `sync` for this request ends; None: it asked nothing."""
    found: list[int] = []

    def look(record: ControlRecord) -> bool:
        match commands.decode(record.value):
            case Command(action=Action.BEGIN_ANEW, request=command.id) as asked:
                found.append(commands.ends_ms(asked, min(record.timestamp, clock.now_ms())))
        return False

    end = await _end(target, requests)
    await read_up_to(target, requests, look, deadline_s=_POLL_S, start_offset=since, end_offset=end)
    return max(found, default=None)


def _asked_words(command: Command, written_ms: int) -> str:
    """Said at once: who stops waiting would else not know that it may still be done."""
    until = moment(commands.ends_ms(command, written_ms))
    return f"asked: a worker may take it until {until} UTC, also if this command is stopped"


def _unheard(at: TopicPartition, what: str, error: MirrorfleetError) -> DeadlineError:
    return DeadlineError(
        f"the request for {at}: {what}: {error}",
        hint=f"A worker may still take it within {PATIENCE_S:g} s, and what it takes is done."
        " See: mirrorfleet status.",
    )


async def _unanswered(
    target: Cluster, requests: TopicPartition, since: int, command: Command, clock: Clock
) -> DeadlineError:
    at = TopicPartition(command.topic, command.identity.partition)
    try:
        until_ms = await _asked_until(target, requests, since, command, clock)
    except MirrorfleetError as error:
        return _unheard(at, "nobody knows whether a worker took it", error)
    if until_ms is None and command.action is Action.SKIP:
        return DeadlineError(
            f"no worker has told within {PATIENCE_S:g} s that it went on with {at}.",
            hint="Where one took the request it leaves the record out with its next commit there,"
            " whatever is changed meanwhile; none takes it any more. See: mirrorfleet status.",
        )
    if until_ms is None:
        return DeadlineError(
            f"no worker answered for {at} within {PATIENCE_S:g} s; the request has ended.",
            hint="Does a mirror run? See: mirrorfleet status.",
        )
    return DeadlineError(
        f"a worker took the request for {at} and asked `sync` for a new incarnation, which was not"
        f" made within {PATIENCE_S:g} s.",
        hint=f"Until {moment(until_ms)} UTC `sync` still makes it when it runs; where `apply` is"
        " manual, `mirrorfleet apply` does, at once.",
    )


async def _answer(tail: PartitionTail, command: Command) -> Event:
    while True:
        for record in await _polled(tail):
            event = events.decode(record.value)
            if not isinstance(event, Event) or event.request != command.id:
                continue
            if event.kind == EventKind.REQUEST_REFUSED:
                where = f"{command.topic}-{command.identity.partition}"
                raise RefusedError(f"{where}: {event.detail}", hint="Nothing has changed.")
            return event


async def _polled(tail: PartitionTail) -> list[ControlRecord]:
    """Also through a move of the ledger's leader, which is no answer."""
    while True:
        try:
            return await tail.poll(deadline_s=_POLL_S)
        except DeadlineError:
            await asyncio.sleep(0)


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


def _stands_at(entry: CatalogPartition, told: PartitionProgress) -> SourceOffset:
    """The offset of what a request can move. Raises: RefusedError, with the fault's own text."""
    where = str(entry.source)
    if not told.fault:
        raise RefusedError(
            f"{where} does not stand still ({told.state}, next offset {told.next_source}).",
            hint="There is nothing to resolve.",
        )
    # a newer worker may tell of a fault in words that we do not know: they are for a person, too
    reason, offset = standing_in(told.fault) or ("", SourceOffset(-1))
    if offset < 0 or reason == FaultReason.QUARANTINED:
        raise RefusedError(
            f"{where} stands at what no request moves ({told.fault}).",
            hint=_NEXT.get(reason, "Nothing has changed."),
        )
    return offset


def _command(entry: CatalogPartition, told: PartitionProgress, wish: Wish, now_ms: int) -> Command:
    offset = _stands_at(entry, told)
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
