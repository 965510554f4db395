"""What the ledger is told when one incarnation of a partition follows another, or none does."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from uuid import UUID

import pytest

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.copying.remedies import Step, by_policy, by_request
from mirrorfleet.core.ids import SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.kafka.offsets import ListedOffset
from mirrorfleet.offsets.index import PartitionMap
from mirrorfleet.records.catalog import CatalogLoss
from mirrorfleet.records.commands import Action
from mirrorfleet.records.incarnations import start_at
from mirrorfleet.slots import succession, target_loss
from tests.unit.copying.making import LINK, asked, entry, identity, slot, span
from tests.unit.offsets.making import run_of

if TYPE_CHECKING:
    from mirrorfleet.slots.runner import SlotRunner

OTHER = UUID(int=0xC)
COPIED = 1_000


async def found_missing(oldest: int, monkeypatch: pytest.MonkeyPatch) -> Fault:
    """What is said of a target topic that was made again, when the source begins there."""

    async def starts(_: object, wanted: dict[TopicPartition, object]) -> object:
        return {at: ListedOffset(oldest, -1, 0) for at in wanted}

    monkeypatch.setattr(target_loss, "list_offsets", starts)
    (partition,) = slot().partitions.values()
    position = replace(partition.committed, next_source=SourceOffset(COPIED))
    partition.committed = replace(position, next_target=TargetOffset(COPIED))
    known = PartitionMap()
    known.add(run_of(0, COPIED, 0))
    runner = SimpleNamespace(
        source=None,
        sources=SimpleNamespace(topic_id=lambda topic: None),
        targets=SimpleNamespace(topic_id=lambda topic: OTHER),
    )
    fault = Fault(FaultReason.TARGET_RECREATED, SourceOffset(COPIED), "made again")
    return await target_loss._exact(cast("SlotRunner", runner), partition, fault, known)


async def told_of(fault: Fault, step: Step | str | None) -> list[tuple[str, int, int, int | None]]:
    """The ledger's entries when `sync` has given the incarnation that the step asks for."""
    assert isinstance(step, Step)
    assert step.to is not None
    records = fault.records if step.span == fault.lost else None
    loss = CatalogLoss(cause=fault.reason, first=step.span.first, end=step.span.end)
    following = entry(
        identity=replace(identity(), target_topic_id=OTHER, incarnation=1),
        start=start_at(step.to),
        loss=replace(loss, records=records, request=step.request),
    )
    runner = SimpleNamespace(
        slot=slot(),
        clock=SimpleNamespace(now_ms=lambda: 1),
        owner="me",
        link=LINK,
        mender=SimpleNamespace(answered=lambda request: None),
    )
    events = await succession.told(cast("SlotRunner", runner), [following])
    return [(str(e.kind), e.first or 0, e.end or 0, e.records) for e in events]


@pytest.mark.parametrize(
    ("oldest", "copied_from", "ledger"),
    [
        (0, 0, [("rewound", 0, 1000, 1000)]),
        (700, 700, [("gap", 0, 700, None), ("rewound", 700, 1000, None)]),
        (1000, 1000, [("gap", 0, 1000, 1000)]),
        (2000, 1000, [("gap", 0, 1000, 1000)]),  # what is behind it, retention overtook
    ],
)
async def test_what_the_target_lost_and_the_source_no_longer_has_is_a_gap(
    oldest: int,
    copied_from: int,
    ledger: list[tuple[str, int, int, int | None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault = await found_missing(oldest, monkeypatch)
    step = by_policy(fault, "recopy")

    assert (fault.lost, fault.records) == (span(0, COPIED), COPIED)
    assert step is not None
    assert step.to == copied_from
    assert await told_of(fault, step) == ledger


@pytest.mark.parametrize("oldest", [0, 700, 2000])
async def test_all_that_the_target_lost_can_be_accepted_whatever_the_source_still_has(
    oldest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = await found_missing(oldest, monkeypatch)
    accept = asked(Action.ACCEPT_GAP, 0, COPIED)

    accepted = by_request(fault, SourceOffset(COPIED), accept)

    assert await told_of(fault, accepted) == [("gap", 0, 1000, 1000)]


@pytest.mark.parametrize(
    ("to", "ledger"),
    [
        (0, [("rewound", 0, 1000, 1000)]),  # and retention overtook [0, 700): found by fetching
        (700, [("gap", 0, 700, None)]),
        (1200, [("gap", 0, 1200, None)]),
    ],
)
async def test_of_what_the_target_lost_a_seek_leaves_a_gap_up_to_where_it_goes(
    to: int, ledger: list[tuple[str, int, int, int | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = await found_missing(700, monkeypatch)

    sought = by_request(fault, SourceOffset(COPIED), asked(Action.SEEK, COPIED, to))

    assert await told_of(fault, sought) == ledger
