"""Metadata that does not fit the catalog, of a side that is away: what is said of it, and when."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from unittest.mock import AsyncMock
from uuid import UUID

import pytest

from mirrorfleet.copying.faults import FaultReason
from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.slots import freshness, succession
from mirrorfleet.slots.freshness import Freshness
from mirrorfleet.slots.starting import NOTHING_NEW
from mirrorfleet.slots.taking import admit
from tests.unit.copying.making import LINK, SOURCE_TOPIC, entry, identity, partition_of, slot
from tests.unit.views.making import report

if TYPE_CHECKING:
    from mirrorfleet.copying.faults import Fault
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.core.ids import TopicId
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender

OTHER = UUID(int=0xC)


class Side:
    """A side whose metadata is not to be had now; what its table says is of before."""

    def __init__(self, topic_id: TopicId) -> None:
        self._topic_id = topic_id
        self.as_of = 0.0
        self.renewals = 0

    def topic_id(self, topic: str) -> TopicId:
        del topic
        return self._topic_id

    async def renewed(self) -> None:
        self.renewals += 1
        await asyncio.Event().wait()

    renew = renewed

    def ask(self) -> None:
        pass


class Admitting:
    """A slot with one partition, which is admitted while a side is away."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, source: TopicId, target: TopicId
    ) -> None:
        monkeypatch.setattr(freshness, "WAIT_S", 0.05)
        told = {identity(): report(entry(), high_watermark=SourceOffset(90))}
        monkeypatch.setattr(succession, "last_told", AsyncMock(return_value=told))
        self.slot = slot()
        known = {identity(): partition_of(self.slot).committed}
        self.slot.forget_all()
        self.slot.known = known
        self.sources, self.targets = Side(source), Side(target)
        self.said: list[FaultReason] = []
        clock = SimpleNamespace(monotonic=lambda: 1.0, now_ms=lambda: 5)
        self.runner = SimpleNamespace(
            slot=self.slot,
            link=LINK,
            clock=clock,
            unstarted={},
            sources=self.sources,
            targets=self.targets,
            doubts=SimpleNamespace(doubt=lambda _: None),
            freshness=Freshness(cast("Clock", clock)),
            stop_partition=self._stop,
        )

    def _stop(self, partition: CopyPartition, fault: Fault) -> None:
        del partition
        self.said.append(fault.reason)

    async def admit(self) -> None:
        runner, sender = cast("SlotRunner", self.runner), cast("Sender", None)
        async with asyncio.timeout(5):
            await admit(runner, sender, [entry()], NOTHING_NEW)


async def test_what_the_topic_is_of_a_source_that_is_away_is_not_said_and_its_copy_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = Admitting(monkeypatch, source=OTHER, target=identity().target_topic_id)

    await slow.admit()

    assert (list(slow.slot.partitions), slow.said) == ([identity()], [])
    assert (slow.sources.renewals, slow.targets.renewals) == (1, 0)


async def test_where_a_topic_ended_that_may_be_another_one_now_is_recalled_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its refusals say later what it is, and nobody has seen an end of it since."""
    slow = Admitting(monkeypatch, source=OTHER, target=identity().target_topic_id)

    await slow.admit()
    await succession.recall_ends(cast("SlotRunner", slow.runner))

    assert partition_of(slow.slot).source.high_watermark == 90


async def test_a_target_that_is_away_is_waited_for_once_and_judged_when_its_table_is_younger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long its metadata takes: nothing may be sent to what may be another topic."""
    slow = Admitting(monkeypatch, source=SOURCE_TOPIC, target=OTHER)

    for _ in range(3):
        with pytest.raises(DeadlineError):
            await slow.admit()
    assert (slow.said, slow.targets.renewals) == ([], 1)

    slow.targets.as_of = 1.0  # whoever keeps the table has renewed it
    await slow.admit()
    assert (slow.said, slow.targets.renewals) == ([FaultReason.TARGET_RECREATED], 1)
