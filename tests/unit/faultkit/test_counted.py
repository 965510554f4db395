"""What loads counted is demanded of the source, partition by partition."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from tests.faultkit.asked import Asked, counted
from tests.faults.regions import drill
from tests.faults.regions.drill import Drill
from tests.integration.workers.fleet import SECONDS, Workers
from tests.judge.verdict import Counted, Demands, Report, Verdict
from tests.load.tally import Tally

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faultkit.far import FarRegion
    from tests.faultkit.process import ServiceProcess
    from tests.faultkit.traffic import Traffic

ORDERS, CLICKS, OTHERS = ("orders", 0), ("clicks", 0), ("shared", 0)
REPORT = Report(Verdict.PASS, (), ())


def load(**committed: int) -> Traffic:
    """A load that has counted so many records in partition 0 of each topic."""
    tally = Tally(committed=Counter({(topic, 0): n for topic, n in committed.items()}))
    return cast("Traffic", SimpleNamespace(stop=lambda: tally))


def since(seconds: float) -> list[Asked]:
    return [Asked(1.0, time.monotonic() - seconds)]


def test_all_that_was_sent_somewhere_is_counted_there() -> None:
    tally = Tally(
        committed=Counter({ORDERS: 3, OTHERS: 9}),
        aborted=Counter({ORDERS: 5, CLICKS: 5}),
        unknown=Counter({ORDERS: 2}),
    )
    assert counted(tally, but={"shared"}) == {ORDERS: Counted(3, 2), CLICKS: Counted(0)}


@pytest.fixture
def demanded(monkeypatch: pytest.MonkeyPatch) -> list[Demands]:
    """What is demanded of runs, each of which passes."""
    seen: list[Demands] = []

    def judged(*_: object, demands: Demands, **__: object) -> Report:
        seen.append(demands)
        return REPORT

    roles = SimpleNamespace(topic_id=lambda name: name, partitions=lambda _: {})
    commits = SimpleNamespace(of=lambda _: {})
    monkeypatch.setattr(Drill, "roles", lambda *_: roles)
    monkeypatch.setattr(drill, "access", lambda _: None)
    monkeypatch.setattr(drill, "commits", lambda *_: commits)
    monkeypatch.setattr(drill, "judge", judged)
    monkeypatch.setattr(Workers, "judged", judged)
    return seen


def test_a_drill_demands_what_all_its_loads_counted(
    demanded: list[Demands], tmp_path: Path
) -> None:
    """Also one that ended before another began in the same partition."""
    side = SimpleNamespace(region=SimpleNamespace(brokers=[]), settings=lambda: None)
    pair = cast("dict[str, FarRegion]", {"east": side, "west": side})
    sync = cast("ServiceProcess", None)
    it = Drill("d", pair, tmp_path, ExitStack(), ["orders:1"], tmp_path, sync)
    it.shared.add("shared")
    for made in (2, 3):
        it.loads.append(load(orders=made, shared=made))
        it.asked += since(SECONDS)
        it.made = None
        it.judged(seconds=0.0)

    assert [each.counted for each in demanded] == [{ORDERS: Counted(2)}, {ORDERS: Counted(5)}]
    assert [each.records for each in demanded] == [3, 5], "of those that ended for this word"


@pytest.mark.parametrize("is_alone", [True, False])
def test_workers_under_load_demand_what_it_counted_unless_the_test_writes_too(
    demanded: list[Demands], *, is_alone: bool
) -> None:
    fleet = object.__new__(Workers)
    fleet.topic, fleet.shared = "orders", set() if is_alone else {"orders"}
    fleet.load, fleet.asked = load(orders=2), since(SECONDS)

    fleet.stop_load()
    fleet.judged_under_load()

    assert [each.counted for each in demanded] == [{ORDERS: Counted(2)} if is_alone else {}]
