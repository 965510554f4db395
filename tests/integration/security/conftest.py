"""The pair that all tests of this folder share: one start of two brokers.

`sasl`: SASL_SSL, all mechanisms at once, and listeners whose certificates are wrong.
`mutual`: mutual TLS. Both check ACLs, so that a service may do what a test has granted and nothing
else.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from services.install.authority import Authority
from services.local.ports import HOST, free_ports
from services.local.region import Region, RegionSpec
from services.local.security import GOOD_HOSTS, Authorizer, Kind, RegionSecurity
from tests.conftest import HOME

USERS = {name: f"{name}-secret" for name in ("admin", "mirror", "sync")}


class WrongListeners(NamedTuple):
    """Listeners of `sasl` with TLS only, certificates of another authority, and a flaw each.

    `expired` stays so; `lapsed` is for the test that renews it.
    """

    authority: Authority
    expired: str
    lapsed: str
    elsewhere: str


class SecurePair(NamedTuple):
    """What runs."""

    sasl: Region
    mutual: Region
    wrong: WrongListeners


def guarded(kind: Kind) -> RegionSecurity:
    return RegionSecurity(kind=kind, authorizer=Authorizer.STANDARD, users=USERS)


def add_wrong_listeners(region: Region) -> WrongListeners:
    """Write three listeners more into the settings of a region that was not started yet."""
    authority = Authority(region.directory / "wrong")
    expired, lapsed, elsewhere = (f"{HOST}:{port}" for port in free_ports(3))
    certificates = {
        "expired": authority.issue("expired", GOOD_HOSTS, timedelta(days=-1)),
        "lapsed": authority.issue("lapsed", GOOD_HOSTS, timedelta(days=-1)),
        "elsewhere": authority.issue("elsewhere", ("elsewhere.example",), timedelta(days=1)),
    }
    more = f",EXPIRED://{expired},LAPSED://{lapsed},ELSEWHERE://{elsewhere}"
    lines = []
    file = region.brokers[0].directory / "server.properties"
    for line in file.read_text().splitlines():
        name = line.partition("=")[0]
        if name in {"listeners", "advertised.listeners"}:
            lines.append(line + more)
        elif name == "listener.security.protocol.map":
            lines.append(line + ",EXPIRED:SSL,LAPSED:SSL,ELSEWHERE:SSL")
        else:
            lines.append(line)
    for name, certificate in certificates.items():
        lines.append(f"listener.name.{name}.ssl.keystore.type=PEM")
        lines.append(f"listener.name.{name}.ssl.keystore.location={certificate}")
    file.write_text("\n".join(lines) + "\n")
    return WrongListeners(authority, expired, lapsed, elsewhere)


@pytest.fixture(scope="package")
def secure_pair() -> Iterator[SecurePair]:
    HOME.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="test-", dir=HOME))
    sasl, mutual = (
        Region.create(RegionSpec(name=name, security=guarded(kind)), directory / name)
        for name, kind in (("sasl", Kind.SASL_SSL), ("mutual", Kind.MTLS))
    )
    wrong = add_wrong_listeners(sasl)
    try:
        for region in sasl, mutual:
            region.start()
        for region in sasl, mutual:
            region.wait_ready()
        yield SecurePair(sasl, mutual, wrong)
    finally:
        for region in sasl, mutual:
            region.stop()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="package")
def sasl(secure_pair: SecurePair) -> Region:
    """SASL_SSL."""
    return secure_pair.sasl


@pytest.fixture(scope="package")
def mutual(secure_pair: SecurePair) -> Region:
    """Mutual TLS."""
    return secure_pair.mutual


@pytest.fixture(scope="package")
def wrong(secure_pair: SecurePair) -> WrongListeners:
    """Listeners that no client should trust."""
    return secure_pair.wrong
