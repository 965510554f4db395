"""The jobs again and again: compaction, service levels, and the audits that are asked for.

    python -m spark.jobs.schedule --estate estate.yaml --target west --output reports
    python -m spark.jobs.schedule --output reports --check

Each job is a process of its own, one after the other; one that fails or hangs keeps no other from
its turn. One that could not do its work comes again after five minutes; one that did, also where
it found what is not intact (exit 2), at its next turn. What ran last is in `schedule.json`
in the output folder; `--check` reads it (exit 0: alive, and every job ended with 0), as a health
check does.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Final

from mirrorfleet.core.errors import RefusedError
from spark.output import NOT_INTACT, positive, say, writable

STATE: Final = "schedule.json"
POLL_S: Final = 1.0
SILENT_MS: Final = 60_000
"""A state file that is older: the schedule does not run any more."""
RETRY_S: Final = 300.0
ENDS_S: Final = 5.0
"""From SIGTERM to SIGKILL. A job may be killed anywhere: run again it ends in the same."""
STOPPED: Final = -1
"""Exit code of a job that this program ended."""
_DONE: Final = (0, NOT_INTACT)

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Task:
    """A job and its command line."""

    name: str
    command: tuple[str, ...]


@dataclass
class Schedule:
    """Runs `tasks` every `every_s` seconds, none for longer than that; keeps `state` up to date."""

    tasks: Sequence[Task]
    every_s: float
    folder: Path
    clock: Clock = time.monotonic
    wall: Clock = time.time
    """For what is told only: set back, it would keep every job from its turn."""
    ended: dict[str, dict[str, int]] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)

    def serve(self, stop: threading.Event) -> None:
        """Until `stop`."""
        while not stop.is_set():
            for task in self.tasks:
                if self.clock() >= self.due.get(task.name, -inf) and not stop.is_set():
                    self._run(task, stop)
            self._tell()
            stop.wait(POLL_S)

    def _run(self, task: Task, stop: threading.Event) -> None:
        began = self.clock()
        say(f"{task.name}: begins")
        code = self._wait(task, stop, began + self.every_s)
        self.ended[task.name] = {"ended_ms": int(self.wall() * 1000), "exit": code}
        self.due[task.name] = self._due(code, began)
        say(f"{task.name}: exit {code} after {self.clock() - began:.0f} s")

    def _due(self, code: int, began: float) -> float:
        """When a job comes again. One that reads for hours must never run without a pause."""
        if code in _DONE:
            return began + self.every_s
        # one that took longer than its time would take as long again
        return self.clock() + (self.every_s if code == STOPPED else min(RETRY_S, self.every_s))

    def _wait(self, task: Task, stop: threading.Event, until: float) -> int:
        child = subprocess.Popen(task.command)
        try:
            while not stop.is_set() and self.clock() < until:
                self._tell()
                try:
                    return child.wait(POLL_S)
                except subprocess.TimeoutExpired:
                    continue
            return STOPPED
        finally:
            _end(child)

    def _tell(self) -> None:
        state = {"v": 1, "alive_ms": int(self.wall() * 1000), "jobs": self.ended}
        unfinished = self.folder / f"{STATE}.unfinished"
        unfinished.write_text(json.dumps(state), encoding="utf-8")
        unfinished.replace(self.folder / STATE)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def tasks(arguments: argparse.Namespace) -> list[Task]:
    """What is to run, in order."""
    fleet = ["--estate", str(arguments.estate), "--target", arguments.target]
    fleet += ["--master", arguments.master] if arguments.master else []
    output = ["--output", str(arguments.output)]
    window = ["--hours", str(arguments.hours), "--keep-days", str(arguments.keep_days)]
    found = [
        _task("compact_offset_syncs", "compact_offset_syncs", fleet),
        _task("slo_report", "slo_report", [*fleet, *output, *window]),
    ]
    for audited in arguments.audit:
        source, _, topic = audited.partition(":")
        about = ["--source", source, "--topic", topic]
        name = f"integrity_audit {audited}"
        found.append(_task(name, "integrity_audit", [*fleet, *about, *output]))
    return found


def _task(name: str, job: str, arguments: Sequence[str]) -> Task:
    return Task(name, (sys.executable, "-m", f"spark.jobs.{job}", *arguments))


def trouble(state: Mapping[str, object], now_ms: int) -> str | None:
    """What is wrong, in words; None when nothing is. `state` is what `schedule.json` holds."""
    alive_ms, jobs = state.get("alive_ms"), state.get("jobs")
    if not isinstance(alive_ms, int) or not isinstance(jobs, dict):
        return f"{STATE} is not what this release writes"
    if now_ms - alive_ms > SILENT_MS:
        return f"the schedule has been silent for {(now_ms - alive_ms) // 1000} s"
    failed = [f"{name} ended with {last['exit']}" for name, last in jobs.items() if last["exit"]]
    return "; ".join(failed) or None


def check(folder: Path) -> int:
    """Exit code of `--check`."""
    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        wrong: str | None = f"{folder / STATE}: {error}"
    else:
        wrong = trouble(state, time.time_ns() // 1_000_000)
    print(f"error: {wrong}" if wrong else "ok")
    return 1 if wrong else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; exit 0 then, 1 with a message when it cannot begin."""
    known = parser()
    arguments = known.parse_args(argv)
    if arguments.check:
        return check(arguments.output)
    if arguments.estate is None or arguments.target is None:
        known.error("--estate and --target are needed")
    try:
        folder = writable(str(arguments.output))
    except RefusedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    Schedule(tasks(arguments), arguments.every * 60, folder).serve(stop)
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m spark.jobs.schedule",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("--estate", type=Path)
    add("--target", help="alias of the fleet's cluster")
    add("--output", type=Path, required=True, help="folder for reports and the state")
    add("--every", type=positive, default=60.0, help="minutes from begin to begin (60)")
    add("--hours", type=positive, default=24.0, help="window of the service levels (24)")
    add("--keep-days", type=positive, default=30.0, help="for which windows of them are kept (30)")
    add("--audit", action="append", default=[], metavar="SOURCE:TOPIC", help="repeatable")
    add("--master", help="any Spark master; this machine when not given")
    add("--check", action="store_true", help="say how the schedule is, and end")
    return made


if __name__ == "__main__":
    sys.exit(main())
