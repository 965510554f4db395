"""What `lag` says of its own sight: readiness, metrics, and records that it cannot read."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.faultkit.process import ServiceProcess, service
from tests.faultkit.waiting import wait_until
from tests.integration.lag.fleet import lag_fleet
from tests.integration.lag.puppet import Puppet, catalog_of
from tests.integration.mirror.making import Made, create, put

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from services.local.region import Region
    from tests.integration.mirror.fleet import Fleet

TOPIC = "lagsee-orders"
RECORDS = 10
SOON_S = 30.0
AWAY_S = 10.0
"""Longer than a busy machine keeps brokers and disks from their work: that was 7 s once."""
CHANGES = ["ok -> unknown", "unknown -> ok", "ok -> stopped", "stopped -> ok"]
LAG = f'mirrorfleet_lag_seconds{{link="east->west",topic="{TOPIC}"}}'
SKIPPED = 'mirrorfleet_lag_records_skipped_total{kind="progress"}'
ENDS_AGE = 'mirrorfleet_seconds_since_source_ends{link="east->west"}'
HEARD_AGE = 'mirrorfleet_seconds_since_progress_heard{link="east->west"}'


def reasons(lag: ServiceProcess) -> dict[str, str]:
    found = lag.get("/readyz").json()["reasons"]
    assert isinstance(found, dict)
    return found


def wait_reason(lag: ServiceProcess, name: str, text: str) -> None:
    wait_until(
        lambda: text in reasons(lag).get(name, ""), deadline_s=SOON_S, what=f"{name}: {text}"
    )


def metric(lag: ServiceProcess, series: str) -> float | None:
    found = re.search(rf"^{re.escape(series)} (\S+)$", lag.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else None


def row(lag: ServiceProcess) -> dict[str, object]:
    (found,) = lag.get(f"/lag?topic={TOPIC}").json()
    assert isinstance(found, dict)
    return found


def wait_verdict(lag: ServiceProcess, *any_of: str) -> None:
    """Partitions are judged a moment before or after readiness is."""
    wait_until(lambda: row(lag)["verdict"] in any_of, deadline_s=SOON_S, what=str(any_of))


@pytest.fixture
def fleet(east: Region, west: Region, tmp_path: Path) -> Fleet:
    """A fleet with a catalog of one partition, and nobody who copies it."""
    create(east, TOPIC)
    put(east, TOPIC, [Made(b"%d" % number) for number in range(RECORDS)])
    made = lag_fleet(
        "lagsee", east, west, tmp_path, topics=["lagsee-.*"], unseen_s=AWAY_S, silent_s=AWAY_S
    )
    with made.sync() as sync:
        wait_until(lambda: sync.status()["partitions"] == 1, deadline_s=30, what="the catalog")
    return made


def changes(fleet: Fleet) -> list[str]:
    details = [str(event["detail"]).partition(":")[0] for event in fleet.events("verdict-changed")]
    return [text.replace("idle", "ok") for text in details]


@contextmanager
def paused(region: Region) -> Iterator[None]:
    """Its only broker stands still; connections stay."""
    (broker,) = region.brokers
    broker.pause()
    try:
        yield
    finally:
        broker.resume()


def check_skipping(lag: ServiceProcess, puppet: Puppet) -> None:
    """Records of a newer build, and none at all, are counted and harm nothing."""
    wait_until(lambda: metric(lag, LAG) == 0, deadline_s=SOON_S, what="no lag")
    puppet.write(b"\x09\x00", b"\x09 of a newer build")
    puppet.write(b"junk", b"")
    wait_until(lambda: metric(lag, SKIPPED) == 2, deadline_s=SOON_S, what="two skipped")
    assert reasons(lag) == {}


def check_source_away(lag: ServiceProcess, east: Region) -> None:
    with paused(east):
        wait_reason(lag, "source ends east->west", "have not been seen for")
        wait_verdict(lag, "unknown")
        assert (row(lag)["time_lag_ms"], row(lag)["lag_records"]) == (None, None)
        assert metric(lag, LAG) is None
        assert (metric(lag, ENDS_AGE) or 0) > AWAY_S
    lag.wait_ready(SOON_S)
    wait_until(lambda: row(lag)["time_lag_ms"] == 0, deadline_s=SOON_S, what="no lag again")


def test_it_says_what_it_cannot_see_and_is_ready_again_when_it_can(
    east: Region, west: Region, fleet: Fleet
) -> None:
    (entry,) = catalog_of(west, fleet)
    puppet = Puppet(west, fleet, entry)
    puppet.position = RECORDS
    with service("lag", estate=fleet.estate, target="west", logs=fleet.directory / "logs") as lag:
        with puppet.speaking():
            lag.wait_ready(SOON_S)
            check_skipping(lag, puppet)
            check_source_away(lag, east)
        wait_reason(lag, "progress east->west", "workers have been silent for")
        wait_verdict(lag, "stopped")
        assert (metric(lag, HEARD_AGE) or 0) > AWAY_S
        with paused(west):
            wait_reason(lag, "samples", "west")
        with puppet.speaking():
            lag.wait_ready(SOON_S)
            wait_verdict(lag, "ok", "idle")
            wait_until(  # written half a second later, and the service is killed
                lambda: len(changes(fleet)) >= len(CHANGES),
                deadline_s=SOON_S,
                what="the last change in the ledger",
            )

    assert changes(fleet) == CHANGES
