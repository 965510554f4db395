"""M6: TLS and SASL, and a password that is rotated.

MirrorMaker 2: Java's configuration, and a restart for every change. Here: PEM files and secrets in
files, read for each connection, so that a rotated one is used without a restart.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not in its __all__
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from services.local.region import RegionSpec
from services.local.security import Kind, RegionSecurity
from tests.faultkit.hold import hold_sync
from tests.faultkit.process import service
from tests.faultkit.regions import address
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import wait_until
from tests.integration.security.kit import access_as, properties, section
from tests.judge.verdict import Evidence, Verdict
from tests.versions.kit import READY_S, Fleet, wait_all_copying

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region
    from tests.conftest import Regions
    from tests.faultkit.process import ServiceProcess

USER: Final = "mirrorfleet"
RATE: Final = 2_000
FRESH_MS: Final = 2_000
"""A worker speaks once a second, and the target is away for longer than this."""
NEVER_MS: Final = sys.maxsize
"""While the stream is begun anew nobody is heard."""


def rotate(region: Region, password: str) -> None:
    """Give the user another password, as an operator does."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(USER, info, password.encode())
    admin = AdminClient(properties(access_as(region)))
    for each in admin.alter_user_scram_credentials([change]).values():
        each.result(20)


def renew_connections(region: Region) -> None:
    """Stop its broker and start it again: every connection is new afterwards."""
    region.broker(1).stop()
    region.broker(1).restart()


def heard_ms_ago(lag: ServiceProcess) -> int:
    """How long ago `lag`, whose stream is Faust's, heard a worker."""
    links = lag.status()["links"]
    assert isinstance(links, list)
    heard = links[0]["progress_heard_ms_ago"]
    return NEVER_MS if heard is None else int(heard)


@pytest.mark.timeout(300)
def test_m6_a_rotated_password_is_used_without_a_restart(
    east: Region, regions: Regions, tmp_path: Path
) -> None:
    (target,) = regions(RegionSpec(name="secured", security=RegionSecurity(kind=Kind.SASL_SSL)))
    secret = tmp_path / "west.password"
    secret.write_text(f"{USER}-secret")
    written = {**section(target, USER), "password": {"file": str(secret)}}
    fleet = Fleet(
        "m6",
        east,
        target,
        tmp_path,
        topics=["orders:12"],
        clusters={"west": {"security": written}},
        target_access=access_as(target),
    )
    with (
        fleet.sync() as sync,
        traffic(address(east), fleet.topics, rate=RATE) as load,
        fleet.mirror() as mirror,
        service("lag", estate=fleet.estate, target="west", logs=fleet.logs) as lag,
    ):
        wait_all_copying(mirror)
        lag.wait_ready(READY_S)
        rotate(target, "another-secret")
        secret.write_text("another-secret")
        before = fleet.copied()
        renew_connections(target)
        wait_all_copying(mirror)
        hold_sync(2.0, reason="load by the new password")
        mirror.wait_ready(30)
        sync.wait_ready(30)
        wait_until(
            lambda: heard_ms_ago(lag) < FRESH_MS, deadline_s=READY_S, what="lag to hear the mirror"
        )
        load.stop()
        evidence = Evidence("rotation", bit=fleet.copied() > before > 0)
        report = fleet.judged([evidence], records=RATE)

    assert report.verdict is Verdict.PASS
