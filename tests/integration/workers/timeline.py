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
    """A worker took a slot. `stall_s` is from the commit before it to the commit after it."""

    slot: int
    owner: str
    time_ms: int
    was_released: bool
    stall_s: float


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


def timelines(target: Region, fleet: str) -> list[Timeline]:
    """Every slot of a fleet that ever committed, from its positions as they are now."""
    topic = f"__mirrorfleet.{fleet}.positions"
    records = asyncio.run(read_to_end(target.settings(), topic))
    found: dict[int, Timeline] = {}
    owners: dict[int, str] = {}
    released: set[int] = set()
    waiting: dict[int, Taking] = {}
    for record in records:
        slot = record.partition
        line = found.setdefault(slot, Timeline(slot))
        entry = positions.decode(record.key, record.value)
        match entry:
            case Barrier() if owners.get(slot) != entry.owner:
                owners[slot] = entry.owner
                waiting[slot] = Taking(slot, entry.owner, entry.time_ms, slot in released, 0.0)
                released.discard(slot)
            case Released():
                released.add(slot)
            case Position():
                taking = waiting.pop(slot, None)
                if taking is not None and line.commits:
                    stall_s = (record.timestamp - line.commits[-1][0]) / 1000
                    line.takings.append(taking._replace(stall_s=stall_s))
                line.commits.append((record.timestamp, owners.get(slot, "")))
            case _:
                pass
    return [found[slot] for slot in sorted(found)]
