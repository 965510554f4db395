"""Several `lag`s share the slots of a fleet: what a dead one watched goes to the others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.faultkit.hold import IS_LONG
from tests.faultkit.process import ServiceProcess, service
from tests.faultkit.waiting import wait_until
from tests.integration.lag.fleet import SLOTS, lag_fleet
from tests.integration.lag.pacing import samples_of
from tests.integration.mirror.making import create, numbered, put

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from services.local.region import Region
    from tests.integration.mirror.fleet import Fleet

TOPIC: Final = "lagpair-orders"
PARTITIONS: Final = 6
READY_S: Final = 60.0
SAMPLED_S: Final = 10.0 if IS_LONG else 40.0
"""A session of their group (6 s here, 10 by default), a rebalance of Faust's, a sample, which of
an idle partition comes each 3 s. The long form asks for what the other services keep, too."""


def lag(fleet: Fleet, name: str) -> AbstractContextManager[ServiceProcess]:
    return service("lag", estate=fleet.estate, target="west", logs=fleet.directory / name)


def slots(process: ServiceProcess) -> list[int]:
    found = process.status()["slots"]
    assert isinstance(found, list)
    return found


def watched(process: ServiceProcess) -> set[int]:
    """Partitions of the topic that it judges."""
    return {row["partition"] for row in process.get(f"/lag?topic={TOPIC}").json()}


def sampled(fleet: Fleet, since_ms: int) -> set[int]:
    """Partitions that have a sample of that time or later."""
    found = samples_of(fleet.west, fleet.name, TOPIC)
    return {sample.partition for sample in found if sample.time_ms >= since_ms}


@pytest.mark.timeout(200)
def test_all_partitions_are_sampled_again_after_one_of_two_lags_was_killed(
    east: Region, west: Region, tmp_path: Path
) -> None:
    create(east, TOPIC, PARTITIONS)
    for number in range(PARTITIONS):
        put(east, TOPIC, numbered(0, 10, partition=number))
    fleet = lag_fleet("lagpair", east, west, tmp_path, topics=["lagpair-.*"])
    everything = set(range(PARTITIONS))
    with fleet.sync(), fleet.mirror(), lag(fleet, "one") as one, lag(fleet, "other") as other:
        for each in (one, other):
            each.wait_ready(READY_S)
        wait_until(
            lambda: (
                [len(slots(each)) for each in (one, other)] == [SLOTS // 2] * 2
                and watched(one) | watched(other) == everything
            ),
            deadline_s=READY_S,
            what="slots shared by two",
        )
        lost = watched(one)
        one.kill()
        killed_ms = int(time.time() * 1000)
        wait_until(
            lambda: sampled(fleet, killed_ms) == everything,
            deadline_s=SAMPLED_S,
            what=f"samples of {lost}, which the dead one watched, and of the others",
        )
        took_s = time.time() - killed_ms / 1000
        print(f"kill -9 to samples of all partitions again: {took_s:.1f} s, {lost} were lost")
        assert took_s < SAMPLED_S
        assert lost
        assert slots(other) == list(range(SLOTS))
