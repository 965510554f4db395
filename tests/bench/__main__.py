"""`make bench`: the shipped service and real MirrorMaker 2 in one run, on the same brokers.

    python -m tests.bench [--workload 1k-plain]... [--peer mm2-tuned]... [--rounds 3] [--quick]
                          [--security sasl_ssl] [--rtt MS] [--window BYTES] [--workers 2]...
                          [--judge [--kill]] [--json FILE]
    python -m tests.bench --calibrate
    python -m tests.bench --bytes-a-day

Systems take turns on the same source topic, each making a copy of its own; each round begins with
another one. Brokers are warmed first, by copies that are not measured, until one costs them no less
than the one before (--quick: one copy). MM2 runs for 30 seconds before it is measured, and both
deliveries of it with default and tuned clients count. The median of the rounds is printed, whatever
it is, and the fleet is compared with the best of each delivery.

With --judge each workload has one more round of the fleet, in no figure, whose copy is judged, and
with --kill its worker is killed in the middle. The exit code is 1 when one of them does not pass.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from services.local.security import Kind
from tests.bench import calibration, footprint, judged, verdicts
from tests.bench.latency import delays
from tests.bench.measure import Drain, Ends, Window, costs, drain, steady
from tests.bench.plots import draw
from tests.bench.rows import Figures, Row, cell, comparison, figures, median, save, table
from tests.bench.sides import HOME, pair, settle
from tests.bench.systems import FLEET, PEERS, Bench, Delivery, System, fleets, running
from tests.bench.workloads import FAR, WARMING, WORKLOADS, Workload, create, delete, fill
from tests.faultkit.pipes import Line
from tests.faultkit.process import peak_rss_mb
from tests.judge.render import render

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.bench.systems import Copier
    from tests.bench.verdicts import Judged

MEASURED_S: Final = 20.0
WARM_S: Final = 30.0
"""Java interprets at first; the fleet gets a tenth, for its connections."""
WARMINGS: Final = 8
"""Copies that warm the brokers, at most."""
NO_LESS: Final = 0.85
"""Of the copy before: then brokers are as quick as they will be."""
WARMING_NUMBER: Final = 900_000
"""Of the first of them; those of workloads are thousands."""
TRICKLE_S: Final = 40.0
QUICK: Final = ("1k-plain", "latency")
FULL: Final = [name for name in WORKLOADS if name not in FAR]


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; 0 when it ran, and all that was judged passed."""
    options = _options(arguments)
    with pair(Kind(options.security), _line(options)) as (east, west, directory):
        if options.bytes_a_day:
            footprint.run(east.region, west.region, directory, partitions=options.partitions)
            return 0
        bench = Bench(east, west, directory)
        rows: list[Row] = []
        lines: list[Judged] = []
        workloads = [WORKLOADS[name] for name in _workloads(options)]
        _warm_brokers(bench, workloads, copies=1 if options.quick else WARMINGS)
        for workload in workloads:
            turns = _Turns(bench, workload, options)
            rows += turns.rows()
            save(rows, options.json)
            lines += turns.judged()
    _tell(rows, lines, options)
    return verdicts.exit_code(lines)


def _tell(rows: Sequence[Row], lines: Sequence[Judged], options: argparse.Namespace) -> None:
    """Print and write what was found."""
    _say(table(rows))
    _say("MM2's clients in mm2-tuned: tests/bench/systems.py, TUNED and TUNED_LATENCY")
    for line in comparison(rows):
        _say(line)
    draw(rows, options.json.parent / "plots")
    _say(f"written to {options.json}, plots beside it")
    if options.calibrate:
        found = calibration.per_core(rows)
        for line in calibration.sentences(found):
            _say(line)
        calibration.save(found, options.json.with_name("calibration.json"))
    if options.judge:
        save(lines, options.json.with_name(verdicts.FILE))
        _say(verdicts.table(lines))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.kill and not options.judge:
        parser.error("--kill kills the worker of a judged round: it needs --judge")
    if options.calibrate and (options.security != Kind.PLAINTEXT or _line(options)):
        parser.error("--calibrate measures next door and without TLS: `size` adds --rtt and --tls")
    return options


def _workloads(options: argparse.Namespace) -> Sequence[str]:
    if options.workload:
        return list(options.workload)
    if options.calibrate:
        return calibration.CALIBRATED
    return QUICK if options.quick else tuple(FULL)


