"""`run` and `local`: this process becomes the service, so that signals reach it directly."""

from __future__ import annotations

import difflib
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import services
from mirrorfleet.config.flows import targets_of
from mirrorfleet.config.load import load_estate
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.policy.acls import Service


def service_names() -> list[str]:
    """The services of a fleet that this release can run: those that have a `__main__`."""
    found = {
        main.parent.name for base in services.__path__ for main in Path(base).glob("*/__main__.py")
    }
    return sorted(found & {service.value for service in Service})


def check_service(name: str) -> None:
    """Raises: ConfigError naming the nearest service, or all of them."""
    known = service_names()
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
    raise ConfigError(f"{name!r} is no service of this release.", hint=hint)


def run_service(name: str, target: str, estate_file: Path, further: Sequence[str]) -> int:
    """Becomes the service; what can be refused beforehand is refused here."""
    check_service(name)
    estate = load_estate(estate_file)
    targets_of(estate, target)
    arguments = ["--estate", str(estate_file), "--target", target, *further]
    _become(f"services.{name}", arguments)
    return 1


def run_local(arguments: Sequence[str]) -> int:
    """Becomes the local region pair's program."""
    if importlib.util.find_spec("services.local") is None:
        raise ConfigError("this installation has no local regions (services.local).")
    _become("services.local", arguments)
    return 1


def _become(module: str, arguments: Sequence[str]) -> None:
    """Does not return."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])
