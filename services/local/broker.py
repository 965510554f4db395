"""One broker process: started, stopped, killed, frozen, found again by its pid file.

    <directory>/server.properties  server.log  out.log  pid  data/

It runs under a keeper (`keeper.py`), so that it ends with the process that started it, unless
that process lets it go with `release`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import MirrorfleetError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

KEEPER: Final = Path(__file__).with_name("keeper.py")
READY: Final = "Kafka Server started"
PAUSE_S: Final = 0.02
START_DEADLINE_S: Final = 60.0
STOP_DEADLINE_S: Final = 20.0


class LocalError(MirrorfleetError):
    """Raised when the local pair cannot do what was asked; says what, where, why and what next."""


class Broker:
    """A broker of a region, running or not. `command` is all of Java's command line."""

    def __init__(self, node_id: int, port: int, directory: Path, command: Sequence[str]) -> None:
        self.node_id = node_id
        self.port = port
        self.directory = directory
        self.command = tuple(command)
        self.log = directory / "server.log"
        self._pid_file = directory / "pid"
        self._keeper: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        """Its process, when it runs."""
        try:
            pid = int(self._pid_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return pid if str(self.directory) in _command_of(pid) else None

    def start(self) -> None:
        """Start the process, if it does not run; `wait_ready` waits for the broker in it."""
        if self.pid is not None:
            return
        self._pid_file.unlink(missing_ok=True)
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        keeper = [sys.executable, "-I", "-S", str(KEEPER), str(self._pid_file)]
        with (self.directory / "out.log").open("ab") as out:
            self._keeper = subprocess.Popen(
                [*keeper, *self.command],
                cwd=self.directory,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us; we tell the broker
            )

    def wait_ready(self, deadline_s: float = START_DEADLINE_S) -> None:
        """Wait until it serves requests. Raises: LocalError when it ends, or takes too long."""
        keeper = self._keeper
        if keeper is None:
            return  # found running
        ready = _await(lambda: self._said(READY) or keeper.poll() is not None, deadline_s)
        if not ready or keeper.poll() is not None:
            ended = f"ended with exit code {keeper.poll()}" if ready else "does not get ready"
            why = self._reason()
            self.kill()
            raise LocalError(
                f"broker {self.node_id} ({self.directory}) {ended}: {why}.", hint=f"See {self.log}."
            )

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Shut down in an orderly way (SIGTERM); killed when that takes too long."""
        self._signal(signal.SIGTERM)
        _await(lambda: self.pid is None, deadline_s)
        self.kill()

    def kill(self) -> None:
        """End it now (SIGKILL), as a crash or a power cut would, and wait until it is gone."""
        self._signal(signal.SIGKILL)
        _await(lambda: self.pid is None, STOP_DEADLINE_S)
        if self._keeper is not None:
            if self._keeper.stdin is not None:
                self._keeper.stdin.close()
            self._keeper.wait()
            self._keeper = None
        self._pid_file.unlink(missing_ok=True)

    def restart(self) -> None:
        """Start it again on its data and its ports, and wait until it serves requests."""
        self.start()
        self.wait_ready()

    def pause(self) -> None:
        """Freeze it (SIGSTOP): connections stay, nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen one go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def release(self) -> None:
        """Let it live on when this process ends; `kill` still finds it."""
        if self._keeper is not None and self._keeper.stdin is not None:
            with suppress(BrokenPipeError):  # it has ended already
                self._keeper.stdin.write(b"\n")
                self._keeper.stdin.close()
            self._keeper.returncode = 0  # not ours to wait for any more
            self._keeper = None

    def _signal(self, number: signal.Signals) -> None:
        if self._keeper is not None:  # the pid file comes a moment after the start
            keeper = self._keeper
            _await(lambda: self._pid_file.exists() or keeper.poll() is not None, 5.0)
        pid = self.pid
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _said(self, text: str) -> bool:
        if not self.log.exists():
            return False
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return text.encode() in log.read()

    def _reason(self) -> str:
        for file, start in ((self.log, self._log_start), (self.directory / "out.log", 0)):
            said = file.read_bytes()[start:] if file.exists() else b""
            lines = said.decode(errors="replace").splitlines()
            causes = [line for line in lines if line.startswith("Caused by: ")]
            errors = [line for line in lines if " ERROR " in line or " FATAL " in line]
            if errors or causes:
                return (causes[-1:] or errors)[0].removeprefix("Caused by: ")
        return "no reason in its log"


def _await(condition: Callable[[], bool], deadline_s: float) -> bool:
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(PAUSE_S)
    return True


def _command_of(pid: int) -> str:
    """The command line of a living process; empty for none and for a defunct one."""
    file = Path(f"/proc/{pid}/cmdline")
    if Path("/proc/self/cmdline").exists():
        try:
            return file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    shown = subprocess.run(
        ["ps", "-p", str(pid), "-o", "command="], capture_output=True, text=True, check=False
    )
    return "" if "<defunct>" in shown.stdout else shown.stdout
