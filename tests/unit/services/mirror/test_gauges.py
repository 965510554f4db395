from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.copying.lifecycle import SlotState
from services.mirror.reporting import Gauges

if TYPE_CHECKING:
    from mirrorfleet.slots.runner import SlotRunner


def test_a_link_whose_slots_were_all_lost_is_seen_to_have_no_worker() -> None:
    """A series that vanishes raises no alert; what the slots are at is their owner's to tell."""
    lost = cast("SlotRunner", SimpleNamespace(link="east->west", state=SlotState.LOST))
    gauges = Gauges(list, lambda: [lost])

    assert list(gauges.owned()) == [(("east->west",), 0)]
    assert list(gauges.since_progress()) == []
