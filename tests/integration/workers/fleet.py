"""Workers under load, the faults that they live through, and what the judge saw of each.

    with under_load("moving", east, west, tmp_path) as fleet:
        fleet.start("a")
        with fleet.fault("join", moved_s=2):
            fleet.start("b")
            fleet.wait_shared("a", "b")
        ...
        fleet.stop_load()
        report = fleet.judged_under_load()
        assert fleet.told() == []       every stall within its limit, all printed

A fault is watched from its begin to its end, plus `AFTER_S` in which a stall still counts to it.
From there to the next one, and to the end of the load, no slot may stand for long either.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx

from tests.faultkit.asked import Asked, Ran, counted, ran, shape
from tests.faultkit.calm import wait_calm
from tests.faultkit.hold import IS_LONG, asked_rate, asked_s, hold_sync
from tests.faultkit.markers import commit_times, line_of
from tests.faultkit.regions import address, data_directories
from tests.faultkit.stalls import slot_stall_s
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import Fleet, slots_of
from tests.integration.mirror.stored import stored
from tests.integration.workers.timeline import Taking, Timeline, copied_by, timelines
from tests.judge.reading import At
from tests.judge.stalls import Line, Span, silent, stalls, told, within
from tests.load.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from services.local.region import Region
    from tests.faultkit.process import ServiceProcess
    from tests.faultkit.traffic import Traffic
    from tests.judge.verdict import Report

SECONDS: Final = asked_s(12)
"""How long a fault is held: 60 in the long form."""
RATE: Final = int(asked_rate(3_000))
SLOTS: Final = 8
PARTITIONS: Final = 24
TAKE_OVER_S: Final = 10.0 if IS_LONG else 25.0
MOVE_S: Final = 2.0 if IS_LONG else 12.0
KEPT_S: Final = 1.0 if IS_LONG else 10.0
"""Longest stalls: the long form asks for what is promised. The short one runs on any machine,
where a worker that starts may take a core from brokers for seconds, and asks for a part of it."""
SHOWS_S: Final = 5.0 if IS_LONG else 12.0
"""In so long a span each source partition shows something: the load ends seven transactions a
second, of which those of a busy machine come late."""
STEADY_S: Final = 3.0
"""Load between two faults."""
CALM_S: Final = 10.0
"""For so long no slot has stood before a fault in the long form."""
AFTER_S: Final = 1.0
EXIT_S: Final = 15.0
FAIRLY: Final = range(3, 6)
"""Slots of one of two workers that share all: they share bytes, and slots differ in bytes."""
THIRD: Final = range(2, 5)
"""And of one of three."""
ALL: Final = range(SLOTS, SLOTS + 1)
"""Every slot changes hands."""
STICKY: Final = range(1)
"""No slot changes hands."""
SYNC_S: Final = 2.0
"""Between two looks of sync at the clusters, as by default."""


def now_ms() -> int:
    return int(time.time() * 1000)


class Fault(NamedTuple):
    """What was done, when, and how long slots that changed hands may stand still."""

    what: str
    span: Span
    moved_s: float
    moves: range | None


class Calm(NamedTuple):
    """Load without a fault."""

    what: str
    span: Span


def calms(faults: Sequence[Fault], ended_ms: int) -> list[Calm]:
    """What is between faults, and from the last one to the end of the load.

    Slots may be moved there for balance.
    """
    begins = [*((f"and {fault.what}", fault.span.begin_ms) for fault in faults[1:])]
    ends = [*begins, ("and the end of the load", ended_ms)]
    return [
        Calm(f"between {fault.what} {to}", Span(fault.span.end_ms, to_ms))
        for fault, (to, to_ms) in zip(faults, ends, strict=False)
    ]


class Workers(Fleet):
    """A fleet with one topic under load, and workers by name."""

    def __init__(self, name: str, east: Region, west: Region, directory: Path) -> None:
        rules = [{"name": "all", "topics": [f"{name}-.*"]}]
        super().__init__(name, east, west, directory, rules=rules, slots=SLOTS, sync_s=SYNC_S)
        self.topic = f"{name}-orders"
        self.stack = ExitStack()
        self.processes: dict[str, ServiceProcess] = {}
        self.owners: dict[str, str] = {}
        """Names by what workers call themselves."""
        self.faults: list[Fault] = []
        self.load: Traffic | None = None
        self.asked: list[Asked] = []
        self.run, self.tally = Ran(0.0, 0.0), Tally()
        self.shared: set[str] = set()
        """Topics to which a test itself writes: what the load counts is not all that is there."""
        self.ended_ms = 0
        """When the load was told to end."""

    def start(self, name: str, *, through: Sequence[str] = ()) -> ServiceProcess:
        """Start a worker and wait until it is ready."""
        process = self.launch(name, through=through)
        self.wait_ready(name)
        return process

    def launch(self, name: str, *, through: Sequence[str] = ()) -> ServiceProcess:
        """Start a worker and go on."""
        made = self.mirror(name, through=through)
        process = self.processes[name] = self.stack.enter_context(made)
        return process

    def wait_ready(self, *names: str) -> None:
        for name in names:
            self.processes[name].wait_ready(60)
            self.owners[str(self.processes[name].status()["owner"])] = name

    def stop(self, *names: str) -> None:
        """Ask workers to stop, all at once, and wait until they have."""
        for name in names:
            self.processes[name].terminate()
        codes = [self.processes[name].wait_exit(EXIT_S) for name in names]
        assert codes == [0] * len(names)

    def wait_copying(self, deadline_s: float = 60, **wanted: int) -> None:
        """Wait until the named workers copy so many slots each."""

        def look() -> bool:
            found = {name: [s["state"] for s in slots_of(self.processes[name])] for name in wanted}
            return found == {name: ["copying"] * count for name, count in wanted.items()}

        wait_until(
            look,
            deadline_s=deadline_s,
            what=f"slots shared as {wanted}",
            ignoring=(httpx.TransportError,),  # a loop that is still blocked
        )

    def wait_shared(self, *names: str) -> None:
        """Wait until two workers copy all slots between them, each a fair number."""
        self.wait_all_copied(*names, least=FAIRLY.start)

    def wait_all_copied(self, *names: str, least: int = 0, deadline_s: float = 60) -> None:
        """Wait until the named workers copy all slots between them, each so many at least."""

        def look() -> bool:
            found = [slots_of(self.processes[name]) for name in names]
            copied = [slot["state"] for slots in found for slot in slots] == ["copying"] * SLOTS
            return copied and all(len(slots) >= least for slots in found)

        wait_until(
            look,
            deadline_s=deadline_s,
            what=f"all slots to be copied by {names}, {least} by each at least",
            ignoring=(httpx.TransportError,),  # a loop that is still blocked
        )

    @property
    def watched(self) -> list[At]:
        return [At(f"east.{self.topic}", number) for number in range(PARTITIONS)]

    def copied_by(self, name: str) -> list[At]:
        """The copies that a worker makes."""
        return copied_by(self.processes[name], self.west, self.name)

    @contextmanager
    def fault(self, what: str, *, moved_s: float, moves: range | None = None) -> Iterator[Span]:
        """What happens inside is watched as one fault; `moves`: slots that must change hands.

        Gives the span as it is when the fault begins.
        """
        begin = now_ms()
        yield Span(begin, begin)
        hold_sync(AFTER_S, reason="the first commits of a new owner")
        self.faults.append(Fault(what, Span(begin, now_ms()), moved_s, moves))
        hold_sync(STEADY_S - AFTER_S, reason="load between two faults")

    def wait_current(self, *names: str) -> None:
        """Wait until the named workers have nearly nothing to copy: backlog counts as a stall.

        The long form, which asks for what is promised, waits for calm, too.
        """

        def are_current() -> bool:
            slots = [slot for name in names for slot in slots_of(self.processes[name])]
            waiting, unknown = (
                sum(int(str(slot[key])) for slot in slots) for key in ("lag_records", "lag_unknown")
            )
            return bool(slots) and not unknown and waiting < RATE

        wait_until(are_current, deadline_s=120, what="the copies to be current")
        if IS_LONG:
            wait_calm(*(self.processes[name] for name in names), calm_s=KEPT_S, warm_s=CALM_S)

    def stop_load(self) -> None:
        """All that was made is at the source then, and the workers can copy it."""
        assert self.load is not None
        left_s = ran(self.asked, time.monotonic()).left_s(SECONDS)
        hold_sync(left_s, reason="load for as long as is demanded")
        self.run = ran(self.asked, time.monotonic())
        self.ended_ms = now_ms()
        self.tally = self.load.stop()

    def judged_under_load(self) -> Report:
        """The judge's word on all that the load made: UNKNOWN below the rate that it should have,
        and where the source does not have what the load counted.

        That a fault met open transactions is each test's to prove: planned moves leave none.
        """
        made = counted(self.tally, but=self.shared)
        acknowledged = self.tally.records
        demands = self.run.demands(acknowledged=acknowledged, seconds=SECONDS, counted=made)
        report = self.judged([self.topic], demands=demands, ran_s=self.run.seconds)
        print(self.run.told(report.source_records))
        return report

    def told(self) -> list[str]:
        """Print what each fault did to slots that moved and to those that were kept, and how long
        any stood between faults.

        Gives what was longer than allowed, or did not happen, or is not known.
        """
        owned = timelines(self.west, self.name)
        seen = [self._line(number) for number in range(PARTITIONS)]
        found: list[str] = []
        for fault, calm in zip(self.faults, calms(self.faults, self.ended_ms), strict=True):
            found += self._judged(fault, owned, seen)
            found += nothing_shown(fault.what, seen, fault.span)
            self._print_takings(calm.span, owned)
            own = [within(line, calm.span) for line in seen]
            found += too_long(calm.what, own, calm.span, MOVE_S)
            found += nothing_shown(calm.what, seen, calm.span)
        return found

    def takings(self, fault: Span) -> list[Taking]:
        """Each change of an owner during the fault that began so."""
        span = self._whole(fault)
        owned = timelines(self.west, self.name)
        return [taking for line in owned for taking in line.takings_in(span)]

    def nothing_s(self, fault: Span) -> float:
        """The longest time during the fault that began so in which nothing at all was copied."""
        live = data_directories(self.west)
        return slot_stall_s((commit_times(live, *at) for at in self.watched), *self._whole(fault))

    def _whole(self, fault: Span) -> Span:
        """With its end, which is known later."""
        return next(each.span for each in self.faults if each.span.begin_ms == fault.begin_ms)

    def _line(self, number: int) -> Line:
        at, sides = At(self.topic, number), (self.east, self.west)
        return line_of(at, *map(data_directories, sides))

    def _judged(self, fault: Fault, owned: list[Timeline], seen: list[Line]) -> Iterator[str]:
        moved = self._print_takings(fault.span, owned)
        if fault.moves is not None and len(moved) not in fault.moves:
            yield f"{fault.what}: {len(moved)} slots moved, not as many as {fault.moves}"
        changed = {number for line in moved for number in line.partitions}
        for what, limit, numbers in (
            ("moved", fault.moved_s, changed),
            ("kept", KEPT_S, set(range(PARTITIONS)) - changed),
        ):
            lines = [seen[number] for number in sorted(numbers)]
            yield from too_long(f"{fault.what}, {what} slots", lines, fault.span, limit)

    def _print_takings(self, span: Span, owned: list[Timeline]) -> list[Timeline]:
        """Give the slots that changed hands in a span."""
        moved = [line for line in owned if line.takings_in(span)]
        for taking in (t for line in moved for t in line.takings_in(span)):
            print(f"    to {self.owners.get(taking.owner, taking.owner)}: {taking}")
        return moved


def too_long(what: str, lines: Sequence[Line], span: Span, limit_s: float) -> list[str]:
    """Print the stalls of copies in a span; gives the text where one is too long."""
    found = stalls(lines, span)
    text = told(what, found, limit_s)
    print(text)
    return [text] if found and found[0].seconds >= limit_s else []


def nothing_shown(what: str, lines: Sequence[Line], span: Span) -> list[str]:
    """Say of which copies a span that is long enough to tell tells nothing."""
    if span.end_ms - span.begin_ms < SHOWS_S * 1000:
        return []
    return [
        f"{what}: the source of {at.topic}-{at.partition} showed nothing"
        for at in silent(lines, span)
    ]


@contextmanager
def under_load(name: str, east: Region, west: Region, directory: Path) -> Iterator[Workers]:
    fleet = Workers(name, east, west, directory)
    with (
        fleet.stack,
        fleet.sync(),
        traffic(
            address(east), [f"{fleet.topic}:{PARTITIONS}"], rate=RATE, more=shape(RATE)
        ) as load,
    ):
        fleet.load = load
        fleet.asked.append(Asked(RATE, time.monotonic()))
        yield fleet


def epochs(region: Region, topic: str, partition: int) -> dict[int, list[int]]:
    """Epochs of each producer in the order of the log."""
    found: dict[int, list[int]] = {}
    for batch in stored(region, topic, partition):
        found.setdefault(batch.producer_id, []).append(batch.producer_epoch)
    return found


def epochs_grow(fleet: Workers) -> bool:
    """Whether no producer wrote anything after a newer one of the same slot: nobody came back."""
    return all(
        found == sorted(found)
        for number in range(PARTITIONS)
        for found in epochs(fleet.west, f"east.{fleet.topic}", number).values()
    )
