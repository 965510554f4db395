"""What brokers refuse for a while: quotas, old logins, a full disk."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from mirrorfleet.kafka.opening import TcpConnector
from services.local.ports import HOST
from services.local.region import RegionSpec
from services.local.security import Kind, RegionSecurity
from tests.faultkit.bites import was_throttled
from tests.faultkit.disk import fill, has_ended
from tests.faultkit.far import far_pair
from tests.faultkit.hold import IS_LONG, hold_sync
from tests.faultkit.process import peak_rss_mb
from tests.faultkit.waiting import wait_until
from tests.faults.regions.breaking import in_sync, started
from tests.faults.regions.conftest import BROKERS
from tests.faults.regions.drill import RSS_MB, SECONDS, SLOTS, drill, settled
from tests.judge.render import render
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from tests.faultkit.far import FarRegion
    from tests.faultkit.proxy import Gate

HOLD_S: Final = SECONDS if IS_LONG else 15.0
QUOTA: Final = 300_000.0
"""Bytes a second of each broker: a fraction of the load."""
QUOTA_MOST: Final = 3 * 2 * QUOTA
"""Of three brokers, whose averages allow a burst."""
MIRROR: Final = "mirrorfleet-mirror"
CLOSED: Final = "was closed by the broker"
"""What the mirror logs when a connection that it copies over is ended by the other side. Six busy
brokers on two cores are once too late with a login; one that is not renewed ends each life."""

pytestmark = [pytest.mark.timeout(1_500), pytest.mark.long]


def bytes_a_second(gates: Collection[Gate], reason: str) -> float:
    """What goes through gates both ways while a state is held."""
    before = sum(gate.seen().up + gate.seen().down for gate in gates)
    hold_sync(HOLD_S, reason=reason)
    return (sum(gate.seen().up + gate.seen().down for gate in gates) - before) / HOLD_S


@pytest.mark.parametrize(
    ("side", "kind"), [("east", "consumer_byte_rate"), ("west", "producer_byte_rate")]
)
def test_a_quota_slows_the_copy_and_costs_nothing_else(
    pair: dict[str, FarRegion], tmp_path: Path, side: str, kind: str
) -> None:
    with drill(f"quota-{side}", pair, tmp_path) as it:
        it.start_load()
        mirror = it.mirror()
        # what is left of the start would be faster than a short load; a long one alone is several
        # times the quota
        settled(it, mirror)
        gates = pair[side].gates.values()
        before = bytes_a_second(gates, "not throttled")
        with it.fault(f"{side} {kind} {QUOTA:.0f}") as fault:
            it.roles(side).set_quota(MIRROR, **{kind: QUOTA})
            try:
                hold_sync(5.0, reason="the broker's average still has the time before in it")
                during = bytes_a_second(gates, "throttled")
            finally:
                it.roles(side).set_quota(MIRROR, **{kind: None})
            fault.bit(*was_throttled(before, during, QUOTA_MOST))
        it.settle(mirror)
        report = it.judged(patience_s=90)
        mirror.check_alive()
        assert '"message": "fenced"' not in mirror.text()

    assert report.verdict is Verdict.PASS, render(report)
    it.check_recovered()


async def life_of_a_login(far: FarRegion) -> float:
    """Seconds after which the brokers of a region want a client to log in again."""
    settings = replace(
        far.region.settings("mirrorfleet"), bootstrap=tuple(far.bootstrap.split(","))
    )
    connection = await TcpConnector(settings).open(HOST, far.gates[1].port)
    try:
        assert connection.renewal is not None
        return connection.renewal.due - asyncio.get_running_loop().time()
    finally:
        connection.close()
        await connection.wait_closed()


def test_logins_that_expire_every_five_seconds_cost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULTS_PASSWORD", "mirrorfleet-secret")
    secured = RegionSecurity(kind=Kind.SASL_PLAINTEXT)
    specs = [RegionSpec(name=side, brokers=3, security=secured) for side in ("east", "west")]
    short = {"listener.name.far.scram-sha-512.connections.max.reauth.ms": "5000"}
    with far_pair(*specs, extra=short) as pair:
        login = {
            "protocol": "SASL_PLAINTEXT",
            "mechanism": "SCRAM-SHA-512",
            "username": "mirrorfleet",
            "password": {"env": "FAULTS_PASSWORD"},
        }
        with drill("login", pair, tmp_path, security={"east": login, "west": login}) as it:
            it.start_load()
            mirror = it.mirror()
            it.settle(mirror)
            with it.fault("logins expire every 5 s") as fault:
                opened = sum(g.seen().accepted for far in pair.values() for g in far.gates.values())
                hold_sync(max(SECONDS, 20.0), reason="four lives of a login")
                now = sum(g.seen().accepted for far in pair.values() for g in far.gates.values())
                lives = [asyncio.run(life_of_a_login(far)) for far in pair.values()]
                fault.bit(max(lives) <= 5, f"lives {lives} s, {now - opened} new connections")
            report = it.judged()
            mirror.check_alive()

    assert report.verdict is Verdict.PASS, render(report)
    it.check_recovered()
    ended = mirror.text().count(CLOSED)
    print(f"{ended} transactions lost their connection")
    assert ended <= SLOTS, "logins are not renewed in time"


@pytest.mark.parametrize("full", [1, 3])
def test_a_target_whose_disks_are_full_is_waited_for(
    pair: dict[str, FarRegion], tmp_path: Path, full: int
) -> None:
    """One of three is done without: two replicas are left, and that is enough to acknowledge."""
    with drill(f"full-{full}", pair, tmp_path) as it:
        it.start_load()
        mirror = it.mirror()
        it.settle(mirror)
        brokers = pair["west"].region.brokers[:full]
        with it.fault(f"no room on {full} target brokers", aborts=full == BROKERS) as fault:
            try:
                for broker in brokers:
                    fill(broker)
                wait_until(
                    lambda: all(map(has_ended, brokers)), deadline_s=60, what="full brokers to end"
                )
                fault.bit(True, "all of these ended")
                if full < BROKERS:
                    it.settle(mirror)
                hold_sync(HOLD_S, reason="the target has no room")
            finally:
                for broker in brokers:
                    broker.kill()
                started(brokers)
        in_sync(it, "west")
        it.settle(mirror)
        report = it.judged(patience_s=90)
        peak_mb = peak_rss_mb(mirror.pid)
        print(f"resident memory: at most {peak_mb:.0f} MB")
        mirror.check_alive()

    assert report.verdict is Verdict.PASS, render(report)
    it.check_recovered()
    assert peak_mb < RSS_MB
