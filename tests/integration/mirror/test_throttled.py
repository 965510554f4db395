"""A rule that limits how fast its partitions are read, and a target that limits us."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.faultkit.roles import Roles
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import FLOWING_S, Fleet, wait_states, wait_values
from tests.integration.mirror.making import create, delete, numbered, put, values
from tests.judge.render import render
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region

SLOW, FAST = "slow", "fast"
A_SECOND = 65_536
RECORDS = 400
SIZE = 1_024
LEAST_S = 0.6 * RECORDS * SIZE / A_SECOND
"""The last answer is paid off after all is there, and the first may be twice a second's worth."""
LOW, PARTITIONS, SLOTS = "low", 24, 8
QUOTA = 100_000
"""Bytes a second. 448 KB of each slot at once were a silence of 26 s; a transaction has 15."""
QUOTA_S = 10
"""Over so long the broker's mean is taken: that much comes at once."""


def test_a_throttled_partition_is_copied_slowly_and_no_other(
    east: Region, west: Region, tmp_path: Path
) -> None:
    rules: list[dict[str, object]] = [
        {"name": "slow", "topics": [SLOW], "throttle": A_SECOND},
        {"name": "fast", "topics": [FAST]},
    ]
    fleet = Fleet("throttled", east, west, tmp_path, rules=rules, slots=1)
    records = numbered(0, RECORDS, size=SIZE)
    wanted = [r.value for r in records]
    for topic in (SLOW, FAST):
        create(east, topic, 1)
        put(east, topic, records, **{"batch.size": 16_384})
    with fleet.sync(), fleet.mirror() as mirror:
        wait_states(mirror, "copying", 1)
        began = time.monotonic()
        wait_values(west, f"east.{FAST}", 0, wanted)
        fast_s = time.monotonic() - began
        wait_until(
            lambda: values(west, f"east.{SLOW}", 0) == wanted,
            deadline_s=FLOWING_S,
            what="the throttled records",
        )
        slow_s = time.monotonic() - began
    for topic in (SLOW, FAST):
        delete(east, topic)
        delete(west, f"east.{topic}")
    print(f"fast after {fast_s:.1f} s, throttled after {slow_s:.1f} s of at least {LEAST_S:.1f} s")
    assert fast_s < LEAST_S < slow_s


def test_a_backlog_is_copied_under_a_low_quota_of_the_target_without_an_abort(
    east: Region, west: Region, tmp_path: Path
) -> None:
    rules: list[dict[str, object]] = [{"name": "all", "topics": [LOW]}]
    fleet = Fleet("low", east, west, tmp_path, rules=rules, slots=SLOTS)
    create(east, LOW, PARTITIONS)
    for number in range(PARTITIONS):
        records = numbered(0, RECORDS // 2, size=SIZE, partition=number)
        put(east, LOW, records, **{"batch.size": 16_384})
    quota = Roles(west.settings()).set_quota
    quota("mirrorfleet-mirror", producer_byte_rate=float(QUOTA))
    try:
        with fleet.sync(), fleet.mirror() as mirror:
            wait_states(mirror, "copying", SLOTS)
            began = time.monotonic()
            report = fleet.judged([LOW], patience_s=FLOWING_S)
            took_s = time.monotonic() - began
            said = mirror.text()
    finally:
        quota("mirrorfleet-mirror", producer_byte_rate=None)
    delete(east, LOW)
    delete(west, f"east.{LOW}")

    least_s = PARTITIONS * RECORDS // 2 * SIZE / QUOTA - QUOTA_S
    print(f"{took_s:.1f} s of at least {least_s:.1f} s")
    assert report.verdict is Verdict.PASS, render(report)
    assert took_s > 0.8 * least_s  # it bit
    assert "transaction aborted" not in said
    assert '"fenced"' not in said
