"""Our services as processes that tests start, kill, freeze and stop.

    with service("mirror", estate=file, target="west", logs=tmp_path) as mirror:
        mirror.wait_ready(30)
        mirror.kill()

Standard output and error go to a log file. Whatever a test does, the process is gone after the
`with`, and also after the death of pytest.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from tests.faultkit.program import AS_SHIPPED
from tests.faultkit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]
BOUND_TO_US = (sys.executable, "-I", "-S", str(Path(__file__).with_name("bound.py")))
"""Begins a command that dies with us."""

HTTP_S = 5.0
"""Deadline of one HTTP request."""

SMALL_BYTES = 4 << 20
"""Room for small things in a process that has no memory left for answers."""

GONE_S = 10.0
"""Deadline for a process to be gone after SIGKILL."""


def peak_rss_mb(pid: int) -> float:
    """Most resident memory that a process ever had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def limit_memory(pid: int, room: int) -> None:
    """Allow a process hardly more address space than it has now: `room` bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[0])
    limit = pages * resource.getpagesize() + room
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))


def resident_mb(pid: int) -> float:
    """Memory of a process that is in RAM now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def descriptors(pid: int) -> int:
    """File descriptors that a process has open now."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def is_frozen(pid: int) -> bool:
    """Whether a process was sent SIGSTOP, and has stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


class DiedError(AssertionError):
    """Raised when a process ended that should run; carries the end of its log."""


class RunningProcess:
    """A command with its log, and the signals that tests send it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.log = name, log
        self._log_start = log.stat().st_size if log.exists() else 0
        # beside its log, which is cleared away: what is killed leaves its temporary files
        temporary = log.parent / "tmp"
        temporary.mkdir(exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*BOUND_TO_US, *command],
                cwd=ROOT,
                env={**os.environ, "TMPDIR": str(temporary), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        """The process id of the command itself."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number after a signal."""
        return self._process.poll()

    def kill(self) -> None:
        """Send `kill -9` and wait until the process is gone."""
        self._process.kill()
        self._process.wait(GONE_S)

    def freeze(self) -> None:
        """Send SIGSTOP: its connections stay, nothing of it runs."""
        self._process.send_signal(signal.SIGSTOP)
        wait_until(
            lambda: is_frozen(self.pid),
            deadline_s=GONE_S,
            what=f"{self.name} to stand still",
        )

    def thaw(self) -> None:
        """Send SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def block_loop(self) -> None:
        """Keep the event loop of a service that was started through `blocking` from its work."""
        self._process.send_signal(signal.SIGUSR1)

    def terminate(self) -> None:
        """Send SIGTERM and go on."""
        self._process.terminate()

    def wait_exit(self, deadline_s: float) -> int:
        """Wait for its end and give the exit code.

        Raises:
            DiedError: it still runs at the deadline.
        """
        try:
            return self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise DiedError(
                f"{self.name} still runs after {deadline_s:g} s\n{self.tail()}"
            ) from None

    def text(self) -> str:
        """Everything that this process wrote."""
        return self.log.read_bytes()[self._log_start :].decode(errors="replace")

    def tail(self, lines: int = 20) -> str:
        """Give the last lines that it wrote, under its name."""
        last = self.text().splitlines()[-lines:]
        return "\n".join([f"--- {self.name} ({self.log})", *last])

    def check_alive(self) -> None:
        """Raise DiedError, with the end of the log, if the process has ended."""
        if self.exit_code is not None:
            raise DiedError(f"{self.name} ended with {self.exit_code}\n{self.tail()}")

    def limit_memory(self, room: int = SMALL_BYTES) -> None:
        """Allow it hardly more address space than it has now, as a full machine would.

        What answers need is missing; small things that any code needs at any time are not, unless
        `room` is less.
        """
        limit_memory(self.pid, room)

    def clean_up(self) -> None:
        """Make sure that the process is gone, frozen or not."""
        if self.exit_code is None:
            self.kill()


class ServiceProcess(RunningProcess):
    """A service of ours, with its HTTP side."""

    def wait_url(self, deadline_s: float = 60.0) -> str:
        """Wait until the service says where it listens."""

        def look() -> str:
            self.check_alive()
            return next(filter(None, map(url_of, self.text().splitlines())), "")

        return wait_until(look, deadline_s=deadline_s, what=f"{self.name} to listen")

    def get(self, path: str) -> httpx.Response:
        """Ask the service over HTTP."""
        self.check_alive()
        return httpx.get(self.wait_url() + path, timeout=HTTP_S)

    def get_patiently(self, path: str, deadline_s: float = 60.0) -> httpx.Response:
        """Ask until there is an answer: it may have to ask brokers, which may stand still."""
        # a list: an answer has a truth value of its own
        return wait_until(
            lambda: [self.get(path)],
            deadline_s=deadline_s,
            what=f"an answer of {self.name} to {path}",
            ignoring=(httpx.TransportError,),
        )[0]

    def status(self) -> dict[str, object]:
        """What `/status` says."""
        try:
            found = self.get("/status")
        except httpx.TransportError:  # a machine that stands still does so for longer than HTTP_S
            found = self.get("/status")
        answer: dict[str, object] = found.json()
        return answer

    def wait_ready(self, deadline_s: float) -> None:
        """Wait until `/readyz` says yes; the error tells the reasons why not."""
        reasons: object = None

        def look() -> bool:
            nonlocal reasons
            answer = self.get("/readyz")
            reasons = answer.text
            return answer.status_code == httpx.codes.OK

        try:
            wait_until(
                look,
                deadline_s=deadline_s,
                what=f"{self.name} to be ready",
                ignoring=(httpx.TransportError,),
            )
        except AssertionError as error:
            raise DiedError(f"{error}\n{reasons}\n{self.tail()}") from None


def url_of(line: str) -> str:
    """Read the address from the log line that says that a service has started."""
    if '"url"' not in line:
        return ""
    try:
        return str(json.loads(line).get("url", ""))
    except (json.JSONDecodeError, AttributeError):
        return ""


@contextmanager
def service(
    name: str,
    *,
    estate: Path,
    target: str,
    logs: Path,
    arguments: Sequence[str] = ("--http-port", "0"),
    environment: Mapping[str, str] | None = None,
    through: Sequence[str] = (),
) -> Iterator[ServiceProcess]:
    """Run `python -m services.NAME`; a log of the same name in `logs` is continued.

    `through` is a module that runs the service's, with its arguments: `blocking`, `skewed`; that of
    its image by default.
    """
    logs.mkdir(parents=True, exist_ok=True)
    process = ServiceProcess(
        f"{name}-{target}",
        [
            sys.executable,
            "-m",
            *(through or AS_SHIPPED),
            f"services.{name}",
            "--estate",
            str(estate),
            "--target",
            target,
            *arguments,
        ],
        log=logs / f"{name}-{target}.log",
        environment=environment,
    )
    try:
        yield process
    finally:
        process.clean_up()
