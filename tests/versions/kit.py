"""A fleet between two given regions, under load, and what the judge needs to know of it.

`MIRRORFLEET_FAULT_SECONDS` is the length of each load: `make faults` gives 60.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final

from tests.faultkit.estate import write_estate
from tests.faultkit.hold import asked_rate, asked_s
from tests.faultkit.process import ServiceProcess, service
from tests.faultkit.regions import access, address, data_directories
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import slots_of
from tests.judge.judging import Copy, Pair, judge
from tests.judge.reading import At, ReadingError, ends_of
from tests.judge.render import render
from tests.judge.verdict import Demands
from tests.load.making import Load, create_topics
from tests.load.recipes import Topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from services.local.region import Region
    from tests.judge.reading import ClusterAccess
    from tests.judge.verdict import Evidence, Report

SECONDS: Final = asked_s(8)
RATE: Final = int(asked_rate(20_000))
CALM: Final = 5_000
"""For tests that are about something else than load: the judge reads every record three times."""
SLOTS: Final = 8
UNEVEN: Final = 1
"""Slots that a worker may have more or fewer than its part: they share bytes, not slots."""
READY_S: Final = 60.0


class Fleet:
    """One link east -> west; `topics` as the traffic maker takes them: `orders:12`.

    `mirror` tunes the workers, `clusters` adds keys to a cluster of the estate, `rules` replace the
    one that takes all topics of the fleet. `target_access` is how the judge gets into a target that
    is not open to all.
    """

    def __init__(  # noqa: PLR0913 - a fleet has that many parts, all by name
        self,
        name: str,
        source: Region,
        target: Region,
        directory: Path,
        *,
        topics: Sequence[str],
        slots: int = SLOTS,
        mirror: Mapping[str, object] | None = None,
        clusters: Mapping[str, Mapping[str, object]] | None = None,
        rules: Sequence[Mapping[str, object]] = (),
        target_access: ClusterAccess | None = None,
    ) -> None:
        self.name, self.source, self.target = name, source, target
        self.logs = directory / "logs"
        self.access = target_access or access(target)
        self.topics = [f"{name}-{topic}" for topic in topics]
        self.data = data_directories(target)
        self.estate = write_estate(
            directory,
            source=address(source),
            target=address(target),
            fleet=name,
            topics=[f"{name}-.*"],
            slots=slots,
            services={"mirror": dict(mirror or {}), "sync": {"period_s": 0.5}},
            clusters=clusters,
            link={"rules": [dict(rule) for rule in rules]} if rules else None,
        )

    @property
    def pairs(self) -> list[Pair]:
        """What the judge compares."""
        names = [topic.split(":")[0] for topic in self.topics]
        return [Pair(name, f"east.{name}") for name in names]

    @property
    def copies(self) -> list[At]:
        """Partitions of all copies."""
        parsed = [topic.split(":") for topic in self.topics]
        return [At(f"east.{name}", n) for name, count, *_ in parsed for n in range(int(count))]

    @property
    def watched(self) -> list[At]:
        """Partitions of the first copy, to look for open transactions."""
        first = self.pairs[0].target
        return [at for at in self.copies if at.topic == first]

    def control(self, kind: str) -> str:
        """The name of a control topic."""
        return f"__mirrorfleet.{self.name}.{kind}"

    @contextmanager
    def sync(self) -> Iterator[ServiceProcess]:
        """The fleet's sync, after its first look."""
        with service("sync", estate=self.estate, target="west", logs=self.logs) as process:
            process.wait_ready(READY_S)
            yield process

    def make_topics(self) -> None:
        """Make the source topics as a region makes them by default, where nothing else does."""
        bootstrap = address(self.source)
        create_topics(Load(bootstrap=bootstrap, topics=[Topic.parse(t) for t in self.topics]))

    def starting(self, name: str = "a") -> AbstractContextManager[ServiceProcess]:
        """A worker; `name` keeps its log apart from other workers'."""
        logs = self.logs / name
        return service("mirror", estate=self.estate, target="west", logs=logs)

    @contextmanager
    def mirror(self, name: str = "a") -> Iterator[ServiceProcess]:
        """The same, ready."""
        with self.starting(name) as process:
            process.wait_ready(READY_S)
            yield process

    def copied(self) -> int:
        """How far the first copy's partitions go for a read_committed consumer, all together."""
        try:
            ends = ends_of(self.access, self.watched)
        except ReadingError:
            return 0
        return sum(each.committed for each in ends.values())

    def judged(
        self,
        evidence: Sequence[Evidence] = (),
        *,
        records: int = 1,
        seconds: float = 0.0,
        rate: float = 0.0,
        ran_s: float | None = None,
    ) -> Report:
        """The judge's word, printed."""
        report = judge(
            Copy(source=access(self.source), target=self.access, pairs=self.pairs),
            demands=Demands(records=records, seconds=seconds, rate=rate),
            evidence=evidence,
            ran_s=ran_s,
        )
        print(render(report))
        return report


def is_shared(states: Sequence[Sequence[str]]) -> bool:
    """Whether workers, by the states of the slots of each, copy all slots in fair parts."""
    copied = [state for worker in states for state in worker] == ["copying"] * SLOTS
    return copied and all(abs(len(each) - SLOTS / len(states)) <= UNEVEN for each in states)


def wait_shared(*workers: ServiceProcess) -> None:
    """Wait until these workers copy all slots of a fleet, each a fair number."""

    def look() -> bool:
        return is_shared([[str(slot["state"]) for slot in slots_of(worker)] for worker in workers])

    wait_until(look, deadline_s=60, what=f"slots shared by {len(workers)} workers")


def wait_all_copying(*workers: ServiceProcess) -> None:
    """Wait until these workers copy all slots, each at least one, however they share them."""

    def look() -> bool:
        found = [[slot["state"] for slot in slots_of(worker)] for worker in workers]
        return all(found) and [each for one in found for each in one] == ["copying"] * SLOTS

    wait_until(look, deadline_s=60, what=f"all slots copied by {len(workers)} workers")
