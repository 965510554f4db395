"""A thousand partitions in one fleet: each gets its copy."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import Fleet
from tests.integration.mirror.making import ONE_BATCH, create, delete, numbered, put, read

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region

TOPIC, COPY = "many", "east.many"
PARTITIONS = 1_000


def test_a_thousand_partitions_are_all_copied(east: Region, west: Region, tmp_path: Path) -> None:
    rules = [{"name": "all", "topics": [TOPIC]}]
    fleet = Fleet("many", east, west, tmp_path, rules=rules, slots=8)
    create(east, TOPIC, PARTITIONS)
    records = [r for n in range(PARTITIONS) for r in numbered(0, 5, partition=n)]
    put(east, TOPIC, records, **ONE_BATCH)
    wanted = [[b"%020d" % n for n in range(5)]] * PARTITIONS
    began = time.monotonic()
    with fleet.sync() as sync, fleet.mirror():
        wait_until(
            lambda: sync.status()["partitions"] == PARTITIONS, deadline_s=60, what="the catalog"
        )
        created_s = time.monotonic() - began
        wait_until(
            lambda: [[r.value for r in p] for p in read(west, COPY, PARTITIONS)] == wanted,
            deadline_s=60,
            what="every record of every partition, once and in order",
        )
        copied_s = time.monotonic() - began
    delete(east, TOPIC)
    delete(west, COPY)
    print(f"1,000 partitions: in the catalog in {created_s:.1f} s, copied in {copied_s:.1f} s")
