"""The two regions of a measurement, and how our services, librdkafka and Java reach each."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from services.local.region import Region, RegionSpec, Tuning, start_regions
from services.local.security import Kind, RegionSecurity
from tests.faultkit.regions import access, address
from tests.integration.security.kit import access_as, section
from tests.judge.reading import ClusterAccess

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HOME: Final = Path(__file__).resolve().parents[2] / ".local"
USER: Final = "admin"


@dataclass(frozen=True, slots=True)
class Side:
    """One region. `section` is its part of an estate file, `java` that of a Java client."""

    region: Region
    access: ClusterAccess
    section: Mapping[str, object]
    java: Mapping[str, str]


@contextmanager
def pair(security: Kind = Kind.PLAINTEXT) -> Iterator[tuple[Side, Side, Path]]:
    """Two regions with production flags, gone afterwards."""
    HOME.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="bench-", dir=HOME))
    specs = [
        RegionSpec(
            name=name,
            tuning=Tuning.STEADY,
            heap_mb=1_024,
            security=RegionSecurity(kind=security),
        )
        for name in ("east", "west")
    ]
    try:
        regions = start_regions(specs, directory)
        try:
            yield _side(regions[0], security), _side(regions[1], security), directory
        finally:
            for region in regions:
                region.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _side(region: Region, security: Kind) -> Side:
    if security is Kind.PLAINTEXT:
        return Side(region, access(region), {}, {"bootstrap.servers": address(region)})
    admitted = access_as(region, USER)
    asked = admitted.properties
    login = "org.apache.kafka.common.security.scram.ScramLoginModule"
    java = {
        "bootstrap.servers": address(region),
        "security.protocol": asked["security.protocol"],
        "sasl.mechanism": asked["sasl.mechanism"],
        "sasl.jaas.config": f'{login} required username="{asked["sasl.username"]}"'
        f' password="{asked["sasl.password"]}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": asked["ssl.ca.location"],
    }
    return Side(region, admitted, section(region, USER), java)
