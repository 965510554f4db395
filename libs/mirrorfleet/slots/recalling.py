"""Reading a slot's positions up to a barrier of ours, no further back than its last snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.recall import GROWTH, WINDOW, Recall
from mirrorfleet.kafka.control import ControlRecord, read_up_to
from mirrorfleet.kafka.offsets import log_bounds
from mirrorfleet.records import positions as codec

if TYPE_CHECKING:
    from mirrorfleet.core.ids import TopicPartition
    from mirrorfleet.kafka.cluster import Cluster

READ_DEADLINE_S: Final = 120.0
Hint = tuple[int, int]
"""Where the positions began and ended a moment ago (`log_bounds`)."""


async def recall(
    target: Cluster,
    at: TopicPartition,
    barrier: codec.Entry | None,
    hint: Hint | None = None,
) -> Recall:
    """Everything that was committed before `barrier`; without one, before the read began.

    Where the log ends now (`hint`: its `log_bounds`) only says where to begin: the read goes on to
    the barrier. A read without a barrier may be old, so nothing may be copied on its word.

    Raises:
        UnknownVersionError: a record of a newer build; skipping it would rewind a partition.
    """
    found = Recall(None if barrier is None else codec.encode(barrier))
    log_start, end = hint or await log_bounds(target, at)
    begin = max(log_start, end - WINDOW)
    await _window(target, at, found, begin, end if barrier is None else None)
    size = WINDOW
    while not found.complete and begin > log_start:
        size *= GROWTH
        end, begin = begin, max(log_start, begin - size)
        await _window(target, at, found, begin, end)
    return found


async def check_versions(target: Cluster, at: TopicPartition) -> None:
    """Look once at what was written last.

    Raises:
        UnknownVersionError: a record of a newer build.
    """
    found = Recall(None)
    log_start, end = await log_bounds(target, at)
    await _window(target, at, found, max(log_start, end - WINDOW), end)
    found.positions()


async def _window(
    target: Cluster, at: TopicPartition, found: Recall, begin: int, end: int | None
) -> None:
    def take(record: ControlRecord) -> bool:
        return found.take(record.key, record.value)

    await read_up_to(
        target, at, take, deadline_s=READ_DEADLINE_S, start_offset=begin, end_offset=end
    )
    found.window_done()