def _line(options: argparse.Namespace) -> Line | None:
    """The way from the source; None for a source next door."""
    if not options.rtt and not options.window:
        return None
    return Line(delay_s=options.rtt / 2_000, window=options.window)


def _warm_brokers(bench: Bench, workloads: Sequence[Workload], *, copies: int) -> None:
    """Java interprets at first: whoever is measured first would pay for all.

    Copied again and again until a copy costs the brokers no less than the one before. Small
    transactions take another way through them than large ones.
    """
    topic = f"bench-{WARMING.name}"
    _say("warming the brokers")
    create(bench.source.access, topic, WARMING.partitions)
    fill(bench.source.access, topic, WARMING)
    before = math.inf
    for number in range(copies):
        cost = _warming_copy(bench, topic, number)
        _say(f"copy {number + 1}: {cost:.1f} CPU-s/GB of both brokers")
        if cost > before * NO_LESS:
            break
        before = cost
    delete(bench.source.access, topic)
    if any(each.paced_s for each in workloads):
        _warming_trickle(bench, f"{topic}-trickle")


def _warming_copy(bench: Bench, topic: str, number: int) -> float:
    """What one costs: CPU seconds of both brokers for a GB."""
    settle(bench.source, bench.target)
    with running(FLEET, bench, WARMING, topic, WARMING_NUMBER + number) as copier:
        ends = Ends(bench.target.access, copier.topic, WARMING.partitions)
        regions = (bench.source.region, bench.target.region)
        window = Window(warm_s=0.0, most_s=MEASURED_S)
        found = drain(copier.processes, regions, ends, WARMING.records, window)
    delete(bench.target.access, copier.topic)
    gigabytes = found.records * WARMING.record_bytes / 1e9
    return (found.source_cpu_s + found.target_cpu_s) / gigabytes


def _warming_trickle(bench: Bench, topic: str) -> None:
    create(bench.source.access, topic, WARMING.partitions)
    number = WARMING_NUMBER + WARMINGS
    with running(FLEET, bench, WARMING, topic, number) as copier:
        delays(bench, replace(WARMING, paced_s=2_000), (topic, copier.topic), TRICKLE_S)
    delete(bench.target.access, copier.topic)
    delete(bench.source.access, topic)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure.")
    parser.add_argument("--workload", choices=sorted(WORKLOADS), action="append")
    parser.add_argument("--peer", choices=("mm2", "mm2-tuned", "none"), action="append")
    parser.add_argument("--delivery", choices=[str(each) for each in Delivery], action="append")
    parser.add_argument("--security", choices=("plaintext", "sasl_ssl"), default="plaintext")
    parser.add_argument("--rtt", type=float, default=0.0, help="to the source, in milliseconds")
    parser.add_argument("--window", type=int, help="bytes under way on a connection to the source")
    parser.add_argument(
        "--workers", type=int, choices=range(1, 9), action="append", help="mirrors of the fleet"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, help="of a backlog")
    parser.add_argument("--quick", action="store_true", help="one short round, in five minutes")
    parser.add_argument("--judge", action="store_true", help="one more round, its copy judged")
    parser.add_argument("--kill", action="store_true", help="the worker, in the judged round")
    parser.add_argument("--json", type=Path, default=HOME / "bench" / "latest.json")
    parser.add_argument("--calibrate", action="store_true", help="what a core copies, no peers")
    parser.add_argument("--bytes-a-day", action="store_true")
    parser.add_argument("--partitions", type=int, default=1_000)
    return parser


def _peers(options: argparse.Namespace) -> list[System]:
    if options.calibrate:
        return []
    names = options.peer or (["mm2-tuned"] if options.quick else ["mm2", "mm2-tuned"])
    deliveries = options.delivery or list(Delivery)
    return [peer for peer in PEERS if peer.name in names and peer.delivery in deliveries]


