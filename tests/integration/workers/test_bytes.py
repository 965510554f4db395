"""Workers share bytes and not slots: where one partition has nearly all, its slot is alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from mirrorfleet.copying.loads import CAUGHT_UP_S, SETTLED_S
from tests.faultkit.hold import hold_sync
from tests.faultkit.regions import address
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import FLOWING_S, Fleet, slots_of, wait_states
from tests.integration.workers.timeline import copied_by
from tests.judge.reading import At
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region
    from tests.faultkit.process import ServiceProcess

SLOTS: Final = 4
HEAVY: Final = At("east.bytes-heavy", 0)
HEAVY_RATE: Final = 1_000
LIGHT_RATE: Final = 10
"""Of seven partitions together. Each slot has two, that of the heavy one it and one of these."""
MEASURED_S: Final = CAUGHT_UP_S + SETTLED_S + 2.0
"""From when the slots are copied to when their bytes are known: they are looked at once a second,
first and last up to one too late."""
STEADY: Final = ["--steady"]


def are_shared(*workers: ServiceProcess) -> bool:
    """Whether each of the workers copies a part of the slots, and all are copied."""
    found = [[slot["state"] for slot in slots_of(worker)] for worker in workers]
    return all(found) and [each for part in found for each in part] == ["copying"] * SLOTS


@pytest.mark.timeout(200)
def test_a_slot_with_nearly_all_bytes_has_a_worker_to_itself_and_the_other_one_has_the_rest(
    east: Region, west: Region, tmp_path: Path
) -> None:
    rules = [{"name": "all", "topics": ["bytes-.*"]}]
    fleet = Fleet("bytes", east, west, tmp_path, rules=rules, slots=SLOTS)
    heavy = traffic(address(east), ["bytes-heavy:1"], rate=HEAVY_RATE, more=STEADY)
    light = traffic(address(east), ["bytes-light:7"], rate=LIGHT_RATE, more=STEADY)
    with heavy as much, light as little, fleet.sync(), fleet.mirror("first") as first:
        wait_states(first, "copying", SLOTS)
        hold_sync(MEASURED_S, reason="load whose bytes are measured, slot by slot")
        with fleet.mirror("second") as second:
            wait_until(
                lambda: are_shared(first, second),
                deadline_s=FLOWING_S,
                what="slots shared by two",
            )
            workers = (first, second)
            counts = [len(slots_of(worker)) for worker in workers]
            owners = [HEAVY in copied_by(worker, west, fleet.name) for worker in workers]
            made = much.stop().records, little.stop().records
            report = fleet.judged(["bytes-heavy", "bytes-light"])

    print(f"slots {counts}, the heavy one with {owners}, records {made}")
    assert report.verdict is Verdict.PASS
    assert made[0] > 10 * made[1] > 0
    assert sorted(zip(counts, owners, strict=True)) == [(1, True), (SLOTS - 1, False)]
