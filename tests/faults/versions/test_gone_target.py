"""With transactions v1 the coordinator is asked before any broker (AddPartitionsToTxn), and adds
all partitions or none: what it refuses of one topic must not stop the others of its slot.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest

from services.local.region import RegionSpec
from tests.conftest import running
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import Fleet, faults_of, wait_values
from tests.integration.mirror.making import create, delete, numbered, put

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from services.local.region import Region

V1: Final = {"transaction.version": 1}
GOES_ON_S: Final = 15.0
"""An abort and a take-over; a coordinator that sees no such topic is asked for 2 s."""
FAULT_S: Final = 60.0
VICTIM, OTHER = "gone-victim", "gone-other"


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Region, Region]]:
    east, west = RegionSpec(name="east"), RegionSpec(name="west", features=V1)
    for found in running(east, west):
        yield found[0], found[1]


@pytest.mark.timeout(180)
def test_a_deleted_copy_stops_no_other_of_its_slot_with_v1(
    pair: tuple[Region, Region], tmp_path: Path
) -> None:
    east, west = pair
    fleet = Fleet("gone", east, west, tmp_path, rules=[{"name": "all", "topics": [".*"]}], slots=1)
    values = [b"%020d" % n for n in range(200)]
    for topic in (VICTIM, OTHER):
        create(east, topic)
        put(east, topic, numbered(0, 100))
    with fleet.sync(), fleet.mirror() as worker:
        for topic in (VICTIM, OTHER):
            wait_values(west, f"east.{topic}", 0, values[:100])
        version = worker.status()["transaction_version"]

        delete(west, f"east.{VICTIM}")
        began = time.monotonic()
        for topic in (VICTIM, OTHER):
            put(east, topic, numbered(100, 200))
        wait_values(west, f"east.{OTHER}", 0, values)
        took_s = time.monotonic() - began
        print(f"the other topic of the slot went on after {took_s:.1f} s")
        told = wait_until(lambda: faults_of(worker), deadline_s=FAULT_S, what="the fault")

    assert version == 1
    assert VICTIM in str(told)
    assert OTHER not in str(told)
    assert took_s < GOES_ON_S
