"""A service on a machine whose wall clock is wrong; what measures spans of time goes right.

python -m tests.faultkit.skewed 7200 services.mirror --estate ...       two hours ahead
"""

from __future__ import annotations

import sys
import time

from tests.faultkit.program import run_program


def by(seconds: float) -> tuple[str, ...]:
    """Give what to run a service through so that its wall clock is ahead; negative: behind."""
    return (__name__, f"{seconds:g}")


def main() -> None:
    """Run a module as a program, on the wrong clock."""
    ahead_s, module = float(sys.argv[1]), sys.argv[2]
    now, now_ns = time.time, time.time_ns
    time.time = lambda: now() + ahead_s
    time.time_ns = lambda: now_ns() + int(ahead_s * 1e9)
    run_program(module, sys.argv[3:])


if __name__ == "__main__":
    main()
