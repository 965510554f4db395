"""Busy neighbours of what is lost: how long their copies stood still, and what the judge says.

    with neighbours_of(fleet, ["busy"], partitions=6, rate=500) as neighbours:
        ...                                                   sync and a worker
        with neighbours.undisturbed("retention overtook"):
            ...                                               the loss, and what is done about it
        neighbours.judge()

What the source showed before such a span does not count: a test may have frozen the worker itself.

A witness writes to the target itself, where no fault stops its broker. While that does not get on
either, the broker or the machine stands still, and not the fleet: it is told, and taken off. So is
a time in which the source shows nothing in any partition, though its load never rests.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tests.faultkit.asked import Asked, ran, shape
from tests.faultkit.hold import IS_LONG
from tests.faultkit.markers import commit_times, line_of, times
from tests.faultkit.regions import address, data_directories
from tests.faultkit.stalls import slot_stall_s
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import FLOWING_S
from tests.integration.workers.fleet import now_ms
from tests.judge.reading import At
from tests.judge.stalls import Line, Span, stalls, told
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.faultkit.traffic import Traffic
    from tests.integration.mirror.fleet import Fleet

STALL_S: Final = 2.0 if IS_LONG else 5.0
"""Longest stall of a neighbour; the short form runs on any machine."""
WITNESS: Final = At("witness", 0)
WITNESS_RATE: Final = 20.0
"""Records a second: enough to see a standstill of half a second, and no load."""


@dataclass(frozen=True)
class Neighbours:
    """Source partitions of a fleet that lose nothing, and the traffic that flows through them."""

    fleet: Fleet
    partitions: Sequence[At]
    load: Traffic
    asked: Asked
    has_witness: bool = False

    def wait_flowing(self) -> None:
        """Wait until each copy has shown more than it does now."""
        since_ms = now_ms()
        wait_until(
            lambda: all(self._last_ms(at) > since_ms for at in self.partitions),
            deadline_s=FLOWING_S,
            what="the neighbours to be copied",
        )

    @contextmanager
    def undisturbed(self, what: str) -> Iterator[None]:
        """No copy stands still for long while that happens."""
        begin_ms = now_ms()
        yield
        span = Span(begin_ms, now_ms())
        self.wait_flowing()  # a stall that lasts on counts to its end
        lines = [self._line(at, span) for at in self.partitions]
        found = stalls(lines, span)
        print(text := told(f"{what}, its neighbours", found, STALL_S))
        assert all(line.source_ms for line in lines), "a source that shows nothing proves nothing"
        seen, shown = self._witnessed(), self._shown()
        for stall in found:
            its = stall.since_ms, stall.since_ms + round(stall.seconds * 1000)
            target_s = slot_stall_s([seen], *its) if seen else 0.0
            source_s = slot_stall_s(shown, *its)
            own = f"{stall.copy.topic}-{stall.copy.partition}: {stall.seconds:.2f} s, of it"
            own += f" {target_s:.2f} s the target itself, {source_s:.2f} s the source itself"
            print(own)
            assert stall.seconds - max(target_s, source_s) < STALL_S, f"{text}; {own}"

    def judge(self) -> None:
        """None of them has lost or repeated anything, or stopped, through all that happened."""
        run = ran([self.asked], time.monotonic())
        made = self.load.stop()
        began = time.monotonic()
        topics = sorted({at.topic for at in self.partitions})
        demands = run.demands(acknowledged=made.records, seconds=0.0)
        report = self.fleet.judged(topics, demands=demands, ran_s=run.seconds)
        print(run.told(report.source_records))
        print(f"neighbours judged in {time.monotonic() - began:.1f} s")
        assert report.verdict is Verdict.PASS
        faults = self.fleet.events("partition-faulted")
        assert [event for event in faults if event.get("topic") in topics] == []

    def _witnessed(self) -> list[int]:
        return times(data_directories(self.fleet.west), *WITNESS) if self.has_witness else []

    def _shown(self) -> list[list[int]]:
        return [times(data_directories(self.fleet.east), *at) for at in self.partitions]

    def _line(self, at: At, span: Span) -> Line:
        found = line_of(at, *map(data_directories, (self.fleet.east, self.fleet.west)))
        inside = [each for each in found.source_ms if span.begin_ms <= each <= span.end_ms]
        return replace(found, source_ms=inside)

    def _last_ms(self, at: At) -> int:
        shown = commit_times(data_directories(self.fleet.west), f"east.{at.topic}", at.partition)
        return max(shown, default=0)


@contextmanager
def neighbours_of(
    fleet: Fleet,
    topics: Sequence[str],
    *,
    partitions: int = 1,
    rate: float,
    has_witness: bool = False,
) -> Iterator[Neighbours]:
    """The traffic flows; topics that are not there are made, with so many partitions each.

    `has_witness`: only where no broker of the target is stopped.
    """
    wanted = [f"{topic}:{partitions}" for topic in topics]
    # other loads of the same cluster have other transactional ids
    load_of = address(fleet.east), wanted
    every = [At(topic, number) for topic in topics for number in range(partitions)]
    with ExitStack() as running:
        if has_witness:
            here = address(fleet.west), [f"{WITNESS.topic}:1"]
            running.enter_context(traffic(*here, rate=WITNESS_RATE, seed="witness"))
        loads = traffic(*load_of, rate=rate, seed=fleet.name, more=shape(rate))
        load = running.enter_context(loads)
        yield Neighbours(fleet, every, load, Asked(rate, time.monotonic()), has_witness)
