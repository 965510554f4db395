"""A fleet under load between two regions behind gates, faults with proof, and one verdict.

    with drill("name", pair, directory) as it:
        with it.fault("leader killed") as fault:      # times it
            ...; fault.bit(is_true, "how one knows")
        it.settle()
        report = it.judged()                          # prints stalls of each fault, asserts nothing
    it.check_recovered()

Load makers and the judge speak to the brokers themselves, the fleet goes through the gates.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx

from mirrorfleet.core.errors import MirrorfleetError
from tests.faultkit.asked import Asked, Ran, counted, ran, shape
from tests.faultkit.bites import aborted_in, aborted_within, must_have_met
from tests.faultkit.calm import WARMED_S
from tests.faultkit.estate import write_estate
from tests.faultkit.hold import IS_LONG, asked_rate, asked_s, hold_sync
from tests.faultkit.process import ServiceProcess, service
from tests.faultkit.regions import access, address, data_directories
from tests.faultkit.roles import Roles
from tests.faultkit.stalls import commits, slot_stall_s, stalls
from tests.faultkit.traffic import Traffic, traffic
from tests.faultkit.waiting import wait_until
from tests.judge.judging import Copy, Pair, judge
from tests.judge.reading import At
from tests.judge.render import render
from tests.judge.verdict import Evidence, Report
from tests.load.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from services.local.region import Region
    from tests.faultkit.far import FarRegion

SECONDS: Final = asked_s(12)
"""Length of a fault that lasts: `make faults` gives 60."""
RATE: Final = int(asked_rate(5_000))
"""Records a second; the short drills leave room for six brokers on two cores. 20,000 are 4 GB of
disk a minute, three copies on each side."""
SLOTS: Final = 8
PARTITIONS: Final = 24
STEADY_S: Final = 3.0
"""Load before the first fault and after the last."""
FLOWING_S: Final = 120.0
"""Deadline for all slots to copy, after whatever happened."""
RECOVERED_S: Final = 60.0
"""How much longer than a fault a partition may stand, generously: six brokers on two cores take
seconds for what takes 0.1 s elsewhere; MirrorMaker 2 leaves those of a dead worker for minutes."""
RSS_MB: Final = 400.0
"""Bound of a worker's memory: 64 MB of frames, what Python needs, and what a burst leaves."""


def now_ms() -> int:
    """Wall clock, as positions have it."""
    return int(time.time() * 1000)


@dataclass
class Fault:
    """One fault: when it was, and whether it bit."""

    name: str
    began_ms: int
    aborts: bool = False
    """Whether it is sure to end transactions of the fleet by an abort."""
    ended_ms: int = 0
    evidence: Evidence | None = None
    stall_s: float | None = None
    """The longest of any partition, once that is known."""

    @property
    def lasted_s(self) -> float:
        """Until it was healed."""
        return (self.ended_ms - self.began_ms) / 1000

    def bit(self, bit: object, detail: str) -> None:
        """Say whether it bit, and how one knows."""
        self.evidence = Evidence(self.name, bit=bool(bit), detail=detail)


class Made(NamedTuple):
    """What the load was asked to make, and how many records were acknowledged."""

    run: Ran
    records: int


