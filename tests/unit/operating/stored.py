"""A target and a source made of dicts, into which positions are put back."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import NamedTuple

from mirrorfleet.core.errors import FencedError
from mirrorfleet.core.ids import (
    ClusterId,
    FleetName,
    PartitionIdentity,
    SourceOffset,
    TargetOffset,
    TopicPartition,
)
from mirrorfleet.kafka.fenced_writer import by_order
from mirrorfleet.kafka.offsets import EARLIEST, ListedOffset, OffsetSpec
from mirrorfleet.mapping.catalog import CatalogView
from mirrorfleet.records import positions as codec
from mirrorfleet.records.catalog import CatalogLink
from mirrorfleet.records.positions import Position, Quarantine
from mirrorfleet.wire.k01_fetch import Isolation
from tests.unit.copying.making import LINK, entry
from tests.unit.operating.making import at_80

FLEET = FleetName("west")
POSITIONS = TopicPartition("__mirrorfleet.west.positions", 0)


class Copy(NamedTuple):
    """The log of a copy: where it begins, its committed records, its end."""

    start: int
    records: tuple[int, ...]
    end: int


SOURCE = Copy(0, (), 300)
IDLE = Copy(0, tuple(range(91)), 92)
"""Copied as far as the export says, and the marker of that."""
MARKED = Copy(0, tuple(range(91)), 95)
"""The same, and markers of transactions that were aborted."""
AHEAD = Copy(0, (*range(91), 92, 93), 95)


@dataclass
class World:
    """A target made of dicts, and what a worker does before each take of the slot's id."""

    copies: dict[int, Copy]
    stored: dict[PartitionIdentity, Position] = field(default_factory=dict)
    meanwhile: deque[Callable[[], None]] = field(default_factory=deque)
    taken_back: int = 0
    """So many times the owner is faster than the write."""
    hidden: int = 0
    """Offsets of the positions that are open."""
    written: list[codec.Entry] = field(default_factory=list)
    read: list[TopicPartition] = field(default_factory=list)
    requests: int = 0
    """For offsets of logs."""
    source: Copy = SOURCE
    quarantine: Quarantine | None = None
    """What stands in the slot's positions."""

    def standing(self, number: int, source: int, copy: int) -> None:
        """A partition has a position now."""
        at = replace(
            at_80(number), next_source=SourceOffset(source), next_target=TargetOffset(copy)
        )
        self.stored[at.identity] = at

    async def read_catalog(self, *_: object) -> CatalogView:
        view = CatalogView()
        meant = ClusterId("east")
        view.apply(CatalogLink(link=LINK, source_cluster=meant, target_cluster=meant, slots=()))
        for number in self.copies:
            view.apply(entry(number))
        return view

    async def read_control(
        self, _: object, __: str, take: Callable[[SimpleNamespace], None]
    ) -> bool:
        for key, value in map(codec.encode, self.stored.values()):
            take(SimpleNamespace(key=key, value=value))
        return True

    async def log_bounds(
        self, _: object, at: TopicPartition, *, isolation: Isolation = Isolation.READ_COMMITTED
    ) -> tuple[int, int]:
        assert at == POSITIONS
        return 0, 7 - (self.hidden if isolation is Isolation.READ_COMMITTED else 0)

    async def list_offsets(
        self,
        _: object,
        wanted: Mapping[TopicPartition, OffsetSpec],
        *,
        isolation: Isolation = Isolation.READ_COMMITTED,
    ) -> dict[TopicPartition, ListedOffset]:
        del isolation
        self.requests += 1
        found = {}
        for at, spec in wanted.items():
            copy = self.copies[at.partition] if at.topic != "orders" else self.source
            found[at] = ListedOffset(copy.start if spec == EARLIEST else copy.end, -1, 0)
        return found

    async def first_committed(
        self, _: object, at: TopicPartition, start: int, end: int
    ) -> int | None:
        self.read.append(at)
        return next((n for n in self.copies[at.partition].records if start <= n < end), None)

    async def recall(self, *_: object) -> SimpleNamespace:
        found, held = dict(self.stored), self.quarantine
        return SimpleNamespace(positions=lambda: found, quarantine=lambda: held)

    def writer(
        self,
        _: object,
        name: str,
        *,
        on_taken: Callable[[], Awaitable[object]] = by_order,
        **__: object,
    ) -> SimpleNamespace:
        assert name == "mirrorfleet.west.east.0"

        async def write(
            at: TopicPartition, entries: Iterable[tuple[bytes, bytes | None]], _: int
        ) -> None:
            assert at == POSITIONS
            if self.meanwhile:
                self.meanwhile.popleft()()
            await on_taken()
            if self.taken_back:
                self.taken_back -= 1
                raise FencedError("another owner has it")
            self.written += [codec.decode(key, value) for key, value in entries]

        return SimpleNamespace(write=write, close=lambda: None)
