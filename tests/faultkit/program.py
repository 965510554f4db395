"""Run a module as a program, as `python -m` does, in a process that was made different before.

python -m tests.faultkit.program services.mirror --estate ...       as its image has it

kio imports hypothesis where it finds it: a hundred modules and 8 MB that no shipped process has,
and that each start would pay for.
"""

from __future__ import annotations

import runpy
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

AS_SHIPPED: Final = ("tests.faultkit.program",)
"""What to run a service through."""


def hide() -> None:
    """From now on nobody can import what only tests have installed."""
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # import: there is no such module


def run_program(module: str, arguments: Sequence[str]) -> None:
    """Run it to its end, with these arguments."""
    hide()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    run_program(sys.argv[1], sys.argv[2:])
