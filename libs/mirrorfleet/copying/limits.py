"""What limits a slot now: the worker's core, the target, the line, memory, the source. Pure.

    looked at once a second ─> what each look says ─> what most of the last ones say, in words

A queue tells which side is slow: batches that wait mean that the target takes no more, empty queues
with a backlog that the source brings no more. Far away that is the line: each connection brings
what may be under way on it in a round trip, and no more are allowed or pay.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mirrorfleet.copying.slot import Slot

LOOKS: Final = 10
"""Seconds that count."""
BUSY: Final = 0.85
"""Of a core: one thread copies, and nothing is left for it."""
FULL: Final = 0.9
"""Of the memory budget."""


class Limit(StrEnum):
    """What to change to copy faster."""

    NOTHING = "nothing"
    UNTAKEN = "untaken"
    """Found elsewhere: such a slot has no partitions to look at."""
    UNREACHABLE = "unreachable"
    URGENT = "urgent"
    CPU = "cpu"
    TARGET = "target"
    WINDOW = "window"
    MEMORY = "memory"
    ROUND_TRIP = "round-trip"
    PARTITION = "partition"
    SOURCE = "source"


@dataclass(slots=True)
class FarLine:
    """Connections to one source broker far away. `bytes_s`: what all brought in the last second.

    `is_crowded`: more are wanted, and the worker's other slots have the rest of `most`.
    `is_capped`: that is less than `fetch_connections`, which then is no remedy.
    """

    rtt_s: float
    connections: int
    most: int
    bytes_s: float = 0.0
    is_crowded: bool = False
    is_capped: bool = False

    @property
    def is_full(self) -> bool:
        """Whether there may be no more of them, be they ours or other slots'."""
        return self.is_crowded or self.connections >= self.most

    @property
    def under_way(self) -> float:
        """Bytes that a connection brings in a round trip."""
        return self.bytes_s * self.rtt_s / max(self.connections, 1)


class Look(NamedTuple):
    """A slot at one moment. `waiting`: partitions behind whose batches wait to be sent; `held`:
    those that are not fetched now, because the worker has a more urgent backlog; `away`: those
    whose source broker does not answer, of which nobody knows whether they are behind.

    `memory` and `cpu` are shares, of the process's budget and of one core.
    """

    partitions: int
    behind: int
    waiting: int
    memory: float
    cpu: float
    line: FarLine | None
    held: int = 0
    away: int = 0


class Found(NamedTuple):
    """The limit, and why with the figures that say so."""

    limit: Limit
    why: str


def look_at(slot: Slot, lines: Iterable[FarLine], *, memory: float, cpu: float) -> Look:
    """The moment of a slot; of several lines the one with most connections."""
    every = list(slot.partitions.values())
    going = [each for each in every if each.fault is None and each.entry.is_active]
    late = [each for each in going if each.reachable and not each.at_end]
    behind = [each for each in late if not slot.waits(each)]
    line = max(lines, key=lambda each: each.connections, default=None)
    waiting = sum(bool(each.queue) for each in behind)
    held = len(late) - len(behind)
    away = sum(not each.reachable for each in going)
    return Look(len(every), len(behind), waiting, memory, cpu, line, held, away)


def limit_of(look: Look) -> Limit:
    """The first rule that holds, from what is nearest to us to what is farthest."""
    return next(limit for limit, holds in _RULES if holds(look))


class Limits:
    """The last looks at a slot, and its lines to brokers far away by node."""

    __slots__ = ("_looks", "lines")

    def __init__(self) -> None:
        self.lines: dict[int, FarLine] = {}
        self._looks: deque[Look] = deque(maxlen=LOOKS)

    def looked(self, look: Look) -> None:
        """One more second."""
        self._looks.append(look)

    def found(self) -> Found:
        """What most of the last looks say; of the same number the newest."""
        limits = [limit_of(look) for look in reversed(self._looks)]
        if not limits:
            return Found(Limit.NOTHING, "not looked at yet")
        limit = Counter(limits).most_common(1)[0][0]
        newest = next(look for look in reversed(self._looks) if limit_of(look) is limit)
        return Found(limit, _WORDS[limit](newest))


_RULES: Final[tuple[tuple[Limit, Callable[[Look], bool]], ...]] = (
    (Limit.UNREACHABLE, lambda look: bool(look.away) and not look.behind and not look.held),
    (Limit.NOTHING, lambda look: not look.behind and not look.held),
    (Limit.URGENT, lambda look: not look.behind),
    (Limit.CPU, lambda look: look.cpu >= BUSY),
    (Limit.TARGET, lambda look: 2 * look.waiting > look.behind),
    (Limit.WINDOW, lambda look: look.line is not None and look.line.is_full),
    (Limit.MEMORY, lambda look: look.memory >= FULL),
    (Limit.ROUND_TRIP, lambda look: look.line is not None),
    (Limit.PARTITION, lambda look: look.behind == 1 < look.partitions),
    (Limit.SOURCE, lambda _look: True),
)


def _window(look: Look) -> str:
    line = look.line or FarLine(0.0, 0, 0)
    others = f", other slots have the rest of {line.most}" if line.is_crowded else ""
    remedy = "" if line.is_capped else ", or fetch_connections"
    return (
        f"each of {line.connections} connections brings {line.under_way / 1e3:,.0f} KB in a round"
        f" trip of {line.rtt_s * 1e3:,.0f} ms{others}: raise socket.send.buffer.bytes of the"
        f" source{remedy}"
    )


def _round_trip(look: Look) -> str:
    line = look.line or FarLine(0.0, 0, 0)
    return (
        f"a round trip of {line.rtt_s * 1e3:,.0f} ms: {line.connections} connections bring"
        f" {line.bytes_s / 1e6:,.0f} MB/s, and more of them brought no more"
    )


_WORDS: Final[dict[Limit, Callable[[Look], str]]] = {
    Limit.NOTHING: lambda _look: "all that the source has is copied as it comes",
    Limit.UNREACHABLE: lambda look: (
        f"the source's brokers do not answer for {look.away} of {look.partitions} partitions; what"
        " else it has is copied as it comes"
    ),
    Limit.URGENT: lambda look: (
        f"{look.held} partitions behind wait: the worker has a more urgent backlog"
    ),
    Limit.CPU: lambda look: f"the worker uses {look.cpu:.0%} of a core: add a worker",
    Limit.TARGET: lambda look: (
        f"{look.waiting} of {look.behind} partitions behind have batches that wait: the target's"
        " brokers take no more"
    ),
    Limit.WINDOW: _window,
    Limit.MEMORY: lambda look: f"{look.memory:.0%} of memory_bytes is in use: raise it",
    Limit.ROUND_TRIP: _round_trip,
    Limit.PARTITION: lambda look: (
        f"one partition of {look.partitions} is behind, and nothing of it waits: its leader brings"
        " no more"
    ),
    Limit.SOURCE: lambda look: (
        f"nothing of {look.behind} partitions behind waits: the source's brokers bring no more"
    ),
}
