"""Keeper of one broker: ends it when the process that wanted it is gone, however it went.

Run as `python -I -S keeper.py PID_FILE COMMAND...`, standard library only. Its standard input is
a pipe whose other end the wanting process holds: the kernel closes it with that process, also
after SIGKILL. One byte written to it means that the broker shall live on by itself. Should the
keeper be killed, Linux ends the broker.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

PR_SET_PDEATHSIG = 1


def die_with_keeper() -> None:
    """In the child, before exec: ask the kernel for SIGKILL when the keeper ends (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def kill_at_end_of_input(broker: subprocess.Popen[bytes]) -> None:
    """Wait for the pipe to close, then end the broker; or for the byte that lets it live on."""
    if not os.read(0, 1):
        broker.kill()


def main(pid_file: str, *command: str) -> int:
    """Start the broker, say its pid in `pid_file`, and last as long as it does."""
    broker = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        preexec_fn=die_with_keeper,  # noqa: PLW1509 - this process has one thread so far
    )
    unfinished = Path(f"{pid_file}.unfinished")
    unfinished.write_text(str(broker.pid), encoding="utf-8")
    unfinished.rename(pid_file)
    threading.Thread(target=kill_at_end_of_input, args=(broker,), daemon=True).start()
    return broker.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
