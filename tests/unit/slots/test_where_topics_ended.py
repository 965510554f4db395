"""Where topics that are gone ended, as far as an owner of before has told."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from unittest.mock import AsyncMock
from uuid import UUID

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import SourceOffset, TopicPartition
from mirrorfleet.records.catalog import CatalogLoss
from mirrorfleet.slots import succession
from tests.unit.copying.making import entry, identity, slot, span
from tests.unit.views.making import report

if TYPE_CHECKING:
    from mirrorfleet.slots.runner import SlotRunner

OTHER = UUID(int=0xC)
AT = TopicPartition("__mirrorfleet.west.progress", 0)


async def test_where_many_topics_ended_is_read_once_also_where_nobody_told_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A source that was built anew has a hundred of them in a slot, which stands meanwhile."""
    made = slot()
    followed = entry(
        identity=replace(identity(2), incarnation=1), loss=CatalogLoss(cause="source-recreated")
    )
    made.known = {identity(2): replace(made.partitions[identity()].committed, identity=identity(2))}
    runner = SimpleNamespace(
        slot=made,
        entries={identity(n): entry(n) for n in (0, 1)} | {followed.identity: followed},
        sources=SimpleNamespace(topic_id=lambda _: OTHER),
        targets=SimpleNamespace(topic_id=lambda _: None),
    )
    said = {identity(n): report(entry(n), high_watermark=SourceOffset(90)) for n in (0, 2)}
    asked = AsyncMock(return_value=said)
    monkeypatch.setattr(succession, "last_told", asked)

    spans = [
        await succession.unread(cast("SlotRunner", runner), identity(n), SourceOffset(50))
        for n in (0, 1, 2, 0, 1, 2)
    ]

    assert spans == [span(50, 90), span(50, 50), span(50, 90)] * 2
    assert asked.call_count == 1


async def test_who_cannot_tell_it_now_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the ledger would say that nothing was lost, of all that are gone."""
    refused = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, "ListOffsets")
    monkeypatch.setattr(succession, "list_offsets", AsyncMock(return_value={AT: refused}))
    runner = SimpleNamespace(slot=slot(), entries={}, target=None, control_partition=lambda _: AT)

    with pytest.raises(BrokerError, match="LEADER_NOT_AVAILABLE"):
        await succession.unread(cast("SlotRunner", runner), identity(), SourceOffset(50))

    assert runner.slot.ends == {}
