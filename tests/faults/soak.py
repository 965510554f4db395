"""The soak: a fleet under load for hours, a random fault every 15 seconds, judged lap by lap.

    python -m tests.faults.soak --seconds 7200 --seed 7

The order of faults follows from the seed alone, so a run can be repeated. The next one waits until
the fleet copies again: what needs longer than 15 s is made up by those after it, which begin as
soon as it is over. How many there were, and one in how many seconds of load, is told. Each lap has
a topic of its own, judged and deleted at its end, so that disks do not fill. Prints each fault with
its proof, each lap's verdict, and what the workers held until then. Exit code: that of the worst
verdict.

A worker that holds more and more makes it UNKNOWN (`trend.py` says how much more), and so does a
machine that does not reach `--rate`.

A lap with a record wrong or in doubt, or that raises, is the last one: its partitions as they are
on the brokers' disks, what the fleet wrote about them and the logs of the services are copied to a
folder, to find the cause. One that lacks only its rate, or the proof that a fault has bitten, makes
the run UNKNOWN, and it goes on.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx

from services.local.region import RegionSpec, Tuning
from tests.faultkit.bites import has_left
from tests.faultkit.far import far_pair
from tests.faultkit.hold import hold_sync
from tests.faultkit.markers import markers
from tests.faultkit.proxy import BLACK_HOLE, Line, Side
from tests.faultkit.regions import data_directories
from tests.faultkit.waiting import NotInTimeError, wait_until
from tests.faults.regions import breaking
from tests.faults.regions.drill import FLOWING_S, PARTITIONS, RATE, SLOTS, Drill, drill, states
from tests.faults.regions.trend import Trend
from tests.integration.mirror.making import delete
from tests.judge.reading import At
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tests.faultkit.process import ServiceProcess
    from tests.faultkit.proxy import Gate
    from tests.judge.verdict import Report

HOURS_2_S: Final = 7_200.0
EVERY_S: Final = 15.0
LAP_S: Final = 300.0
SHORT_S: Final = 5.0
"""How long a fault lasts that heals by hand."""
QUICK: Final = {"broker.session.timeout.ms": "5000", "broker.heartbeat.interval.ms": "1000"}
"""Brokers miss a dead one after 5 s instead of 9, so that the next fault can begin in time."""
SLOW: Final = Line(delay_s=0.05, slice_bytes=8_000)
LASTING: Final = "a"
"""The worker that is frozen and cut off but never ended, so that what leaks in it adds up."""
LEAST_FREE: Final = 10_000_000_000
"""Bytes of the disk; a lap writes 40 GB, which its end deletes."""
WARM_LAPS: Final = 2
"""In these it makes its connections and buffers; what it holds from then on should be level."""


class Soak:
    """The fleet of a soak: a worker that lasts, one that comes and goes, and dice."""

    def __init__(self, it: Drill, dice: random.Random, rate: float = RATE) -> None:
        self.it, self.dice, self.rate = it, dice, rate
        self.workers: dict[str, ServiceProcess] = {}
        self.trends = {name: Trend(name) for name in ("a", "b")}
        self.began = time.monotonic()
        self.warmed_s = self.loaded_s = 0.0
        self.faults = 0

    @property
    def ran_s(self) -> float:
        """How long it has run."""
        return time.monotonic() - self.began

    def start(self, name: str) -> None:
        """Start a worker, or start it again."""
        self.workers[name] = self.it.mirror(name)

    def settle(self) -> None:
        """Wait until the living workers copy all slots between them."""
        self.wait_all_copied(self.workers)
        for name, worker in self.workers.items():
            worker.check_alive()
            self.trends[name].look(worker, self.ran_s)

    def copying(self, names: Collection[str]) -> int:
        """How many slots some workers copy."""
        return sum(states(self.workers[name]).get("copying", 0) for name in names)

    def wait_all_copied(self, by: Collection[str]) -> None:
        """Wait until some workers copy all slots between them."""
        wait_until(
            lambda: self.copying(by) == SLOTS,
            deadline_s=FLOWING_S,
            what=f"all slots to be copied by {sorted(by)}",
            ignoring=(httpx.HTTPError,),
        )

    def held(self, name: str) -> int:
        """How many slots a worker copies, once it has been given some.

        Nobody misses one that has none. That it is given none in time proves nothing of the fleet,
        and ends no run.
        """
        with suppress(NotInTimeError):
            return wait_until(
                lambda: self.copying([name]),
                deadline_s=FLOWING_S,
                what=f"worker {name} to copy a slot",
                ignoring=(httpx.HTTPError,),
            )
        return 0

    def copy_begun(self) -> None:
        """Wait until the lap's copies grow: without them slots are settled, and no fault meets a
        load. One that must abort transactions has none to abort before.
        """
        began = time.monotonic()
        copies = [At(name, n) for name in self.it.copied("west") for n in range(PARTITIONS)]
        wait_until(
            lambda: all(markers(data_directories(self.it.west), *at) for at in copies),
            deadline_s=FLOWING_S,
            what="a transaction in each copy of a lap",
        )
        print(f"copies grow after {time.monotonic() - began:.1f} s", flush=True)

    def mortal(self) -> str:
        """A worker that may be ended."""
        return self.dice.choice(sorted(self.workers.keys() - {LASTING}))

    # -- faults of workers

    def worker_killed(self) -> None:
        """Kill -9 the one that does not last, start it again."""
        name = self.mortal()
        held = self.held(name)
        with self.it.fault(f"worker {name} killed") as fault:
            self.workers[name].kill()
            fault.bit(held, f"it copied {held} slots")
            self.start(name)
        self.trends[name] = Trend(name)

    def worker_frozen(self) -> None:
        """SIGSTOP one until its session is over and another one copies its slots."""
        name = self.dice.choice(sorted(self.workers))
        held = self.held(name)
        with self.it.fault(f"worker {name} frozen") as fault:
            worker = self.workers[name]
            worker.freeze()
            try:
                hold_sync(SHORT_S, reason="a worker sleeps")
                self.wait_all_copied(self.workers.keys() - {name})
                fault.bit(held, f"it copied {held} slots, which were taken while it slept")
            finally:
                worker.thaw()

    def worker_stopped(self) -> None:
        """SIGTERM the one that does not last, start it again."""
        name = self.mortal()
        held = self.held(name)
        with self.it.fault(f"worker {name} asked to stop") as fault:
            self.workers[name].terminate()
            code = self.workers[name].wait_exit(40)
            left, told = has_left(code, self.workers[name].text())
            fault.bit(left and held, f"{told}, it copied {held} slots")
            self.start(name)
        self.trends[name] = Trend(name)

    # -- faults of brokers and networks

    def broker_killed(self) -> None:
        """Kill -9 a leader, a controller or a coordinator of either side."""
        side = self.dice.choice(("east", "west"))
        part = self.dice.choice(sorted(breaking.parts(self.it, side)))
        breaking.killed(self.it, side, part, 0.0)

    def broker_frozen(self) -> None:
        """SIGSTOP one of them."""
        side = self.dice.choice(("east", "west"))
        part = self.dice.choice(sorted(breaking.parts(self.it, side)))
        breaking.frozen(self.it, side, part, 2 * SHORT_S)

    def broker_restarted(self) -> None:
        """Stop one in an orderly way and start it again."""
        side = self.dice.choice(("east", "west"))
        broker = self.dice.choice(self.it.pair[side].region.brokers)
        breaking.restarted(self.it, side, [broker])

    def leaders_moved(self) -> None:
        """All leaders and coordinators of a side."""
        breaking.moved(self.it, self.dice.choice(("east", "west")))

    def cut(self) -> None:
        """A black hole, one way or both, to one broker or to all."""
        side, number = self.dice.choice(("east", "west")), self.dice.randrange(PARTITIONS)
        every = list(self.it.pair[side].gates.values())
        some = every if self.dice.choice((True, False)) else [self._gate_to_leader(side, number)]
        lines = self.dice.choice(({"up": BLACK_HOLE}, {"down": BLACK_HOLE}, dict(breaking.CUT)))
        name = f"{side} cut off, {'+'.join(lines)}, {len(some)} brokers"
        breaking.hole(self.it, name, some, 2 * SHORT_S, **lines)

    def _gate_to_leader(self, side: str, number: int) -> Gate:
        """To the leader of a partition: through others nothing may go, as after a restart."""
        roles, topic = self.it.roles(side), self.it.copied(side)[0]
        gates = self.it.pair[side].gates
        found = wait_until(
            lambda: gates.get(roles.leader(topic, number)),
            deadline_s=FLOWING_S,
            what=f"a leader of {topic}-{number}",
        )
        assert found is not None
        return found

    def torn(self) -> None:
        """Resets, half-open connections, slices."""
        side = self.dice.choice(("east", "west"))
        gates = list(self.it.pair[side].gates.values())
        match self.dice.randrange(4):
            case 0:
                breaking.reset(self.it, side, gates, SHORT_S)
            case 1:
                breaking.half_open(self.it, side, gates, Side.CLIENT, 2 * SHORT_S)
            case 2:
                breaking.half_open(self.it, side, gates, Side.BROKER, 2 * SHORT_S)
            case _:
                breaking.slow(self.it, side, gates, SLOW, 2 * SHORT_S)

    @property
    def table(self) -> tuple[Callable[[], None], ...]:
        """All of them, as likely each; the order belongs to the seed and the number of brokers."""
        several = len(self.it.pair["east"].region.brokers) > 1
        return (
            self.worker_killed,
            self.worker_frozen,
            self.worker_stopped,
            self.broker_killed,
            self.broker_frozen,
            self.broker_restarted,
            *((self.leaders_moved,) if several else ()),
            self.cut,
            self.torn,
        )

    def lap(self, number: int, seconds: float, every_s: float) -> Report:
        """Load a topic of its own, break something every so often, and judge it."""
        self.it.topics = [f"soak-{number}:{PARTITIONS}"]
        self.it.start_load(self.rate)
        self.settle()
        self.copy_begun()
        began = due = time.monotonic()
        while time.monotonic() - began < seconds:
            due += every_s
            self.dice.choice(self.table)()
            self.faults += 1
            self.settle()
            free = shutil.disk_usage(self.it.directory).free
            if free < LEAST_FREE:
                raise OSError(f"only {free / 1e9:.1f} GB of the disk are left")
            hold_sync(max(0.0, due - time.monotonic()), reason="load between two faults")
        self.loaded_s += time.monotonic() - began
        report = self.it.judged(patience_s=120, seconds=seconds)
        if number == WARM_LAPS:
            self.warmed_s = self.ran_s
        return report

    def level(self) -> Verdict:
        """Whether the worker that lasts holds no more and more; after a short run nobody knows."""
        growth = self.trends[LASTING].growth(self.warmed_s, self.ran_s) if self.warmed_s else []
        for each in growth:
            print(each, flush=True)
        return Verdict.UNKNOWN if growth else Verdict.PASS


def keep(it: Drill, directory: Path, kept: Path) -> None:
    """Copy what tells how a lap went wrong."""
    _copied(directory / "logs", kept / "logs")
    names = [*it.copied("east"), *it.copied("west"), "__mirrorfleet", "__transaction_state"]
    for side in ("east", "west"):
        for data in data_directories(it.pair[side].region):
            for found in (each for name in names for each in data.glob(f"{name}*-*")):
                _copied(found, kept / side / data.parent.name / found.name)
    print(f"kept for a look: {kept}", flush=True)


def _copied(found: Path, to: Path) -> None:
    """As far as it can be: files of a broker that runs come and go."""
    with suppress(OSError):  # shutil.Error is one
        shutil.copytree(found, to, dirs_exist_ok=True)


def soak(asked: argparse.Namespace) -> Verdict:
    """The whole run, or up to a lap with more wrong than its rate; the worst verdict."""
    seed, seconds = asked.seed, asked.seconds
    each = {"brokers": asked.brokers, "extra": QUICK, "tuning": asked.tuning}
    specs = [RegionSpec(name=side, **each) for side in ("east", "west")]
    worst = Verdict.PASS
    with (
        tempfile.TemporaryDirectory() as directory,
        far_pair(*specs) as pair,
        drill("soak", pair, Path(directory)) as it,
    ):
        it.is_lasting = asked.brokers > 1
        run = Soak(it, random.Random(seed), asked.rate)
        run.start("a")
        run.start("b")
        number = 0
        while (left_s := seconds - run.ran_s) > 0:
            number += 1
            to = asked.keep / f"seed-{seed}-lap-{number}"
            try:
                report = run.lap(number, min(LAP_S, left_s), asked.every)
            except Exception:
                with suppress(Exception):  # whatever it says: nothing may grow while it is copied
                    it.end_load()
                for load in it.loads:
                    load.kill()
                keep(it, Path(directory), to)
                raise
            told = f"lap {number} after {run.ran_s:.0f} s: {report.verdict.name}"
            print(f"{told} (seed {seed})", *run.trends.values(), sep="\n  ", flush=True)
            worst = max(worst, report.verdict, key=_badness)
            if not (report.verdict is Verdict.PASS or report.only_the_run):
                keep(it, Path(directory), to)
                break
            it.faults.clear()
            delete(it.east, f"soak-{number}")
            delete(it.west, f"east.soak-{number}")
        every = f"one in {run.loaded_s / max(1, run.faults):.1f} s of load"
        print(f"{run.faults} faults in {run.ran_s:.0f} s, {every}")
        return max(worst, run.level(), key=_badness)


def _badness(verdict: Verdict) -> int:
    return (Verdict.PASS, Verdict.UNKNOWN, Verdict.FAIL).index(verdict)


def main(arguments: list[str] | None = None) -> int:
    """Run the soak that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=HOURS_2_S, metavar="S")
    parser.add_argument("--every", type=float, default=EVERY_S, metavar="S")
    parser.add_argument("--seed", type=int, default=int(time.time()), metavar="N")
    parser.add_argument("--rate", type=float, default=RATE, metavar="N", help="records a second")
    parser.add_argument("--keep", type=Path, default=Path(".local/soak"), metavar="DIR")
    parser.add_argument("--brokers", type=int, default=3, metavar="N", help="of each side")
    parser.add_argument("--tuning", type=Tuning, default=Tuning.QUICK, help="of the brokers' Java")
    asked = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left behind
    told = f"{asked.rate:,.0f} records/s, a fault every {asked.every:.0f} s"
    print(f"soak: seed {asked.seed}, {asked.seconds:.0f} s, {told}")
    verdict = soak(asked)
    print(f"verdict: {verdict.name} (seed {asked.seed})")
    return int(verdict)


if __name__ == "__main__":
    sys.exit(main())
