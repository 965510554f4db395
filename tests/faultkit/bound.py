"""Runs a command that dies with its parent: `python -I -S bound.py COMMAND...`.

Becomes the command, so the process id stays the one that was started. Linux sends SIGKILL when the
parent ends, however it ends; elsewhere the command is on its own. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.execv(sys.argv[1], sys.argv[1:])
