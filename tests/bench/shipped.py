"""A service without what only tests have installed, as its image has it.

python -m tests.bench.shipped services.mirror --estate ...

kio imports hypothesis where it finds it: a hundred modules and 8 MB that no shipped process has.
"""

from __future__ import annotations

import runpy
import sys
from typing import Final

AS_SHIPPED: Final = (__name__,)
"""What to run a service through."""
_HIDDEN: Final = ("hypothesis", "hypothesis.strategies")


def hide() -> None:
    """From now on nobody can import these."""
    for name in _HIDDEN:
        sys.modules[name] = None  # type: ignore[assignment]  # "there is no such module" for import


def main() -> None:
    """Run a module as a program, without them."""
    hide()
    module = sys.argv[1]
    sys.argv = [module, *sys.argv[2:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
