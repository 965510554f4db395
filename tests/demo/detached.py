"""Processes that outlive the program that starts them, found again by id and start time.

A process id alone may be somebody else's by the next time one looks.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faultkit.waiting import NotInTimeError, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DRAIN_S = 12.0
"""SIGTERM to gone: our services promise 10 s."""


@dataclass(frozen=True, slots=True)
class Detached:
    """A started process. `started`: in clock ticks since boot; 0 where there is no /proc."""

    pid: int
    started: int

    @property
    def runs(self) -> bool:
        """Whether this very process is there; one that only waits to be collected is not."""
        return _start_time(self.pid) == self.started if self.started else _exists(self.pid)

    def stop(self) -> None:
        """End it in order, by force if that takes too long."""
        if not self.runs:
            return
        os.kill(self.pid, signal.SIGTERM)
        try:
            wait_until(lambda: not self.runs, deadline_s=DRAIN_S, what=f"process {self.pid} to end")
        except NotInTimeError:
            os.kill(self.pid, signal.SIGKILL)
            wait_until(lambda: not self.runs, deadline_s=DRAIN_S, what=f"process {self.pid} to die")


def start(command: Sequence[str], *, log: Path, directory: Path) -> Detached:
    """Start a command in a session of its own; its output is added to `log`."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    process.returncode = 0  # not ours to wait for: it outlives us
    return Detached(process.pid, _start_time(process.pid))


def save(processes: Mapping[str, Detached], file: Path) -> None:
    """Remember processes by name; written whole or not at all."""
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(
        json.dumps({name: asdict(process) for name, process in processes.items()}), encoding="utf-8"
    )
    unfinished.rename(file)


def load(file: Path) -> dict[str, Detached]:
    """Give the processes that were saved, running or not; none without a file."""
    if not file.exists():
        return {}
    saved = json.loads(file.read_text(encoding="utf-8"))
    return {name: Detached(**fields) for name, fields in saved.items()}


def _start_time(pid: int) -> int:
    """Field 22 of /proc/PID/stat; 0 for none, and for a process that has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    return 0 if fields[0] == "Z" else int(fields[19])


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
