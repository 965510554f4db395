from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.copying.budget import MemoryBudget
from mirrorfleet.copying.limits import Limit, Limits
from mirrorfleet.copying.partition import SourceEnds
from services.mirror.reporting import Looks
from tests.unit.copying.making import partition_of, slot

if TYPE_CHECKING:
    from mirrorfleet.slots.runner import SlotRunner


def test_the_share_of_a_core_is_that_of_the_time_since_the_last_look() -> None:
    budget = MemoryBudget(1 << 20)
    copying = slot(budget=budget)
    partition_of(copying).source = SourceEnds(100, 100, 0)
    runner = SimpleNamespace(slot=copying, limits=Limits(), budget=budget)
    spent = iter([10.0, 11.8])
    looks = Looks(lambda: next(spent))

    looks.look([cast("SlotRunner", runner)], 100.0)
    before = runner.limits.found().limit
    looks.look([cast("SlotRunner", runner)], 102.0)

    assert before is Limit.SOURCE
    assert runner.limits.found() == (Limit.CPU, "the worker uses 90% of a core: add a worker")
