"""Raising a fleet's format level as an operator does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
RAISE_S: Final = 60.0


def raise_level(estate: Path, level: int, target: str = "west") -> None:
    """Have the fleet write that level; its `sync` and a worker must run."""
    where = ["--estate", str(estate), "--target", target]
    done = subprocess.run(
        [sys.executable, "-m", "services.cli", "format", *where, "--raise-to", str(level)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RAISE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