@dataclass
class Drill:
    """The running fleet."""

    name: str
    pair: Mapping[str, FarRegion]
    directory: Path
    stack: ExitStack
    topics: Sequence[str]
    estate: Path
    sync: ServiceProcess
    loads: list[Traffic] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    made: Made | None = None
    """All of it, once the load was ended."""
    tally: Tally = field(default_factory=Tally)
    """Of all loads that were ended: the next one may write to the same partitions."""
    is_lasting: bool = True
    """Whether transactions last: `must_have_met`."""
    shared: set[str] = field(default_factory=set)
    """Topics to which a test itself writes: what loads count is not all that is there."""

    # -- the regions

    @property
    def east(self) -> Region:
        """The source."""
        return self.pair["east"].region

    @property
    def west(self) -> Region:
        """The target."""
        return self.pair["west"].region

    def roles(self, side: str) -> Roles:
        """Who plays which part on a side."""
        return Roles(self.pair[side].settings())

    def copied(self, side: str) -> list[str]:
        """Names of the topics under load on a side."""
        names = [topic.partition(":")[0] for topic in self.topics]
        return names if side == "east" else [f"east.{name}" for name in names]

    def copies(self) -> list[At]:
        """Each partition that is copied to, at the target."""
        roles = self.roles("west")
        return [At(name, n) for name in self.copied("west") for n in roles.partitions(name)]

    # -- the fleet

    def mirror(self, name: str = "a") -> ServiceProcess:
        """A worker, ready."""
        logs = self.directory / "logs" / name
        process = self.stack.enter_context(
            service("mirror", estate=self.estate, target="west", logs=logs)
        )
        process.wait_ready(FLOWING_S)
        return process

    def start_load(
        self, rate: float = RATE, topics: Sequence[str] = (), more: Sequence[str] = ()
    ) -> None:
        """Begin to make traffic at the source, in all topics or in some of them."""
        seed, self.made = f"{self.name}-{len(self.loads)}", None
        run = traffic(
            address(self.east),
            topics or self.topics,
            rate=rate,
            seed=seed,
            more=more or shape(rate),
        )
        self.loads.append(self.stack.enter_context(run))
        self.asked.append(Asked(rate, time.monotonic()))

    def stop_load(self) -> int:
        """End it; how many records were acknowledged."""
        tallies = [load.stop() for load in self.loads]
        for tally in tallies:
            self.tally.add(tally)
        self.loads.clear()
        self.asked.clear()
        return sum(tally.records for tally in tallies)

    def end_load(self) -> Made:
        """No more is made for the word on it; at the latest when that is asked for.

        Both regions share the cores of one machine: under full load nothing that has piled up is
        made good.
        """
        if self.made is None:
            run = ran(self.asked, time.monotonic())
            self.made = Made(run, self.stop_load())
        return self.made

    @contextmanager
    def fault(self, name: str, *, aborts: bool = False) -> Iterator[Fault]:
        """Time a fault; that it heals is the caller's matter. `aborts`: as `Fault` has it."""
        fault = Fault(name, now_ms(), aborts)
        self.faults.append(fault)
        try:
            yield fault
        finally:
            fault.ended_ms = now_ms()

    def settle(self, mirror: ServiceProcess, seconds: float = STEADY_S) -> None:
        """Wait until all slots copy again, and let the load run on for a while."""
        wait_until(
            lambda: states(mirror) == {"copying": SLOTS},
            deadline_s=FLOWING_S,
            what=f"{SLOTS} slots to copy",
            ignoring=(httpx.HTTPError,),
        )
        hold_sync(seconds, reason="load after a fault has healed")

    def wait_current(self, mirror: ServiceProcess) -> None:
        """Wait until less than a second of the load waits to be copied."""
        rate = sum(load.rate for load in self.asked)
        wait_until(
            lambda: is_current(mirror, rate),
            deadline_s=WARMED_S,
            what="the copies to be current",
            ignoring=(httpx.HTTPError,),
        )

    # -- the word on it

    def judged(self, *, patience_s: float = 60.0, seconds: float = SECONDS) -> Report:
        """Stop the load, print the stalls of each fault, and hear the judge.

        UNKNOWN without the rate that was asked for, over `seconds` at least, and where no
        transaction was open in a fault that must have met one.
        """
        if self.made is None:
            left_s = ran(self.asked, time.monotonic()).left_s(seconds)
            hold_sync(left_s, reason="load for as long as is demanded")
        source = self.roles("east")
        copied = {source.topic_id(name) for name in self.copied("east")}
        run, records = self.end_load()
        spans = [*pairwise([*(fault.began_ms for fault in self.faults), now_ms()])]
        names = zip(self.copied("east"), self.copied("west"), strict=True)
        report = judge(
            Copy(
                source=access(self.east),
                target=access(self.west),
                pairs=[Pair(*pair) for pair in names],
                patience_s=patience_s,
            ),
            demands=run.demands(
                acknowledged=records, seconds=seconds, counted=counted(self.tally, but=self.shared)
            ),
            evidence=[*self._evidence(spans)],
            ran_s=run.seconds,
        )
        # by now all is copied: what stood to the end of the load counts to its commit
        found = commits(self.pair["west"].settings(), self.name)
        for fault, span in zip(self.faults, spans, strict=True):
            later = found.copied if fault is self.faults[-1] else None
            self._tell(fault, stalls(found.of(copied), *span, to_commit=later)[0].seconds)
        print(run.told(report.source_records), render(report), sep="\n")
        return report

    def _evidence(self, spans: Sequence[tuple[int, int]]) -> Iterator[Evidence]:
        """Of each fault, and of a transaction that was open in those that must have met one.

        The others are looked at, too, and told: whether a kill meets one is a matter of moments.
        """
        met: list[Evidence] = []
        aborted = aborted_in(data_directories(self.west), self.copies())
        for fault, span in zip(self.faults, spans, strict=True):
            yield fault.evidence or Evidence(fault.name, bit=False, detail="nobody looked")
            met.append(found := aborted_within(fault.name, *span, aborted))
            print(f"{found.fault}: {found.detail}")
        sure = [fault.aborts for fault in self.faults]
        yield from must_have_met(met, sure, is_lasting=self.is_lasting)

    def others_stall_s(self, fault: Fault, victim: str) -> float:
        """The longest stall during a fault of partitions of other topics than one (of the source).

        Each slot is printed, with what it was just before the fault: where six brokers share two
        cores a partition waits seconds for its source, and its slot goes on meanwhile.
        """
        found = commits(self.pair["west"].settings(), self.name)
        topic_id = self.roles("east").topic_id(victim)
        own, began_ms, ended_ms = found.in_slots(topic_id), fault.began_ms, fault.ended_ms
        spans = {"before": (2 * began_ms - ended_ms, began_ms), "in it": (began_ms, ended_ms)}
        longest = dict.fromkeys(spans, 0.0)
        for slot, times in found.without(topic_id).items():
            for name, span in spans.items():
                stall, each = slot_stall_s(times.values(), *span), stalls(times, *span)
                which = f"slot {slot}{' (its own)' if slot in own else ''} {name}"
                middle = each[len(each) // 2].seconds
                print(f"{which}: {stall:.2f} s; its partitions {middle:.2f}, {each[0]}")
                longest[name] = max(longest[name], each[0].seconds)
        print(f"longest stall of the others: {longest['in it']:.2f} s")
        return longest["in it"]

    def check_recovered(
        self, within_s: float = RECOVERED_S, faults: Sequence[Fault] | None = None
    ) -> None:
        """No partition stood for that much longer than a fault lasted. Asked after `judged`."""
        for fault in self.faults if faults is None else faults:
            assert fault.stall_s is not None, f"{fault.name}: nobody looked"
            assert fault.stall_s < fault.lasted_s + within_s, (
                f"{fault.name}: stood {fault.stall_s:.1f} s"
            )

    def _tell(self, fault: Fault, stall_s: float) -> None:
        fault.stall_s = stall_s
        proof = fault.evidence.detail if fault.evidence else "no proof"
        print(f"{fault.name}: {fault.lasted_s:.1f} s, longest stall {stall_s:.2f} s ({proof})")


@contextmanager
def drill(  # noqa: PLR0913 - estates have that many parts, all by name
    name: str,
    pair: Mapping[str, FarRegion],
    directory: Path,
    *,
    services: Mapping[str, Mapping[str, object]] | None = None,
    security: Mapping[str, Mapping[str, object]] | None = None,
    topics: Sequence[str] = (),
    link: Mapping[str, object] | None = None,
    rule: Mapping[str, object] | None = None,
    gated: bool = True,
) -> Iterator[Drill]:
    """A fleet whose sync runs; load and workers are the test's matter. Where no gate is needed each
    round trip can do without: two turns of a Python that has other things to do.
    """
    wanted = topics or [f"{name}-orders:{PARTITIONS}"]
    source, target = (
        pair[side].bootstrap if gated else address(pair[side].region) for side in ("east", "west")
    )
    estate = write_estate(
        directory,
        source=source,
        target=target,
        fleet=name,
        topics=[f"{name}-.*"],
        rule={"configs": "ignore", **(rule or {})},
        link=link,
        slots=SLOTS,
        services={"sync": {"period_s": 0.5}, **(services or {})},
        security=security,
    )
    with ExitStack() as after, ExitStack() as stack:
        sync = stack.enter_context(
            service("sync", estate=estate, target="west", logs=directory / "logs")
        )
        made = Drill(name, pair, directory, stack, wanted, estate, sync)
        after.callback(_delete, made)  # when neither load nor worker is left
        yield made


def _delete(made: Drill) -> None:
    """The next drill has the same disk, also after one that failed."""
    for side in made.pair:
        with suppress(MirrorfleetError):  # of a region that it has left in ruins
            made.roles(side).delete(made.copied(side))


def states(mirror: ServiceProcess) -> dict[str, int]:
    """How many slots of a worker are in each state."""
    slots = mirror.status()["slots"]
    assert isinstance(slots, list)
    found: dict[str, int] = {}
    for slot in slots:
        found[slot["state"]] = found.get(slot["state"], 0) + 1
    return found


def lag(mirror: ServiceProcess) -> int:
    """Records that wait to be copied by a worker."""
    slots = mirror.status()["slots"]
    assert isinstance(slots, list)
    return sum(int(slot["lag_records"]) for slot in slots)


def is_current(mirror: ServiceProcess, records: float) -> bool:
    """Whether fewer than so many records wait to be copied, by a worker that knows of all."""
    slots = mirror.status()["slots"]
    assert isinstance(slots, list)
    waiting, unknown = (
        sum(int(slot[key]) for slot in slots) for key in ("lag_records", "lag_unknown")
    )
    return bool(slots) and not unknown and waiting < records


def settled(it: Drill, mirror: ServiceProcess) -> None:
    """Alive, every slot copies, and in the short form little waits: a fault that comes now meets
    transactions, which last for as long as records come.
    """
    mirror.check_alive()
    it.settle(mirror)
    if not IS_LONG:  # the load of the long one leaves two cores no room to make up for anything
        it.wait_current(mirror)
