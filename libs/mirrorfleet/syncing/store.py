"""The fleet's own topics: made, the catalog read and written, events written.

What is written is an upsert of what should be. The catalog is written in transactions that only the
active sync can commit: one that slept would give a partition a second slot. Before each use its end
is compared with what was written here, so that the records of others are read, not overwritten; and
once more when the id was taken, from when on nobody else can write: an operator's command may have
come in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, MirrorfleetError, OutdatedError, denied
from mirrorfleet.core.ids import FleetName, TopicPartition
from mirrorfleet.core.names import service_id
from mirrorfleet.kafka.admin import NewTopic, create_partitions, create_topics, records_of
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control import ControlWriter
from mirrorfleet.kafka.control_reading import read_below
from mirrorfleet.kafka.control_writer import write_waiting
from mirrorfleet.kafka.controller import in_requests
from mirrorfleet.kafka.fenced_writer import FencedWriter
from mirrorfleet.kafka.offsets import LATEST, list_offsets
from mirrorfleet.planning.book import CatalogBook
from mirrorfleet.records import catalog, events
from mirrorfleet.records.catalog import CatalogAcl, CatalogEntry, CatalogPartition, Removed
from mirrorfleet.records.formats import KNOWN_LEVEL
from mirrorfleet.records.topics import (
    ControlKind,
    TopicSpec,
    control_topic,
    control_topics,
    durability,
    replicas_on,
)
from mirrorfleet.runtime.log import fields, logger

if TYPE_CHECKING:
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.records.events import Event

COMMIT_MARKER: Final = 1
"""Offsets that the end of a transaction takes in the log."""
_RECORDS_A_WRITE: Final = 500
_EVENTS_KEPT: Final = 50_000
"""Events that wait while the target does not take them, more than a look at 10,000 new topics has;
the oldest go first."""
_EVENTS_S: Final = 5.0
"""Deadline of a write of events: what its topic does not take now is written later, and meanwhile
somebody is told why."""
_SHOWN_S: Final = 5.0
"""Longer than brokers take to hear of a topic that was made just now."""

_NEVER_AGAIN: Final = frozenset({ControlKind.CATALOG, ControlKind.REGISTRY})
"""An empty catalog says that nothing is copied, an empty registry that no record here is a copy.
Who deleted one must be asked: copying goes on from what the others know until a start makes it."""

_log = logger(__name__)


class Store:
    """Control topics of one fleet on its target."""

    def __init__(self, cluster: Cluster, fleet: FleetName, clock: Clock) -> None:
        self._cluster = cluster
        self._fleet = fleet
        self._clock = clock
        self._writer = ControlWriter(cluster, deadline_s=_EVENTS_S)
        self._fenced = FencedWriter(
            cluster,
            service_id(fleet, "sync"),
            may_take=self._may_take,
            on_taken=self._check_unchanged,
        )
        self.is_ours: Callable[[], Awaitable[bool]] | None = None
        """Whether this process is the active one; None for an operator, who always may write."""
        self._catalog = TopicPartition(control_topic(fleet, ControlKind.CATALOG), 0)
        self._events = TopicPartition(control_topic(fleet, ControlKind.EVENTS), 0)
        self._expected_end: int | None = None  # None: not read, nothing was decided on
        self._waiting: deque[Event] = deque(maxlen=_EVENTS_KEPT)
        self._dropped = 0
        self.waits = asyncio.Event()
        """Set while an event waits to be written."""
        self._flushing = asyncio.Lock()
        self._made = False
        self.book = CatalogBook()
        self.replication_factor = 0

    @property
    def durability(self) -> str:
        """What an acknowledged record survives here, in words."""
        return durability(self.replication_factor)

    def close(self) -> None:
        """Close the writers' connections."""
        self._writer.close()
        self._fenced.close()

    async def _may_take(self) -> bool:
        return self.is_ours is None or await self.is_ours()

    async def take(self) -> None:
        """Fence the sync that was active before: what it may still write is refused.

        What was read until now counts no longer: the next step is a `refresh`.
        """
        self.book, self._expected_end = CatalogBook(), None
        await self._fenced.take()

    async def wanted_topics(self, slots: int) -> tuple[list[TopicSpec], dict[str, int]]:
        """Control topics that are missing, and those with too few partitions for `slots` slots.

        Brokers that are down count, too: a factor stays as it was made. What `durability` says is
        of the topics that there are.

        Raises:
            MirrorfleetError: the target does not answer.
        """
        metadata = await self._cluster.metadata(None)
        factor = replicas_on(metadata.members)
        wanted = control_topics(self._fleet, slots=slots, replication_factor=factor)
        self.replication_factor = min(
            (
                len(partition.replicas)
                for spec in wanted
                if spec.name in metadata.topics
                for partition in metadata.topics[spec.name].partitions.values()
            ),
            default=factor,
        )
        short = {
            spec.name: spec.partitions
            for spec in wanted
            if spec.name in metadata.topics
            and 0 < len(metadata.topics[spec.name].partitions) < spec.partitions
        }
        return [spec for spec in wanted if spec.name not in metadata.topics], short

    async def ensure_topics(self, slots: int) -> None:
        """Create what is missing of the control topics; give the per-slot ones `slots` partitions.

        But no catalog in the place of one that was read: see `_NEVER_AGAIN`.

        Raises:
            BrokerError: the target refuses one, with the operation and the topic in its text.
        """
        specs, short = await self.wanted_topics(slots)
        if self.book.config is not None:
            specs = [spec for spec in specs if spec.name != self._catalog.topic]
        await self._create(specs)
        for some in in_requests(short.items(), lambda count: count[1]):
            self._raise_first("ALTER", await create_partitions(self._cluster, dict(some)))
        if specs or short:
            _log.info("control topics made", extra=fields(fleet=self._fleet, count=len(specs)))

    async def mend_topics(self, slots: int) -> list[str]:
        """Create again what somebody deleted since the start; gives the names.

        Raises: as `ensure_topics`.
        """
        kinds = [kind for kind in ControlKind if kind not in _NEVER_AGAIN]
        names = tuple(control_topic(self._fleet, kind) for kind in kinds)
        found = (await self._cluster.metadata(names)).topics
        absent = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        gone = {name for name in names if found[name].error is absent}
        if not gone:
            return []
        specs, _ = await self.wanted_topics(slots)
        return await self._create([spec for spec in specs if spec.name in gone])

    async def _create(self, specs: Sequence[TopicSpec]) -> list[str]:
        """The names of those that were not there. Raises: as `ensure_topics`."""
        made: list[str] = []
        for some in in_requests(specs, records_of):
            answers = await create_topics(self._cluster, [NewTopic.of(spec) for spec in some])
            self._raise_first("CREATE", answers)
            made += (name for name, error in answers.items() if error is None)
        return sorted(made)

    def _raise_first(self, operation: str, answers: dict[str, BrokerError | None]) -> None:
        for name, error in answers.items():
            if error is None or error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                continue
            if error.code is ErrorCode.INVALID_REPLICATION_FACTOR:
                error.retriable = True  # before KRaft a broker that restarts gets no replica
                error.hint = "It is tried again until enough brokers are up."
            if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise error
            raise self._denied(operation, name)

    def _denied(self, operation: str, topic: str) -> BrokerError:
        settings = self._cluster.settings
        code, who = ErrorCode.TOPIC_AUTHORIZATION_FAILED, settings.security.principal
        return denied(code, who, operation, f"Topic:{topic}", settings.alias)

    async def refresh(self) -> None:
        """Read the catalog again if somebody else has written to it.

        Raises:
            UnknownVersionError: a newer build has written it; MirrorfleetError: no answer.
        """
        topic = self._catalog.topic
        known = (await self._cluster.metadata((topic,))).topics[topic]
        if known.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._expected_end = self._expected_end or 0
            return
        if known.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise self._denied("READ", topic)
        end = await self._end()
        if end == self._expected_end:
            return
        self.book, self._expected_end = await self._read(end), end
        _log.info("catalog read", extra=fields(topic=topic, count=len(self.book.partitions)))

    async def check_made(self) -> None:
        """See that the catalog is there, and what was read: a broker that has just started does not
        know it yet, and what follows from an empty one must not be written over it.

        Raises: OutdatedError: it has what was not read; MirrorfleetError: nobody shows it in time.
        """
        await self._check_unchanged(_SHOWN_S)

    async def _check_unchanged(self, deadline_s: float | None = None) -> None:
        """Raises: OutdatedError when others have written since the catalog was read.

        An attempt that was aborted, ours or theirs, moves the end and changes nothing.
        """
        if self._expected_end is None or (end := await self._end(deadline_s)) == self._expected_end:
            return
        if not (await self._read(end)).is_same_as(self.book):
            raise OutdatedError(
                f"the catalog of fleet {self._fleet} was changed by another process since it was"
                " read; nothing that follows from what it said before was written.",
                hint="A command is run again; `sync` looks again by itself.",
            )
        self._expected_end = end

    async def _end(self, deadline_s: float | None = None) -> int:
        asked = {self._catalog: LATEST}
        listed = (await list_offsets(self._cluster, asked, deadline_s=deadline_s))[self._catalog]
        if isinstance(listed, BrokerError):
            raise listed
        return listed.offset

    async def _read(self, end: int) -> CatalogBook:
        """What it says up to there: over what a replaced leader lacks of it we would write."""
        book = CatalogBook()
        for record in await read_below(self._cluster, self._catalog, end):
            book.learn(catalog.decode(record.key, record.value))
        return book

    async def publish(
        self, entries: Iterable[CatalogEntry], forgotten: Iterable[CatalogAcl] = ()
    ) -> None:
        """Write entries, then the generation that they make up; nothing at all without entries.

        Raises:
            OutdatedError: somebody else has written since the last `refresh`; nothing was.
            MirrorfleetError: not all was written; what was is read back by the next `refresh`.
        """
        changed: list[CatalogEntry | Removed] = [*entries]
        changed += [Removed(catalog.acl_key(each), None, each) for each in forgotten]
        if not changed:
            return
        await self._write([*changed, self._next_config(self.level)])

    @property
    def level(self) -> int:
        """The format level in force, as of the last `refresh`.

        A fleet without a catalog begins with the newest: no build before ours has written in it,
        so there is none to go back to.
        """
        return KNOWN_LEVEL if self.book.config is None else self.book.config.format_level

    async def raise_level(self, level: int) -> None:
        """Have the fleet write another format from now on; `syncing.leveling` says when one may.

        Raises: as `publish`.
        """
        await self._write([self._next_config(level)])

    def _next_config(self, level: int) -> catalog.CatalogConfig:
        generation = 0 if self.book.config is None else self.book.config.generation
        return catalog.CatalogConfig(generation=generation + 1, format_level=level)

    async def _write(self, changed: Sequence[CatalogEntry | Removed]) -> None:
        for part in _parts(changed):
            await self._fenced.write(
                self._catalog, [_record(entry) for entry in part], self._clock.now_ms()
            )
            if self._expected_end is not None:
                self._expected_end += len(part) + COMMIT_MARKER
            for entry in part:
                self.book.learn(entry)

    async def _is_there(self, topic: str) -> bool:
        self._made = self._made or (
            (await self._cluster.metadata((topic,))).topics[topic].error is ErrorCode.NONE
        )
        return self._made

    def tell(self, event: Event) -> None:
        """Have an event written with the next `flush`."""
        self._dropped += len(self._waiting) == _EVENTS_KEPT
        self._waiting.append(event)
        self.waits.set()

    async def flush(self) -> str:
        """Write the waiting events; those that cannot be written wait on.

        Gives why they cannot, "" when nothing went wrong. One at a time: there is one queue.
        """
        async with self._flushing:
            if not self._waiting:
                return ""
            if self._dropped:
                _log.warning("events dropped, too many waited", extra=fields(count=self._dropped))
                self._dropped = 0
            try:
                if await self._is_there(self._events.topic):  # else nobody has agreed yet
                    await write_waiting(
                        self._writer,
                        self._events,
                        self._waiting,
                        events.encode,
                        self._clock.now_ms(),
                    )
            except MirrorfleetError as error:
                _log.warning("events cannot be written", extra=fields(error=str(error)))
                return str(error)
            if not self._waiting:
                self.waits.clear()
            return ""


