"""A service whose event loop can be blocked from outside: SIGUSR1 holds it for some seconds.

    python -m tests.faultkit.blocking 30 services.mirror --estate ...

The process lives, its sockets stay open and the kernel answers for it, but no task of it runs: what
a long computation or a hanging disk does to a loop. The service itself has no such signal.
"""

from __future__ import annotations

import signal
import sys

from tests.faultkit.hold import hold_sync
from tests.faultkit.program import run_program


def held_for(seconds: float) -> tuple[str, ...]:
    """Give what to run a service through so that `block_loop` holds it for so long."""
    return (__name__, f"{seconds:g}")


def main() -> None:
    """Run a module as a program, blockable."""
    seconds, module = float(sys.argv[1]), sys.argv[2]

    def block(*_: object) -> None:
        hold_sync(seconds, reason="the loop is blocked")

    signal.signal(signal.SIGUSR1, block)
    run_program(module, sys.argv[3:])


if __name__ == "__main__":
    main()
