"""What a slot begins with when it was taken."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.partition import SourceEnds
from mirrorfleet.core.ids import SourceOffset, TopicId, TopicPartition
from mirrorfleet.kafka.offsets import ListedOffset, OffsetSpec
from mirrorfleet.slots import starting
from mirrorfleet.slots.starting import Starts, resolve_starts
from mirrorfleet.slots.taking import admit
from tests.unit.copying.making import entry, identity, partition_of, slot

if TYPE_CHECKING:
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender

OTHER = TopicId(int=77)
NOTHING_NEW = Starts({}, {})


async def test_what_waited_through_a_take_waits_since_before_it_and_all_else_since_then() -> None:
    made = slot()
    sides = SimpleNamespace(topic_id=lambda topic: None)
    clock = SimpleNamespace(monotonic=lambda: 100.0, now_ms=lambda: 5)
    runner = SimpleNamespace(slot=made, clock=clock, unstarted={}, sources=sides, targets=sides)
    since = []
    for end, moved_to in ((50, 0), (0, 0), (50, 1)):
        partition = partition_of(made)
        partition.source, partition.progress_at = SourceEnds(end, end, 0), 5.0
        position = replace(partition.committed, next_source=SourceOffset(moved_to))
        made.forget_all()
        made.known[identity()] = position

        await admit(
            cast("SlotRunner", runner), cast("Sender", None), [partition.entry], NOTHING_NEW
        )
        since.append(partition_of(made).progress_at)

    assert since == [5.0, 100.0, 100.0]


@pytest.mark.parametrize("same", ["source", "target", "both"])
async def test_an_incarnation_that_another_one_has_followed_is_not_copied_again(same: str) -> None:
    made = slot()
    sides = SimpleNamespace(topic_id=lambda topic: None)
    clock = SimpleNamespace(monotonic=lambda: 100.0, now_ms=lambda: 5)
    runner = SimpleNamespace(slot=made, clock=clock, unstarted={}, sources=sides, targets=sides)
    old = partition_of(made)
    now = replace(old.identity, incarnation=1)
    if same == "source":
        now = replace(now, target_topic_id=OTHER)
    elif same == "target":
        now = replace(now, source_topic_id=OTHER)
    later = replace(old.committed, identity=now, next_source=SourceOffset(500))
    made.forget_all()
    made.known = {old.identity: old.committed, now: later}

    for known in (old.entry, replace(old.entry, identity=now)):
        await admit(cast("SlotRunner", runner), cast("Sender", None), [known], NOTHING_NEW)
        if known is old.entry:
            assert made.partitions == {}

    assert [each.committed.next_source for each in made.partitions.values()] == [500]


async def test_a_start_that_this_build_cannot_read_stops_that_partition_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[TopicPartition, OffsetSpec] = {}

    async def listed(
        _: object, specs: dict[TopicPartition, OffsetSpec], **__: object
    ) -> dict[TopicPartition, ListedOffset]:
        asked.update(specs)
        return {at: ListedOffset(offset=4, timestamp=0, leader_epoch=0) for at in specs}

    monkeypatch.setattr(starting, "list_offsets", listed)
    unreadable = ["sometime", "timestamp:soon", "offset:", "latest:3"]
    strange = [entry(number, start=start) for number, start in enumerate(unreadable)]
    readable = [entry(4, start="timestamp:" + "9" * 30), entry(5, start="offset:" + "9" * 30)]
    runner = cast("SlotRunner", SimpleNamespace(source=None))

    starts = await resolve_starts(runner, [*strange, *readable])

    assert set(starts.refused) == {each.identity for each in strange}
    assert "'sometime', is not known to this build" in str(starts.refused[identity(0)])
    assert starts.found == {identity(4): 4, identity(5): 2**63 - 1}
    assert list(asked.values()) == [OffsetSpec(2**63 - 1)]
