"""Who had each slot when, from its positions: takings, releases and commits with their times.

The target's broker stamps them, so the record of who owned what can be laid beside the moments at
which the judge saw copies move, whatever the workers' clocks say.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.records import positions, progress
from mirrorfleet.records.positions import Barrier, Position, Released
from mirrorfleet.records.progress import Progress
from tests.faultkit.control_topics import read_to_end
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import slots_of
from tests.judge.reading import At

if TYPE_CHECKING:
    from services.local.region import Region
    from tests.faultkit.process import ServiceProcess
    from tests.judge.stalls import Span


TOLD_S: Final = 30.0
"""Until the progress of a slot is there: it is written once a second."""


class Taking(NamedTuple):
    """A worker took a slot: last commit -> release (if any) -> barrier -> first commit, in ms."""

    slot: int
    owner: str
    last_ms: int
    released_ms: int | None
    time_ms: int
    first_ms: int

    def __str__(self) -> str:
        released = "never" if self.released_ms is None else f"{self.released_ms - self.last_ms} ms"
        taken, first = self.time_ms - self.last_ms, self.first_ms - self.last_ms
        return f"slot {self.slot}: released {released}, taken {taken} ms, going {first} ms"


@dataclass
class Timeline:
    """One slot: its partitions, the time of each commit, and each change of its owner."""

    slot: int
    partitions: set[int] = field(default_factory=set)
    last_ms: int = 0
    takings: list[Taking] = field(default_factory=list)

    def takings_in(self, span: Span) -> list[Taking]:
        """When another worker took the slot in a span."""
        return [one for one in self.takings if span.begin_ms <= one.time_ms <= span.end_ms]

    def owner_at(self, time_ms: int) -> str:
        """Who had taken the slot before."""
        return next((t.owner for t in reversed(self.takings) if t.time_ms <= time_ms), "")


def timelines(target: Region, fleet: str) -> list[Timeline]:
    """Every slot of a fleet that ever committed, from its positions as they are now."""
    topic = f"__mirrorfleet.{fleet}.positions"
    records = asyncio.run(read_to_end(target.settings(), topic))
    found: dict[int, Timeline] = {}
    released: dict[int, int] = {}
    waiting: dict[int, Taking] = {}
    for record in records:
        slot = record.partition
        line = found.setdefault(slot, Timeline(slot))
        entry = positions.decode(record.key, record.value)
        match entry:
            case Barrier() if slot in waiting and waiting[slot].owner == entry.owner:
                pass  # a snapshot repeats it
            case Barrier():
                came = released.pop(slot, None)
                taken = record.timestamp
                if line.owner_at(taken) != entry.owner:
                    waiting[slot] = Taking(slot, entry.owner, line.last_ms, came, taken, 0)
            case Released():
                released[slot] = record.timestamp
            case Position():
                taking = waiting.pop(slot, None)
                if taking is not None:
                    line.takings.append(taking._replace(first_ms=record.timestamp))
                line.last_ms = record.timestamp
                line.partitions.add(entry.identity.partition)
            case _:
                pass
    return [found[slot] for slot in sorted(found)]


def copied_by(worker: ServiceProcess, target: Region, fleet: str) -> list[At]:
    """The copies that are in slots which a worker holds now; it waits until the fleet tells of any.

    Open transactions in others tell nothing of it: on a busy machine they last long, too.
    """
    return wait_until(
        lambda: _told_to_copy(worker, target, fleet),
        deadline_s=TOLD_S,
        what=f"progress to tell of copies of {worker.name}",
    )


def _told_to_copy(worker: ServiceProcess, target: Region, fleet: str) -> list[At]:
    """Those of which progress was written: a second after a slot was taken it says nothing yet."""
    held = {slot["slot"] for slot in slots_of(worker)}
    found: dict[int, Progress] = {}
    for record in asyncio.run(read_to_end(target.settings(), f"__mirrorfleet.{fleet}.progress")):
        snapshot = progress.decode(record.key, record.value)
        if isinstance(snapshot, Progress):
            found[snapshot.slot] = snapshot
    return [
        At(each.target_topic, each.identity.partition)
        for slot, snapshot in found.items()
        if slot in held
        for each in snapshot.partitions
    ]
