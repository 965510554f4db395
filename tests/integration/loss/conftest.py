"""One fleet, one worker and one busy neighbour for all drills of this folder on two brokers."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest

from mirrorfleet.kafka.control import read_to_end
from mirrorfleet.records.progress import Progress, decode
from services.cli.__main__ import main
from tests.faultkit.hold import hold_sync
from tests.faultkit.regions import access, address
from tests.faultkit.traffic import Traffic, traffic
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import FLOWING_S, Fleet, faults_of, wait_values
from tests.integration.mirror.making import numbered, put
from tests.judge.judging import history
from tests.judge.reading import At
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from services.local.region import Region
    from tests.faultkit.process import ServiceProcess
    from tests.judge.log import Log
    from tests.judge.verdict import Report

BUSY: Final = "ls-busy"
BUSY_PARTITIONS: Final = 6
BUSY_RATE: Final = 500
FROZEN_S: Final = 1.0
"""Longer than a fetch waits at the source: none is under way any more."""


@dataclass
class Drill:
    """The fleet at work. Topics `ls-fail-*`, `ls-gap-*` and `ls-copy-*` have a policy each."""

    fleet: Fleet
    mirror: ServiceProcess
    before: dict[At, Log] = field(default_factory=dict)
    """What topics had before a drill took it away."""

    def fill(self, topic: str, first: int, end: int, *, partition: int = 0) -> None:
        """Numbered records into a source partition."""
        put(self.fleet.east, topic, numbered(first, end, partition=partition))

    def wait_copied(self, topic: str, numbers: list[range], *, partition: int = 0) -> None:
        """Wait until the copy holds exactly these numbers."""
        wanted = [b"%020d" % n for each in numbers for n in each]
        wait_values(self.fleet.west, f"east.{topic}", partition, wanted)

    def remember(self, *topics: str) -> None:
        """Keep what the source has now for the judge."""
        for topic in topics:
            self.before |= history(access(self.fleet.east), topic)

    def freeze(self) -> None:
        """Stop the worker where nothing that is produced now can be on its way to it."""
        self.mirror.freeze()
        hold_sync(FROZEN_S, reason="the last fetch of a frozen worker ends empty")

    def fault(self, topic: str, partition: int = 0) -> str:
        """Wait until a partition stands still; why."""
        return wait_until(
            lambda: faults_of(self.mirror).get((topic, partition), ""),
            deadline_s=FLOWING_S,
            what=f"the fault of {topic}-{partition}",
        )

    def ledger(self, topic: str, *kinds: str) -> list[tuple[object, ...]]:
        """(kind, partition, first, end, cause) of each event of a topic."""
        wanted = kinds or ("gap", "rewound")
        return [
            (kind, event["partition"], event.get("first"), event.get("end"), event["cause"])
            for kind in wanted
            for event in self.fleet.events(kind)
            if event.get("topic") == topic
        ]

    def wait_ledger(self, topic: str, count: int = 1) -> list[tuple[object, ...]]:
        """Wait until the ledger has so many gaps of a topic."""
        wait_until(
            lambda: len(self.ledger(topic)) >= count,
            deadline_s=FLOWING_S,
            what=f"{count} entries of {topic} in the ledger",
        )
        return self.ledger(topic)

    def wait_seen(self, topic: str, partition: int, end: int) -> None:
        """Wait until the worker has told that the source ends there."""
        where = self.fleet.west.settings(), self.fleet.control("progress")

        def look() -> bool:
            told = [decode(r.key, r.value) for r in asyncio.run(read_to_end(*where))]
            return any(
                (one.source_topic, one.identity.partition, one.high_watermark)
                == (topic, partition, end)
                for snapshot in told
                if isinstance(snapshot, Progress)
                for one in snapshot.partitions
            )

        wait_until(look, deadline_s=FLOWING_S, what=f"{topic}-{partition} to be seen to {end}")

    def judged(
        self, topics: Sequence[str], *, gaps: Mapping[At, Sequence[tuple[int, int]]] | None = None
    ) -> Report:
        """The judge's word; what was remembered of these topics comes first."""
        earlier = {at: log for at, log in self.before.items() if at.topic in topics}
        return self.fleet.judged(topics, earlier=earlier, gaps=gaps)

    def run(self, *arguments: str) -> int:
        """A command of ours on this estate; its exit code."""
        return main([*arguments, "--target", "west", "--estate", str(self.fleet.estate)])


@pytest.fixture(scope="package")
def drill(east: Region, west: Region, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    """Traffic flows through the neighbours all the time; at the end it is judged."""
    policies = {"fail": "fail", "gap": "record-gap", "copy": "recopy"}
    # a drill takes a time limit down on purpose: sync must not set it back
    own: dict[str, object] = {"configs_exclude": ["message.timestamp.after.max.ms"]}
    rules: list[dict[str, object]] = [
        {
            "name": name,
            "topics": [f"ls-{name}-.*"],
            "on_source_loss": policy,
            "null_keys": "fail",
            **own,
        }
        for name, policy in policies.items()
    ]
    rules.append({"name": "busy", "topics": [BUSY]})
    fleet = Fleet("loss", east, west, tmp_path_factory.mktemp("loss"), rules=rules)
    with ExitStack() as running:
        load = running.enter_context(
            traffic(address(east), [f"{BUSY}:{BUSY_PARTITIONS}"], rate=BUSY_RATE)
        )
        running.enter_context(fleet.sync())
        mirror = running.enter_context(fleet.mirror())
        mirror.wait_ready(60)
        yield Drill(fleet, mirror)
        _judge_neighbours(fleet, load)


def _judge_neighbours(fleet: Fleet, load: Traffic) -> None:
    """None of them has lost or repeated anything through all drills."""
    load.stop()
    began = time.monotonic()
    report = fleet.judged([BUSY])
    print(f"neighbours judged in {time.monotonic() - began:.1f} s")
    assert report.verdict is Verdict.PASS
    assert {at for (at, _) in fleet_faults(fleet)} == set()


def fleet_faults(fleet: Fleet) -> list[tuple[str, object]]:
    """Faults of the busy neighbours, as the ledger has them."""
    return [
        (BUSY, event["partition"])
        for event in fleet.events("partition-faulted")
        if event.get("topic") == BUSY
    ]
