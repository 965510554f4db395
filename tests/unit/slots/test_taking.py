"""What a slot begins with when it was taken."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.copying.partition import SourceView
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.slots.taking import Starts, admit
from tests.unit.copying.making import identity, partition_of, slot

if TYPE_CHECKING:
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender

NOTHING_NEW = Starts({}, {})


async def test_what_waited_through_a_take_waits_since_before_it_and_all_else_since_then() -> None:
    made = slot()
    sides = SimpleNamespace(topic_id=lambda topic: None)
    clock = SimpleNamespace(monotonic=lambda: 100.0, now_ms=lambda: 5)
    runner = SimpleNamespace(slot=made, clock=clock, unstarted={}, sources=sides, targets=sides)
    since = []
    for end, moved_to in ((50, 0), (0, 0), (50, 1)):
        partition = partition_of(made)
        partition.source, partition.progress_at = SourceView(end, end, 0), 5.0
        position = replace(partition.committed, next_source=SourceOffset(moved_to))
        made.forget_all()
        made.known[identity()] = position

        await admit(
            cast("SlotRunner", runner), cast("Sender", None), [partition.entry], NOTHING_NEW
        )
        since.append(partition_of(made).progress_at)

    assert since == [5.0, 100.0, 100.0]
