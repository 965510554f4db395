"""Source x target, each in every generation of transactions: killed in one, started again, judged.

In the long form twice, in a minute of load (`MIRRORFLEET_FAULT_SECONDS`) whose rate is demanded.

3.9.1     transactions v1, and brokers that know no other
4.3 tv0   the finalized feature transaction.version 0: v1, as before 4.0
4.3 tv1   the same with flexible records in the coordinator's log: still v1
4.3 tv2   v2: an epoch for each transaction

Four regions serve all pairs, in either role; a kind against itself gets a second region of it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from services.local.region import Region, RegionSpec
from tests.conftest import running
from tests.faultkit.asked import Asked, Ran, ran, shape
from tests.faultkit.bites import OpenAt, abort_evidence, kill_in_transaction
from tests.faultkit.hold import IS_LONG, hold_sync
from tests.faultkit.regions import UNFENCED, access, address
from tests.faultkit.traffic import traffic
from tests.integration.mirror.making import delete
from tests.judge.verdict import Report, Verdict
from tests.versions.kit import RATE, SECONDS, Fleet, wait_all_copying

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.conftest import Regions
    from tests.load.tally import Tally


class Kind(NamedTuple):
    """A generation: what to start, and which transactions the mirror must choose on it."""

    title: str
    kafka: str
    features: dict[str, int]
    version: int

    @property
    def word(self) -> str:
        """For names of topics and folders."""
        return self.title.replace(".", "").replace(" ", "")

    @property
    def spec(self) -> RegionSpec:
        """One broker of it."""
        return RegionSpec(
            name=self.word,
            kafka=self.kafka,
            features=self.features,
            heap_mb=384,
            extra=UNFENCED,
        )


OLD: Final = Kind("3.9.1", "3.9.1", {}, 1)
TV0: Final = Kind("4.3 tv0", "4.3.0", {"transaction.version": 0}, 1)
TV1: Final = Kind("4.3 tv1", "4.3.0", {"transaction.version": 1}, 1)
TV2: Final = Kind("4.3 tv2", "4.3.0", {"transaction.version": 2}, 2)
KINDS: Final = (OLD, TV0, TV1, TV2)
SHORTEST: Final = ((OLD, TV2), (TV0, TV1))
"""Each kind once: `make test`."""
SHORT: Final = (*SHORTEST, (TV2, OLD), (TV1, TV0))
"""Each kind once on each side: `make test-versions`; the other twelve pairs are the long form's."""


def marks(one: Kind, other: Kind) -> list[pytest.MarkDecorator]:
    """How short a form must be to leave a pair out."""
    if (one, other) in SHORTEST:
        return []
    return [pytest.mark.apart if (one, other) in SHORT else pytest.mark.long]


PAIRS: Final = [
    pytest.param(
        one,
        other,
        id=f"{one.title} to {other.title}",
        marks=marks(one, other),
    )
    for one in KINDS
    for other in KINDS
]
TOPICS: Final = ("orders:12", "clicks:8", "state:4:compact")
KILLS: Final = 2 if IS_LONG else 1
HELD_S: Final = SECONDS / (KILLS + 1) if IS_LONG else min(SECONDS / 4, 5.0)
"""Load before each kill, and again after the slots were taken: in the long form as long as asked,
all together."""
LOAD_S: Final = (KILLS + 1) * HELD_S


class Cell(NamedTuple):
    """One cell of the table."""

    source: Kind
    target: Kind
    version: object
    back_s: float
    report: Report

    def __str__(self) -> str:
        report = self.report
        return (
            f"{self.source.title:>8} -> {self.target.title:<8} transactions v{self.version}:"
            f" {report.verdict.name}, {report.source_records:,} records,"
            f" {report.seen_twice:,} aborted and copied again, all slots after {self.back_s:.1f} s"
        )


@pytest.fixture(scope="module")
def kinds() -> Iterator[dict[str, Region]]:
    """A region of each kind, by title."""
    for started in running(*(kind.spec for kind in KINDS)):
        yield {kind.title: region for kind, region in zip(KINDS, started, strict=True)}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_worker_killed_in_an_open_transaction_between_any_versions_costs_nothing(
    kinds: dict[str, Region], regions: Regions, tmp_path: Path, one: Kind, other: Kind
) -> None:
    source = kinds[one.title]
    target = kinds[other.title] if other is not one else regions(other.spec)[0]
    fleet = Fleet(f"{one.word}-{other.word}", source, target, tmp_path, topics=TOPICS)
    more = shape(RATE) if IS_LONG else []
    opened = []
    with fleet.sync(), traffic(address(source), fleet.topics, rate=RATE, more=more) as load:
        asked = Asked(RATE, time.monotonic())
        for number in range(KILLS):
            with fleet.mirror(f"killed-{number}") as mirror:
                version = mirror.status()["transaction_version"]
                wait_all_copying(mirror)
                hold_sync(HELD_S, reason="load before the kill")
                opened.append(
                    kill_in_transaction(mirror, access(target), fleet.watched, deadline_s=60)
                )
        killed = time.monotonic()
        with fleet.mirror("heir") as mirror:
            wait_all_copying(mirror)
            back_s = time.monotonic() - killed
            hold_sync(HELD_S, reason="load after the kills")
            run = ran([asked], time.monotonic())
            made = load.stop()
            report = judged(fleet, run, made, opened)
    cell = Cell(one, other, version, back_s, report)
    print(run.told(made.records), cell, sep="\n")
    forget(fleet)

    assert report.verdict is Verdict.PASS
    assert version == other.version
    assert not made.unknown


def judged(fleet: Fleet, run: Ran, made: Tally, opened: Sequence[Sequence[OpenAt]]) -> Report:
    """The judge's word: every kill met a transaction, and the long form has its rate.

    The short form is over before the brokers are warm.
    """
    wanted = run.demands(acknowledged=made.records, seconds=LOAD_S)
    return fleet.judged(
        [abort_evidence("kill -9", each, fleet.data) for each in opened],
        records=wanted.records if IS_LONG else int(RATE * LOAD_S),
        seconds=wanted.seconds,
        rate=wanted.rate if IS_LONG else 0.0,
        ran_s=run.seconds,
    )


def forget(fleet: Fleet) -> None:
    """Delete what was copied: the next cells have the same disk."""
    for pair in fleet.pairs:
        delete(fleet.source, pair.source)
        delete(fleet.target, pair.target)
