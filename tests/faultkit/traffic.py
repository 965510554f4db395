"""The traffic maker as a process: `with traffic(...) as run: ...; tally = run.stop()`."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from tests.faultkit.process import BOUND_TO_US
from tests.load.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]

READY_S = 60.0
"""Deadline for topics, producers and open transactions to stand."""

END_S = 90.0
"""Deadline for the last answers after the traffic was told to stop."""


class TrafficError(Exception):
    """Raised when the traffic maker failed; says with what."""


class Traffic:
    """A running traffic maker."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            [*BOUND_TO_US, sys.executable, "-m", "tests.load", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._seen: list[str] = []
        self._reader = threading.Thread(target=self._read, name="traffic", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        if self._process.stdout is not None:
            with self._process.stdout as stdout:
                for line in stdout:
                    self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def wait_ready(self) -> None:
        """Wait until the traffic flows."""
        while self._next(READY_S) != "ready":
            pass

    def wait_end(self, seconds: float) -> Tally:
        """Wait until the asked length is over, at most `seconds` plus the time for last answers."""
        try:
            while not (line := self._next(seconds + END_S)).startswith('{"records"'):
                pass
        finally:
            self.kill()
        return Tally.from_json(line)

    def stop(self) -> Tally:
        """End the traffic and give what was made, all of it answered."""
        self._process.terminate()
        return self.wait_end(0)

    def kill(self) -> None:
        """Make sure that nothing is left."""
        if self._process.poll() is None:
            try:
                self._process.wait(1)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        self._reader.join(5)

    def _next(self, seconds: float) -> str:
        try:
            line = self._lines.get(timeout=seconds)
        except Empty:
            raise TrafficError(f"nothing for {seconds:g} s after {self._seen[-10:]}") from None
        if line is None:
            raise TrafficError("the traffic maker died:\n" + "\n".join(self._seen[-30:]))
        self._seen.append(line)
        return line


@contextmanager
def traffic(
    bootstrap: str, topics: Sequence[str], *, rate: float, seed: str = "0", more: Sequence[str] = ()
) -> Iterator[Traffic]:
    """Run the traffic maker; `topics` as `orders:8`, `more` as on its command line."""
    arguments = ["--bootstrap", bootstrap, "--rate", f"{rate:g}", "--seed", seed]
    run = Traffic([*arguments, *more, "--topics", *topics])
    try:
        run.wait_ready()
        yield run
    finally:
        run.kill()
