"""What is answered to an operator who asks for a way out that does not fit, or is not his."""

from __future__ import annotations

import pytest

from mirrorfleet.copying.faults import FaultReason
from mirrorfleet.copying.partition import SourceEnds
from mirrorfleet.records.commands import Action
from tests.unit.copying.making import span
from tests.unit.slots.mended import World

R = FaultReason


@pytest.mark.parametrize("stands", [True, False])
async def test_a_request_that_does_not_fit_is_refused_once(*, stands: bool) -> None:
    world = World()
    if stands:
        world.stand(R.RETENTION_OVERTOOK, span(0, 9))
    world.partition.source = SourceEnds(9, 9, 0)
    world.ask(Action.ACCEPT_GAP, 0, 8)

    await world.work()
    await world.work()

    (event,) = world.worker.events
    assert (event.kind, event.request, event.first, event.end) == ("request-refused", "r1", 0, 8)
    assert event.detail == (
        "what it stands at is 0..9, not 0..8: retention-overtook at source offset 0: why"
        if stands
        else "it is being copied; nothing is in its way"
    )
    assert (world.written, world.partition.committed.next_source) == ([], 0)


async def test_a_request_about_what_a_rule_has_decided_is_refused_with_who_makes_it() -> None:
    world = World("record-gap")
    world.stand(R.SOURCE_TRUNCATED, span(0, 9))
    world.ask(Action.ACCEPT_GAP, 0, 9)

    await world.work()

    (event,) = world.worker.events
    assert event.kind == "request-refused"
    assert event.detail.startswith("its rule decides (on_source_loss: record-gap): `sync` is asked")
    assert [each.request for each in world.worker.asked] == [""]