def _parts(changed: Iterable[CatalogEntry | Removed]) -> Iterator[list[CatalogEntry | Removed]]:
    """What is written at once: of a topic all, if that is not too much, for partitions that are
    left out would count as new, and the end of one incarnation always with the next one's begin, or
    nobody would know that it is followed.
    """
    part: list[CatalogEntry | Removed] = []
    for _, copy in groupby(changed, key=_copy_of):
        entries = list(copy)
        if part and len(part) + len(entries) > _RECORDS_A_WRITE:
            yield part
            part = []
        for _, of_one in groupby(sorted(entries, key=_number_of), key=_number_of):
            ending = list(of_one)
            if len(part) + len(ending) > _RECORDS_A_WRITE:
                yield part
                part = []
            part += ending
    if part:
        yield part


def _copy_of(entry: CatalogEntry | Removed) -> object:
    if isinstance(entry, CatalogPartition):
        return entry.source_topic, entry.target_topic
    return type(entry)


def _number_of(entry: CatalogEntry | Removed) -> int:
    return entry.identity.partition if isinstance(entry, CatalogPartition) else 0


def _record(entry: CatalogEntry | Removed) -> tuple[bytes, bytes | None]:
    return (entry.key, None) if isinstance(entry, Removed) else catalog.encode(entry)
