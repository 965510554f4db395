"""M6: TLS and SASL, a password that is rotated, and certificates, with the CA that signs them.

MirrorMaker 2: Java's configuration, and a restart for every change. Here: PEM files and secrets in
files, read for each connection, so that a rotated one is used without a restart.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not in its __all__
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from services.install.credentials import Wanted, write
from services.local.region import RegionSpec
from services.local.security import GOOD_HOSTS, SUPER_USER, Kind, RegionSecurity
from tests.faultkit.hold import hold_sync
from tests.faultkit.process import service
from tests.faultkit.regions import address
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import wait_until
from tests.integration.security.kit import access_as, properties, section
from tests.judge.verdict import Evidence, Verdict
from tests.versions.kit import READY_S, Fleet, wait_all_copying

if TYPE_CHECKING:
    from collections.abc import Callable

    from services.local.region import Region
    from tests.conftest import Regions
    from tests.faultkit.process import ServiceProcess

USER: Final = "mirrorfleet"
RATE: Final = 2_000
FRESH_MS: Final = 2_000
"""A worker speaks once a second, and the target is away for longer than this."""
NEVER_MS: Final = sys.maxsize
"""While the stream is begun anew nobody is heard."""


def rotate_password(region: Region, secret: Path) -> None:
    """Give the user another password, as an operator does; every connection is new afterwards."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(USER, info, b"another-secret")
    admin = AdminClient(properties(access_as(region)))
    for each in admin.alter_user_scram_credentials([change]).values():
        each.result(20)
    secret.write_text("another-secret")
    region.broker(1).stop()
    region.broker(1).restart()


def rotate_certificates(region: Region, _: Path) -> None:
    """Another CA signs those of brokers and clients, whose files have the same names. Who still has
    an old one is refused by the broker, or refuses it.
    """
    ca_file = region.settings(USER).security.ca_file
    assert ca_file is not None
    region.broker(1).stop()
    write(
        Wanted(
            directory=Path(ca_file).parent,
            hosts=GOOD_HOSTS,
            lifetime_days=30,
            certificates=(SUPER_USER, USER),
            passwords={},
        )
    )
    region.broker(1).restart()


def heard_ms_ago(lag: ServiceProcess) -> int:
    """How long ago `lag`, whose stream is Faust's, heard a worker."""
    links = lag.status()["links"]
    assert isinstance(links, list)
    heard = links[0]["progress_heard_ms_ago"]
    return NEVER_MS if heard is None else int(heard)


def fleet_of(kind: Kind, east: Region, target: Region, secret: Path) -> Fleet:
    """Into a secured target, by a password that is in a file of its own, or a certificate."""
    written = section(target, USER)
    if kind is Kind.SASL_SSL:
        secret.write_text(f"{USER}-secret")
        written |= {"password": {"file": str(secret)}}
    return Fleet(
        f"m6-{kind}",
        east,
        target,
        secret.parent,
        topics=["orders:12"],
        clusters={"west": {"security": written}},
        target_access=access_as(target),
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("kind", "rotate"),
    [(Kind.SASL_SSL, rotate_password), (Kind.MTLS, rotate_certificates)],
    ids=["password", "certificates"],
)
def test_m6_what_is_rotated_is_used_without_a_restart(
    east: Region,
    regions: Regions,
    tmp_path: Path,
    kind: Kind,
    rotate: Callable[[Region, Path], None],
) -> None:
    (target,) = regions(RegionSpec(name="secured", security=RegionSecurity(kind=kind)))
    secret = tmp_path / "west.password"
    fleet = fleet_of(kind, east, target, secret)
    with (
        fleet.sync() as sync,
        traffic(address(east), fleet.topics, rate=RATE) as load,
        fleet.mirror() as mirror,
        service("lag", estate=fleet.estate, target="west", logs=fleet.logs) as lag,
    ):
        wait_all_copying(mirror)
        lag.wait_ready(READY_S)
        before = fleet.copied()
        rotate(target, secret)
        wait_all_copying(mirror)
        hold_sync(2.0, reason="load by what is new")
        mirror.wait_ready(30)
        sync.wait_ready(30)
        wait_until(
            lambda: heard_ms_ago(lag) < FRESH_MS, deadline_s=READY_S, what="lag to hear the mirror"
        )
        load.stop()
        evidence = Evidence("rotation", bit=fleet.copied() > before > 0)
        report = fleet.judged([evidence], records=RATE)

    assert report.verdict is Verdict.PASS
