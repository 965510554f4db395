"""Who may write: a worker that lost its slots never does, and none reads what it cannot."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control import ControlWriter
from tests.faultkit.bites import open_transactions
from tests.faultkit.hold import hold_sync
from tests.faultkit.regions import access, address
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import Fleet, wait_states
from tests.integration.mirror.making import create, numbered, put
from tests.integration.mirror.stored import stored
from tests.judge.reading import At
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region
    from tests.faultkit.process import ServiceProcess

SLOTS = 4
PARTITIONS = 8


def a_fleet(name: str, east: Region, west: Region, directory: Path) -> Fleet:
    rules = [{"name": "all", "topics": [f"{name}-.*"]}]
    return Fleet(name, east, west, directory, rules=rules, slots=SLOTS)


def freeze_in_transaction(mirror: ServiceProcess, fleet: Fleet, topic: str) -> None:
    """SIGSTOP at a moment when the target shows an open transaction that does not end."""
    watched = [At(topic, number) for number in range(PARTITIONS)]

    def frozen() -> bool:
        mirror.freeze()
        hold_sync(0.5, reason="a commit may be on its way from the frozen worker")
        if open_transactions(access(fleet.west), watched):
            return True
        mirror.thaw()
        return False

    wait_until(frozen, deadline_s=30, what="an open transaction of a frozen worker")


def epochs(fleet: Fleet, topic: str, partition: int) -> list[tuple[int, int]]:
    """Producer and epoch of each batch, in the order of the log; neighbours alike are one."""
    found = [(b.producer_id, b.producer_epoch) for b in stored(fleet.west, topic, partition)]
    return [each for each, before in zip(found, [None, *found], strict=False) if each != before]


def test_a_worker_that_slept_through_its_replacement_writes_nothing_and_lets_go(
    east: Region, west: Region, tmp_path: Path
) -> None:
    fleet = a_fleet("zombie", east, west, tmp_path)
    topic, copy = "zombie-orders", "east.zombie-orders"
    with (
        fleet.sync(),
        traffic(address(east), [f"{topic}:{PARTITIONS}"], rate=4_000) as load,
        fleet.mirror("a") as sleeper,
    ):
        wait_states(sleeper, "copying", SLOTS)
        freeze_in_transaction(sleeper, fleet, copy)
        with fleet.mirror("b") as heir:
            wait_states(heir, "copying", SLOTS)
            hold_sync(1.0, reason="the heir copies while the sleeper sleeps")
            sleeper.thaw()
            lost = wait_states(sleeper, "lost", SLOTS)
            hold_sync(2.0, reason="a zombie would take its slots back")
            load.stop()
            still = wait_states(sleeper, "lost", SLOTS)
            kept = wait_states(heir, "copying", SLOTS)
            heir_is = str(heir.status()["owner"])
            report = fleet.judged([topic])

    assert report.verdict is Verdict.PASS
    assert {re.sub(" since .*", "", str(slot["trouble"])) for slot in lost} == {
        f"owned by {heir_is}"
    }
    assert [slot["trouble"] for slot in still] == [slot["trouble"] for slot in lost]
    assert [slot["state"] for slot in kept] == ["copying"] * SLOTS
    for number in range(PARTITIONS):
        by_producer: dict[int, list[int]] = {}
        for producer, epoch in epochs(fleet, copy, number):
            by_producer.setdefault(producer, []).append(epoch)
        assert all(found == sorted(found) for found in by_producer.values()), by_producer


def sizes(region: Region, topics: list[str]) -> dict[str, int]:
    """Batches of each topic's partitions, control and aborted ones too."""
    return {topic: sum(len(stored(region, topic, n)) for n in range(SLOTS)) for topic in topics}


async def test_positions_of_an_unknown_version_stop_the_worker_before_it_writes_anything(
    east: Region, west: Region, tmp_path: Path
) -> None:
    fleet = a_fleet("newer", east, west, tmp_path)
    topic, copy = "newer-orders", "east.newer-orders"
    create(east, topic, SLOTS)
    put(east, topic, [r for n in range(SLOTS) for r in numbered(0, 10, partition=n)])
    with fleet.sync() as sync:
        wait_until(lambda: sync.status()["partitions"] == SLOTS, deadline_s=30, what="the catalog")
    written = [copy, *map(fleet.control, ("positions", "segments", "progress", "events"))]
    async with Cluster(west.settings()) as cluster:
        writer = ControlWriter(cluster)
        at = TopicPartition(fleet.control("positions"), SLOTS - 1)
        await writer.write(at, [(b"\x63P", b"\x63 of a newer build")], 1_700_000_000_000)
        writer.close()
    before = sizes(west, written)

    with fleet.mirror() as mirror:
        code = mirror.wait_exit(30)

    assert code == 1
    assert mirror.text().splitlines()[-1] == (
        "error: mirrorfleet mirror: positions key: version 99 is not known to this build (it knows"
        " 1). Run the release that wrote it, or a newer one; nothing was changed."
    )
    assert sizes(west, written) == before
