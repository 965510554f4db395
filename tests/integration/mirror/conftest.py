"""The content matrix: one fleet run over all its topics, shared by the tests of this folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property

import pytest

from services.local.region import Region
from tests.faultkit.process import ServiceProcess
from tests.integration.mirror import content
from tests.integration.mirror.fleet import Fleet
from tests.integration.mirror.stored import CODECS
from tests.judge.compare import Anomaly
from tests.judge.reading import At
from tests.judge.verdict import Finding, Report

JUDGED = (
    content.CODEC,
    content.TINY,
    content.LARGE,
    content.NULLS,
    content.HEADERS,
    content.TIMES,
    content.SPARSE,
    content.MIXED,
    content.HUGE,
    content.COMPACTED,
    content.EMPTIED,
    content.APPEND,
    content.APPEND_BOTH,
    content.APPEND_THERE,
    content.MID_OFFSET,
    content.MID_TIME,
)
"""Topics whose whole copy is judged; the others' tests do so when their time has come."""
STARTS = {
    At(topic, number): content.MID
    for topic in (content.MID_OFFSET, content.MID_TIME)
    for number in range(len(CODECS))
}


@dataclass
class Matrix:
    """The fleet at work, and the judge's word on what it has copied."""

    fleet: Fleet
    mirror: ServiceProcess
    opened: content.OpenTransactions
    running: ExitStack

    def restart(self) -> None:
        """Kill -9 the worker, and start another."""
        self.mirror.kill()
        self.mirror = self.running.enter_context(self.fleet.mirror("again"))

    @cached_property
    def report(self) -> Report:
        return self.fleet.judged(JUDGED, starts=STARTS)

    def findings(self, topic: str) -> list[Finding]:
        """One a partition."""
        return [each for each in self.report.findings if each.source_topic == topic]

    def records(self, topic: str) -> list[int]:
        """Records of each partition, on both sides the same; fails where the copy is not exact."""
        found = self.findings(topic)
        wrong: list[tuple[tuple[Anomaly, ...], tuple[str, ...]]] = [
            (each.anomalies, each.doubts) for each in found if each.anomalies or each.doubts
        ]
        assert wrong == []
        assert [f.target_records for f in found] == [f.source_records for f in found]
        return [each.source_records for each in found]


@pytest.fixture(scope="package")
def matrix(
    east: Region, west: Region, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Matrix]:
    """Topics are filled first, so that all of it is backlog; one transaction is left open."""
    began = time.monotonic()
    opened = content.fill(east, west)
    print(f"content: made in {time.monotonic() - began:.1f} s")
    middle = content.MID_EPOCH_MS + 1_000 * content.MID
    special = [content.MID_OFFSET, content.MID_TIME, content.TIMES, content.KEYLESS_DROP]
    old = {"configs": "follow"}  # or the target's own retention would delete copies of old records
    fleet = Fleet(
        "matrix",
        east,
        west,
        tmp_path_factory.mktemp("matrix"),
        rules=[
            {"name": "offset", "topics": [special[0]], "start": f"offset:{content.MID}", **old},
            {"name": "time", "topics": [special[1]], "start": f"timestamp:{middle}", **old},
            {"name": "times", "topics": [special[2]], **old},
            {"name": "drop", "topics": [special[3]], "null_keys": "drop-recorded"},
            {"name": "rest", "topics": ["mx-.*"], "exclude": special},
        ],
    )
    with ExitStack() as running:
        running.enter_context(fleet.sync())
        mirror = running.enter_context(fleet.mirror())
        yield Matrix(fleet, mirror, opened, running)
