"""A Chromium for the tests of the console: the machine's own, or the system's package of it.

No browser is downloaded by Playwright: what drives it needs only where it is.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from mirrorfleet.runtime.filelock import locked
from services.install.paths import HOME, InstallError
from services.install.shell import run, say

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGE: Final = "chromium"
"""Debian's name of it."""
_HINT: Final = f"Install {PACKAGE} (as root: apt-get install {PACKAGE}), and run it again."


def install_browser(home: Path = HOME) -> Path:
    """The Chromium on PATH; installed with apt-get when there is none.

    Raises: InstallError when there is none and this user or system cannot install one.
    """
    with locked(home / "browser.lock"):
        return find_browser() or _install(home)


def find_browser() -> Path | None:
    """The first of `NAMES` on PATH."""
    found = filter(None, map(shutil.which, NAMES))
    return next((Path(path) for path in found), None)


def why_not(apt_get: str | None, user: int) -> str | None:
    """Why this machine cannot be given a browser by us; None when it can."""
    if apt_get is None:
        return "this system has no apt-get"
    return None if user == 0 else "only root may install packages"


def _install(home: Path) -> Path:
    reason = why_not(shutil.which("apt-get"), os.getuid())
    what = f"no Chromium on PATH ({', '.join(NAMES)})"
    if reason is not None:
        raise InstallError(f"{what}, and {reason}.", hint=_HINT)
    say(f"{what}; installing the system's package {PACKAGE} (about 100 MB, once)")
    apt = ["apt-get", "--quiet", "--yes"]
    for command in ([*apt, "update"], [*apt, "install", "--no-install-recommends", PACKAGE]):
        run(command, what=f"{what}, and {' '.join(command)} failed", hint=_HINT, directory=home)
    found = find_browser()
    if found is None:
        raise InstallError(f"{what}, also after {PACKAGE} was installed.", hint=_HINT)
    return found
