"""A sync that becomes active while what it needs is away waits, says so, and goes on by itself."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import httpx
import pytest

from mirrorfleet.kafka.coordinator import CoordinatorKind
from tests.faultkit.process import service
from tests.faultkit.proxy import BLACK_HOLE, held
from tests.faultkit.waiting import wait_until
from tests.faults.regions.drill import FLOWING_S, Drill, drill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.faultkit.far import FarRegion
    from tests.faultkit.process import ServiceProcess

HEIR_S: Final = 20.0
"""Deadline for the standby to be the active one."""
SAID_S: Final = 60.0
UNREACHED: Final = ("gave up", "no connection within", "no answer from")
"""Of a broker that was reached before, of one that takes no connection, and of a question to it."""

pytestmark = pytest.mark.timeout(400)


def said(sync: ServiceProcess) -> dict[str, str]:
    """What holds a sync back, by `/readyz`."""
    reasons: dict[str, str] = sync.get("/readyz").json()["reasons"]
    return reasons


@contextmanager
def standby_of(it: Drill, directory: Path) -> Iterator[ServiceProcess]:
    """A second sync, ready to take over from the drill's own."""
    it.sync.wait_ready(FLOWING_S)
    with service("sync", estate=it.estate, target="west", logs=directory / "second") as second:
        second.wait_ready(FLOWING_S)
        assert second.status()["role"] == "standby"
        yield second


def takes_over(it: Drill, second: ServiceProcess) -> None:
    """Kill the active one and see the other one become it."""
    it.sync.kill()
    wait_until(
        lambda: second.status()["role"] == "active",
        deadline_s=HEIR_S,
        what="the standby to be active",
        ignoring=(httpx.HTTPError,),
    )


def test_it_waits_for_its_only_source(pair: dict[str, FarRegion], tmp_path: Path) -> None:
    with drill("waits", pair, tmp_path) as it, standby_of(it, tmp_path) as second:
        gates = list(pair["east"].gates.values())
        try:
            for gate in gates:
                gate.refuse()
            takes_over(it, second)
            wait_until(
                lambda: "cannot connect" in said(second).get("link east->west", ""),
                deadline_s=SAID_S,
                what="the source to be named in /readyz",
            )
        finally:
            for gate in gates:
                gate.listen()
        second.wait_ready(FLOWING_S)


@pytest.mark.long
def test_it_waits_for_the_leader_of_its_catalog(pair: dict[str, FarRegion], tmp_path: Path) -> None:
    with drill("leaderless", pair, tmp_path) as it, standby_of(it, tmp_path) as second:
        roles = it.roles("west")
        group = roles.coordinator_of("mirrorfleet.leaderless.sync", CoordinatorKind.GROUP)
        away = next(node for node in pair["west"].nodes if node != group)
        roles.lead("__mirrorfleet.leaderless.catalog", away)
        wait_until(
            lambda: roles.leader("__mirrorfleet.leaderless.catalog", 0) == away,
            deadline_s=HEIR_S,
            what="the catalog to be led by another broker than the group",
        )
        with held([pair["west"].gates[away]], up=BLACK_HOLE, down=BLACK_HOLE):
            takes_over(it, second)
            wait_until(
                lambda: any(word in said(second).get("catalog", "") for word in UNREACHED),
                deadline_s=SAID_S,
                what="the catalog to be named in /readyz",
                ignoring=(httpx.HTTPError,),
            )
        second.wait_ready(FLOWING_S)
