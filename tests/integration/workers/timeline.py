"""What happened to each slot, from its positions: who took it when, and how long it stood still.

Positions carry the time of their commit, and the workers of a test share one clock, so the gap
between two commits of a slot under steady load is its stall, measured after the fact.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from mirrorfleet.kafka.control import read_to_end
from mirrorfleet.records import positions
from mirrorfleet.records.positions import Barrier, Position, Released

if TYPE_CHECKING:
    from services.local.region import Region


class Taking(NamedTuple):
    """A worker took a slot: last commit -> release (if any) -> barrier -> first commit, in ms."""

    slot: int
    owner: str
    last_ms: int
    released_ms: int | None
    time_ms: int
    first_ms: int

    @property
    def stall_s(self) -> float:
        """How long the slot stood still."""
        return (self.first_ms - self.last_ms) / 1000

    def __str__(self) -> str:
        released = "never" if self.released_ms is None else f"{self.released_ms - self.last_ms} ms"
        taken, first = self.time_ms - self.last_ms, self.first_ms - self.last_ms
        return f"slot {self.slot}: released {released}, taken {taken} ms, going {first} ms"


@dataclass
class Timeline:
    """One slot: commits as (time in ms, owner), and the takings between them."""

    slot: int
    commits: list[tuple[int, str]] = field(default_factory=list)
    takings: list[Taking] = field(default_factory=list)

    def stall_s(self, owner: str, begin_ms: int, end_ms: int) -> float:
        """The longest time between two commits of one owner within a span."""
        times = [t for t, who in self.commits if who == owner and begin_ms <= t <= end_ms]
        edges = [begin_ms, *times, end_ms]
        return max(b - a for a, b in pairwise(edges)) / 1000

    def owner_at(self, time_ms: int) -> str:
        """Who made the last commit before."""
        return next((who for t, who in reversed(self.commits) if t <= time_ms), "")


def timelines(target: Region, fleet: str) -> list[Timeline]:
    """Every slot of a fleet that ever committed, from its positions as they are now."""
    topic = f"__mirrorfleet.{fleet}.positions"
    records = asyncio.run(read_to_end(target.settings(), topic))
    found: dict[int, Timeline] = {}
    owners: dict[int, str] = {}
    released: dict[int, int] = {}
    waiting: dict[int, Taking] = {}
    for record in records:
        slot = record.partition
        line = found.setdefault(slot, Timeline(slot))
        entry = positions.decode(record.key, record.value)
        match entry:
            case Barrier() if owners.get(slot) != entry.owner:
                owners[slot] = entry.owner
                last_ms = line.commits[-1][0] if line.commits else 0
                waiting[slot] = Taking(
                    slot, entry.owner, last_ms, released.pop(slot, None), entry.time_ms, 0
                )
            case Released():
                released[slot] = entry.time_ms
            case Position():
                taking = waiting.pop(slot, None)
                if taking is not None and line.commits:
                    line.takings.append(taking._replace(first_ms=record.timestamp))
                line.commits.append((record.timestamp, owners.get(slot, "")))
            case _:
                pass
    return [found[slot] for slot in sorted(found)]