class _Turns:
    """One workload: the systems one after the other, round by round."""

    def __init__(self, bench: Bench, workload: Workload, options: argparse.Namespace) -> None:
        quick = options.quick
        megabytes = options.megabytes or workload.megabytes // (3 if quick else 1)
        self._bench = bench
        self._workload = replace(workload, megabytes=megabytes if workload.megabytes else 0)
        self._rounds = 1 if quick else options.rounds
        self._systems = [*fleets(options.workers or [1]), *_peers(options)]
        self._warm_s = WARM_S / 3 if quick else WARM_S
        self._options = options
        self._topic = f"bench-{workload.name}"
        self._number = 0

    def rows(self) -> list[Row]:
        """Measure all, and give a row for each system."""
        workload, source = self._workload, self._bench.source
        if workload.megabytes:
            _say(f"{workload.name}: filling {workload.megabytes} MB")
            create(source.access, self._topic, workload.partitions)
            fill(source.access, self._topic, workload)
        found: dict[System, list[Figures]] = {system: [] for system in self._systems}
        for number in range(self._rounds):
            first = number % len(self._systems)
            for system in self._systems[first:] + self._systems[:first]:
                began = time.monotonic()
                measured = self._turn(system)
                found[system].append(measured)
                shown = ", ".join(f"{name} {cell(value)}" for name, value in measured.items())
                title = f"{workload.name} round {number + 1}: {system.name} {system.delivery}"
                _say(f"{title}: {shown} ({time.monotonic() - began:.0f} s)")
        if workload.megabytes:
            delete(source.access, self._topic)
        return [self._row(system, median(rounds)) for system, rounds in found.items()]

    def judged(self) -> list[Judged]:
        """One more round of each of ours, judged, if that was asked for."""
        if not self._options.judge:
            return []
        return [self._judge(system) for system in self._systems if system.is_fleet]

    def _judge(self, system: System) -> Judged:
        self._number += 1
        asked = judged.Round(
            system=system,
            workload=judged.less(self._workload),
            topic=f"{self._topic}-judged-{self._number}",
            number=self._next_number(),
            kill=self._options.kill,
        )
        report = judged.run(self._bench, asked)
        _say(f"{asked.workload.name}: {system.name} judged\n{render(report)}")
        row = self._row(system, {})
        return verdicts.judged(row, asked.workload, report, kill=asked.kill)

    def _turn(self, system: System) -> Figures:
        self._number += 1
        bench, workload = self._bench, self._workload
        settle(bench.source, bench.target)
        number = self._next_number()
        with self._source() as topic, running(system, bench, workload, topic, number) as copier:
            if workload.paced_s:
                measured = self._paced(topic, copier)
            else:
                measured = figures(workload, self._drained(system, copier))
        delete(bench.target.access, copier.topic)
        return measured

    @contextmanager
    def _source(self) -> Iterator[str]:
        """The topic with the backlog; for a steady load one of its own, so that what others were
        offered before is no backlog.
        """
        if self._workload.megabytes:
            yield self._topic
            return
        topic, access = f"{self._topic}-{self._number}", self._bench.source.access
        create(access, topic, self._workload.partitions)
        yield topic
        delete(access, topic)

    def _next_number(self) -> int:
        """Names of a round are used once in a region: workloads come one after the other."""
        return list(WORKLOADS).index(self._workload.name) * 1_000 + self._number

    def _drained(self, system: System, copier: Copier) -> Drain:
        bench, workload = self._bench, self._workload
        warm_s = self._warm_s / 10 if system.is_fleet else self._warm_s
        ends = Ends(bench.target.access, copier.topic, workload.partitions)
        regions = (bench.source.region, bench.target.region)
        window = Window(warm_s=warm_s, most_s=MEASURED_S)
        return drain(copier.processes, regions, ends, workload.records, window)

    def _paced(self, topic: str, copier: Copier) -> Figures:
        """Warmed by the same load for as long as any other system, then measured."""
        bench, workload = self._bench, self._workload
        regions = (bench.source.region, bench.target.region)
        delays(bench, workload, (topic, copier.topic), self._warm_s)
        before = costs(copier.processes, *regions)
        found = delays(bench, workload, (topic, copier.topic), MEASURED_S)
        after = costs(copier.processes, *regions)
        if found.p50_ms is None:
            _say(f"only {found.received} of {found.expected} records came in time: no delays")
        drained = steady(found, before, after, peak_rss_mb(copier.processes[0].pid))
        return figures(workload, drained) | found.waits()

    def _row(self, system: System, measured: Figures) -> Row:
        return Row(
            workload=self._workload.name,
            delivery=system.delivery,
            system=system.name,
            kafka=self._bench.source.region.spec.kafka,
            security=self._options.security,
            rtt_ms=self._options.rtt,
            window_bytes=self._options.window,
            **measured,
        )


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
