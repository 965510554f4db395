"""A round of the fleet whose copy is judged, beside the measured ones and in no figure of theirs.

The judge reads the source once and the copy twice, record by record: a backlog is of 500 MB at
most, and a steady load lasts 20 s, as a measured one does. The worker may be killed in the middle
of it (SIGKILL, with a transaction open) and started again.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.bench.latency import ENOUGH, delays
from tests.bench.measure import Ends
from tests.bench.sides import settle
from tests.bench.systems import running
from tests.bench.workloads import create, delete, fill
from tests.faultkit.bites import OpenAt, abort_evidence, kill_in_transaction, middle
from tests.faultkit.regions import data_directories
from tests.faultkit.waiting import NotInTimeError, wait_until
from tests.judge.judging import Copy, Pair, judge
from tests.judge.reading import At
from tests.judge.verdict import Demands, Evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.bench.systems import Bench, Copier, System
    from tests.bench.workloads import Workload
    from tests.judge.verdict import Report

MOST_MB: Final = 500
LOAD_S: Final = 20.0
COPIED_S: Final = 300.0
"""For all of it to be copied, the death of the worker included."""
FIRST_S: Final = 120.0
KILL_S: Final = 30.0
"""To find the worker with a transaction open."""
BEFORE_KILL: Final = 0.1
"""Of the records: so many are copied before the worker is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What is to be judged; `number` makes its names."""

    system: System
    workload: Workload
    topic: str
    number: int
    kill: bool

    @property
    def records(self) -> int:
        """That the copy is to hold."""
        return self.workload.records or int(self.workload.paced_s * LOAD_S)


class _Killed(NamedTuple):
    """Transactions that were open then, and whether it was in the middle."""

    left_open: Sequence[OpenAt]
    middle: Evidence

    def evidence(self, bench: Bench) -> list[Evidence]:
        """Asked once there is a copy: whoever came after the worker ended its transaction."""
        found = abort_evidence("kill -9", self.left_open, data_directories(bench.target.region))
        return [found, self.middle]


def less(workload: Workload) -> Workload:
    """As much of it as is judged."""
    return replace(workload, megabytes=min(workload.megabytes, MOST_MB))


def run(bench: Bench, asked: Round) -> Report:
    """Copy it from a topic of its own, judge, and delete both."""
    source, workload = bench.source.access, asked.workload
    settle(bench.source, bench.target)
    create(source, asked.topic, workload.partitions)
    if workload.megabytes:
        fill(source, asked.topic, workload)
    with running(asked.system, bench, workload, asked.topic, asked.number) as copier:
        report = _judged(bench, asked, copier)
    delete(bench.target.access, copier.topic)
    delete(source, asked.topic)
    return report


def _judged(bench: Bench, asked: Round, copier: Copier) -> Report:
    """The fleet runs until the end: what is missing then does not come any more."""
    ends = Ends(bench.target.access, copier.topic, asked.workload.partitions)
    killed = _copied(bench, asked, copier, ends)
    with suppress(NotInTimeError):  # the judge says what is missing
        wait_until(
            lambda: ends.total() >= asked.records, deadline_s=COPIED_S, what="the whole copy"
        )
    return judge(
        Copy(
            source=bench.source.access,
            target=bench.target.access,
            pairs=[Pair(asked.topic, copier.topic)],
        ),
        demands=Demands(records=int(asked.records * ENOUGH)),
        evidence=killed.evidence(bench) if killed else (),
    )


def _copied(bench: Bench, asked: Round, copier: Copier, ends: Ends) -> _Killed | None:
    """A steady load is written meanwhile, and has been when this returns."""
    workload, topics = asked.workload, (asked.topic, copier.topic)
    with ThreadPoolExecutor(1) as pool:
        if not workload.paced_s:
            return _kill(bench, asked, copier, ends) if asked.kill else None
        load = pool.submit(delays, bench, workload, topics, LOAD_S)
        killed = _kill(bench, asked, copier, ends, load.done) if asked.kill else None
        load.result()
    return killed


def _kill(
    bench: Bench,
    asked: Round,
    copier: Copier,
    ends: Ends,
    is_written: Callable[[], bool] = lambda: True,
) -> _Killed:
    """Kill the first worker in the middle, and start it again; at least say why that failed."""
    copied = [At(copier.topic, number) for number in range(asked.workload.partitions)]
    try:
        wait_until(
            lambda: ends.total() >= asked.records * BEFORE_KILL,
            deadline_s=FIRST_S,
            what="a part of the copy",
        )
        left_open = kill_in_transaction(
            copier.processes[0], bench.target.access, copied, deadline_s=KILL_S
        )
    except NotInTimeError as error:
        return _Killed([], Evidence("in the middle", bit=False, detail=str(error)))
    found = middle(ends.total(), asked.records, is_written=is_written())
    if copier.start_again is not None:
        copier.start_again()
    return _Killed(left_open, found)
