"""The two regions of a measurement, and how our services, librdkafka and Java reach each.

With a line the copiers reach the source through a proxy that is as slow as it says; what fills the
source and looks at its end does not.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from services.local.region import Region, RegionSpec, Tuning, start_regions
from services.local.security import Kind, RegionSecurity
from tests.faultkit.far import far_pair
from tests.faultkit.regions import access, address
from tests.faultkit.waiting import wait_until
from tests.integration.security.kit import access_as, section
from tests.judge.reading import ClusterAccess

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.faultkit.pipes import Line

HOME: Final = Path(__file__).resolve().parents[2] / ".local"
USER: Final = "admin"
DELETE_AT_ONCE: Final = {"log.segment.delete.delay.ms": "0"}
"""By default gigabytes of the system before are deleted a minute later, in another's time."""
SETTLE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Side:
    """One region. `section` is its part of an estate file, `java` that of a Java client.

    `bootstrap` is for copiers, `access` for all others.
    """

    region: Region
    access: ClusterAccess
    bootstrap: str
    section: Mapping[str, object]
    java: Mapping[str, str]


def _has_deleted(directory: Path) -> bool:
    return not any(directory.rglob("*-delete"))


def settle(*sides: Side) -> None:
    """Until nothing of what was measured before is left to delete or to write to the disk."""
    for side in sides:
        wait_until(
            partial(_has_deleted, side.region.directory),
            deadline_s=SETTLE_S,
            what=f"{side.region.name} to delete",
            ignoring=(FileNotFoundError,),
        )
    os.sync()


@contextmanager
def pair(
    security: Kind = Kind.PLAINTEXT, line: Line | None = None
) -> Iterator[tuple[Side, Side, Path]]:
    """Two regions with production flags, gone afterwards; `line` is the way from the source.

    Raises:
        SystemExit: security and a line together, which no measurement asks for.
    """
    HOME.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="bench-", dir=HOME))
    specs = [
        RegionSpec(
            name=name,
            tuning=Tuning.STEADY,
            heap_mb=1_024,
            extra=DELETE_AT_ONCE,
            security=RegionSecurity(kind=security),
        )
        for name in ("east", "west")
    ]
    if line is not None and security is not Kind.PLAINTEXT:
        raise SystemExit("--rtt and --window measure without security.")
    try:
        with _far(specs, line) if line is not None else _near(specs, directory, security) as sides:
            yield *sides, directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _near(specs: list[RegionSpec], directory: Path, security: Kind) -> Iterator[tuple[Side, Side]]:
    regions = start_regions(specs, directory)
    try:
        yield _side(regions[0], security), _side(regions[1], security)
    finally:
        for region in regions:
            region.stop()


@contextmanager
def _far(specs: list[RegionSpec], line: Line) -> Iterator[tuple[Side, Side]]:
    with far_pair(*specs) as regions:
        source, target = (_side(regions[spec.name].region, Kind.PLAINTEXT) for spec in specs)
        gates = regions["east"].gates.values()
        for gate in gates:
            gate.set(up=line, down=line)
        bootstrap = ",".join(gate.address for gate in gates)
        java = {**source.java, "bootstrap.servers": bootstrap}
        yield replace(source, bootstrap=bootstrap, java=java), target


def _side(region: Region, security: Kind) -> Side:
    at = address(region)
    if security is Kind.PLAINTEXT:
        return Side(region, access(region), at, {}, {"bootstrap.servers": at})
    admitted = access_as(region, USER)
    asked = admitted.properties
    login = "org.apache.kafka.common.security.scram.ScramLoginModule"
    java = {
        "bootstrap.servers": at,
        "security.protocol": asked["security.protocol"],
        "sasl.mechanism": asked["sasl.mechanism"],
        "sasl.jaas.config": f'{login} required username="{asked["sasl.username"]}"'
        f' password="{asked["sasl.password"]}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": asked["ssl.ca.location"],
    }
    return Side(region, admitted, at, section(region, USER), java)
