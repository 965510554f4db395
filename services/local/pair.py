"""A pair of regions under `.local/<name>/`: brought up once, found again, taken down whole."""

from __future__ import annotations

import re
import shutil
import sys
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mirrorfleet.runtime.filelock import locked
from services.local.broker import LocalError
from services.local.ports import HOST, is_free
from services.local.region import Region, RegionSpec, start_regions

if TYPE_CHECKING:
    from collections.abc import Sequence

HOME: Final = Path(__file__).resolve().parents[2] / ".local"
DEFAULT_PORTS: Final = {"east": 19092, "west": 29092}
AUTO: Final = "auto"


def find(name: str, home: Path = HOME) -> list[Region]:
    """The regions of a pair, running or not; none when there is no such pair."""
    return [Region.load(file.parent) for file in sorted(_place(name, home).glob("*/region.json"))]


def up(name: str, specs: Sequence[RegionSpec], ports: str = "", home: Path = HOME) -> list[Region]:
    """Bring a pair up, or find it; brokers of it that have ended are started again.

    `ports` is `auto`, or the first port of each region with commas, or empty for the usual ones; a
    pair that is there keeps those that it has.
    Raises: LocalError when a port that was asked for is taken, when the pair is there with other
    settings, or when a broker does not start; then nothing is left.
    """
    place = _place(name, home)
    with locked(home / f"{name}.lock"):
        regions = find(name, home)
        if len(regions) < len(specs):
            _clear(place)  # of a start that was cut short: no broker ran yet
            try:
                return start_regions(with_ports(specs, ports), place)
            except BaseException:
                _clear(place)
                raise
        for region, spec in zip(regions, specs, strict=True):
            _same_settings(region.spec, spec, name)
            region.start()
        for region in regions:
            region.wait_ready()
        return regions


def _same_settings(there: RegionSpec, asked: RegionSpec, name: str) -> None:
    for key in (item.name for item in fields(RegionSpec) if item.name != "port"):
        old, new = getattr(there, key), getattr(asked, key)
        if old != new:
            raise LocalError(
                f"{name}: {there.name} is there with {key} {old}, not {new}.",
                hint=f"Take it down first (down --name {name}), or give another --name.",
            )


def with_ports(specs: Sequence[RegionSpec], ports: str) -> list[RegionSpec]:
    """The specs with ports: those asked for, else the usual ones where they are free, else any."""
    if ports == AUTO:
        return list(specs)
    first: list[int] = []
    with suppress(ValueError):
        first = [int(part) for part in ports.split(",")] if ports else list(DEFAULT_PORTS.values())
    if len(first) != len(specs) or not all(0 < one < 1 << 16 for one in first):
        raise LocalError(f"--ports {ports} is neither auto nor like 19092,29092.")
    return [_placed(spec, port, asked=bool(ports)) for spec, port in zip(specs, first, strict=True)]


def _placed(spec: RegionSpec, port: int, *, asked: bool) -> RegionSpec:
    """The spec with `port`, one more for each broker after the first; any ports if it is taken."""
    taken = [one for one in range(port, port + spec.brokers) if not is_free(one)]
    if taken and asked:
        raise LocalError(
            f"port {taken[0]} of {HOST} was asked for ({spec.name}) and is taken.",
            hint=f"See by whom with `ss -ltnp sport = :{taken[0]}`, or use --ports auto.",
        )
    if taken:
        print(f"{spec.name}: port {taken[0]} is taken, a free one is used", file=sys.stderr)
    return replace(spec, port=0 if taken else port)


def down(name: str, home: Path = HOME) -> list[Region]:
    """Stop every broker of a pair and remove all that it wrote; gives back what there was."""
    place = _place(name, home)
    with locked(home / f"{name}.lock"):
        regions = find(name, home)
        for region in regions:
            region.stop()
        _clear(place)
    (home / f"{name}.lock").unlink(missing_ok=True)
    return regions


def _place(name: str, home: Path) -> Path:
    """The folder of a pair. Raises: LocalError for a name that could lead out of `home`."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name) is None:
        raise LocalError(f"--name {name!r} is no name: only letters, digits, '-' and '_'.")
    return home / name


def _clear(place: Path) -> None:
    """Remove what `up` makes; what is of others there, as .local/kafka has, stays."""
    for side in DEFAULT_PORTS:
        shutil.rmtree(place / side, ignore_errors=True)
    with suppress(OSError):
        place.rmdir()
