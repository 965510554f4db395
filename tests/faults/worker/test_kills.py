"""The worker dies, or is asked to go, under load; the judge compares every record afterwards.

`MIRRORFLEET_FAULT_SECONDS` is the length of the load: `make faults` gives 60, `make test` 12.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.faultkit.asked import counted
from tests.faultkit.bites import OpenAt, abort_evidence, kill_in_transaction, open_transactions
from tests.faultkit.estate import write_estate
from tests.faultkit.hold import asked_s, hold_sync
from tests.faultkit.process import ServiceProcess, service
from tests.faultkit.regions import access, address, data_directories
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import wait_until
from tests.faults.regions.drill import states
from tests.judge.judging import Copy, Pair, judge
from tests.judge.reading import At, ReadingError
from tests.judge.render import render
from tests.judge.verdict import Demands, Report, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from services.local.region import Region
    from tests.judge.verdict import Evidence
    from tests.load.tally import Tally

SECONDS = asked_s(12)
RATE = 20_000
SLOTS = 8
TOPICS = ("orders:12", "clicks:12", "state:4:compact")
EXIT_S = 10.0


class Fleet:
    """A fleet under load, with what the judge needs to know."""

    def __init__(self, name: str, east: Region, west: Region, directory: Path) -> None:
        self.name, self.logs = name, directory / "logs"
        self.source, self.target = access(east), access(west)
        self.topics = [f"{name}-{topic}" for topic in TOPICS]
        self.data = data_directories(west)
        self.estate = write_estate(
            directory,
            source=address(east),
            target=address(west),
            fleet=name,
            topics=[f"{name}-.*"],
            slots=SLOTS,
        )

    @property
    def pairs(self) -> list[Pair]:
        names = [topic.split(":")[0] for topic in self.topics]
        return [Pair(name, f"east.{name}") for name in names]

    @property
    def watched(self) -> list[At]:
        return [At(f"east.{self.name}-orders", number) for number in range(12)]

    @contextmanager
    def mirror(self) -> Iterator[ServiceProcess]:
        with service("mirror", estate=self.estate, target="west", logs=self.logs) as process:
            process.wait_ready(60)
            yield process

    def kill(self, mirror: ServiceProcess) -> list[OpenAt]:
        return kill_in_transaction(mirror, self.target, self.watched, deadline_s=60)

    def judged(self, made: Tally, evidence: list[Evidence], ran_s: float) -> Report:
        least = max(int(RATE * SECONDS * 0.9), int(made.records * 0.99))
        report = judge(
            Copy(source=self.source, target=self.target, pairs=self.pairs),
            demands=Demands(records=least, seconds=SECONDS, counted=counted(made)),
            evidence=evidence,
            ran_s=ran_s,
        )
        print(render(report))
        return report


def wait_copying(mirror: ServiceProcess) -> None:
    """Wait until it copies all slots."""
    wait_until(lambda: states(mirror) == {"copying": SLOTS}, deadline_s=60, what="all slots")


@contextmanager
def fleet_of(name: str, east: Region, west: Region, directory: Path) -> Iterator[Fleet]:
    """The fleet's sync runs all the time; mirrors are the test's matter."""
    fleet = Fleet(name, east, west, directory)
    with service("sync", estate=fleet.estate, target="west", logs=fleet.logs):
        yield fleet


@pytest.mark.timeout(400)
def test_a_worker_killed_twice_in_open_transactions_loses_and_repeats_nothing(
    east: Region, west: Region, tmp_path: Path
) -> None:
    evidence = []
    with fleet_of("killed", east, west, tmp_path) as fleet:
        began = time.monotonic()
        with traffic(address(east), fleet.topics, rate=RATE) as load:
            opened = []
            for _ in range(2):
                with fleet.mirror() as mirror:
                    wait_copying(mirror)  # else it has no transaction of its own
                    hold_sync(SECONDS / 3, reason="load before the kill")
                    opened.append(fleet.kill(mirror))
            with fleet.mirror() as mirror:
                hold_sync(SECONDS / 3, reason="load after the kills")
                made, ran_s = load.stop(), time.monotonic() - began
                evidence = [abort_evidence("kill -9", each, fleet.data) for each in opened]
                report = fleet.judged(made, evidence, ran_s)

    assert report.verdict is Verdict.PASS, render(report)


@pytest.mark.timeout(200)
def test_a_worker_asked_to_stop_leaves_in_time_with_nothing_open_and_repeats_nothing(
    east: Region, west: Region, tmp_path: Path
) -> None:
    with (
        fleet_of("asked", east, west, tmp_path) as fleet,
        traffic(address(east), fleet.topics, rate=RATE) as load,
    ):
        with fleet.mirror() as mirror:
            wait_until(
                lambda: open_transactions(fleet.target, fleet.watched),
                deadline_s=30,
                what="transactions to be under way",
                ignoring=(ReadingError,),
            )
            asked = time.monotonic()
            mirror.terminate()
            code = mirror.wait_exit(EXIT_S)
            print(f"SIGTERM to exit: {time.monotonic() - asked:.2f} s")
        left_open = open_transactions(fleet.target, fleet.watched)
        with fleet.mirror():
            hold_sync(3.0, reason="load after the restart")
            demands = Demands(counted=counted(load.stop()))
            copy = Copy(source=fleet.source, target=fleet.target, pairs=fleet.pairs)
            report = judge(copy, demands=demands)

    assert (code, left_open) == (0, [])
    assert report.verdict is Verdict.PASS, render(report)
    assert report.seen_twice == 0, render(report)
