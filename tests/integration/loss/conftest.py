"""One fleet, one worker and busy neighbours for all drills of this folder on two brokers."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest

from mirrorfleet.records.progress import PartitionProgress, Progress, decode
from services.cli.__main__ import main
from tests.faultkit.control_topics import read_to_end
from tests.faultkit.hold import IS_LONG, asked_rate, hold_sync
from tests.faultkit.regions import access
from tests.faultkit.waiting import wait_until
from tests.integration.loss.neighbours import Neighbours, neighbours_of
from tests.integration.mirror.fleet import FLOWING_S, Fleet, faults_of, wait_values
from tests.integration.mirror.making import numbered, put
from tests.judge.judging import history
from tests.judge.reading import At

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from services.local.region import Region
    from tests.faultkit.process import ServiceProcess
    from tests.judge.log import Log
    from tests.judge.verdict import Report

BUSY: Final = "ls-busy"
BUSY_PARTITIONS: Final = 24 if IS_LONG else 6
BUSY_RATE: Final = asked_rate(500)
SLOTS: Final = 8 if IS_LONG else 4
FROZEN_S: Final = 1.0
"""Longer than a fetch waits at the source: none is under way any more."""


@contextmanager
def frozen(worker: ServiceProcess) -> Iterator[None]:
    """A worker stands where nothing that is produced inside can be on its way to it."""
    try:
        worker.freeze()
        hold_sync(FROZEN_S, reason="the last fetch of a frozen worker ends empty")
        yield
    finally:
        worker.thaw()


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

    def fault(self, topic: str, partition: int = 0, *, saying: str = "") -> str:
        """Wait until a partition stands still, and these words are in the reason; all of that."""

        def look() -> str:
            text = faults_of(self.mirror).get((topic, partition), "")
            return text if saying in text else ""

        what = f"the fault of {topic}-{partition} {saying}"
        return wait_until(look, deadline_s=FLOWING_S, what=what)

    def ledger(self, topic: str, *kinds: str) -> list[tuple[object, ...]]:
        """(kind, partition, first, end, cause) of each event of a topic."""
        wanted = kinds or ("gap", "rewound")
        return [
            (kind, event["partition"], event.get("first"), event.get("end"), event["cause"])
            for kind in wanted
            for event in self.fleet.events(kind)
            if event.get("topic") == topic
        ]

    def wait_ledger(self, topic: str, count: int = 1, *kinds: str) -> list[tuple[object, ...]]:
        """Wait until the ledger has so many gaps, or events of these kinds, of a topic."""
        wait_until(
            lambda: len(self.ledger(topic, *kinds)) >= count,
            deadline_s=FLOWING_S,
            what=f"{count} entries of {topic} in the ledger",
        )
        return self.ledger(topic, *kinds)

    def told(self, topic: str, partition: int) -> list[PartitionProgress]:
        """What the worker has told of a partition, in order; it does once a second."""
        where = self.fleet.west.settings(), self.fleet.control("progress")
        snapshots = [decode(r.key, r.value) for r in asyncio.run(read_to_end(*where))]
        return [
            one
            for snapshot in snapshots
            if isinstance(snapshot, Progress)
            for one in snapshot.partitions
            if (one.source_topic, one.identity.partition) == (topic, partition)
        ]

    def wait_seen(self, topic: str, partition: int, end: int) -> None:
        """Wait until the worker has told that the source ends there."""
        wait_until(
            lambda: end in {one.high_watermark for one in self.told(topic, partition)},
            deadline_s=FLOWING_S,
            what=f"{topic}-{partition} to be seen to {end}",
        )

    def wait_told(self, topic: str, offset: int) -> None:
        """Wait until `resolve` can know that partition 0 stands still, and where."""
        wait_until(
            lambda: any(
                one.fault and one.next_source == offset for one in self.told(topic, 0)[-1:]
            ),
            deadline_s=FLOWING_S,
            what=f"word that {topic}-0 stands at {offset}",
        )

    def refuse_skip(self, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
        """What partition 0 has lost is no record that could be left out."""
        capsys.readouterr()
        assert self.run("resolve", f"{topic}-0", "--skip") == 1
        assert "no single record is in the way" in " ".join(capsys.readouterr().err.split())

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
def neighbours(
    east: Region, west: Region, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Neighbours]:
    """Of all drills: traffic flows through them all the time."""
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
    fleet = Fleet("loss", east, west, tmp_path_factory.mktemp("loss"), rules=rules, slots=SLOTS)
    with neighbours_of(
        fleet, [BUSY], partitions=BUSY_PARTITIONS, rate=BUSY_RATE, has_witness=True
    ) as made:
        yield made


@pytest.fixture(scope="package")
def drill(neighbours: Neighbours) -> Iterator[Drill]:
    """The fleet of these neighbours at work; at the end they are judged."""
    fleet = neighbours.fleet
    with fleet.sync(), fleet.mirror() as mirror:
        mirror.wait_ready(60)
        neighbours.wait_flowing()
        yield Drill(fleet, mirror)
        neighbours.judge()
