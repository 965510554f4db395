"""A region of the local pair as librdkafka, the judge and the marker reader want it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.judge.reading import ClusterAccess

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region

QUICK_TO_NOTICE: Final = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}
"""Brokers that miss a dead one after 3 s, and not after 9."""
UNFENCED: Final = {"broker.session.timeout.ms": "120000"}
"""For an only broker that nobody kills. One whose controller waits 9 s for a slow disk is fenced
and leads nothing, and 4.3 then leaves out markers (KAFKA-20734): records that were called committed
vanish with the next abort of their producer. Measured on two busy cores: it stood for 23 s."""


def address(region: Region) -> str:
    """Give all brokers of a region as one bootstrap text."""
    return ",".join(region.bootstrap)


def access(region: Region) -> ClusterAccess:
    """Say how the judge reaches a region that is open to all."""
    return ClusterAccess(address(region))


def data_directories(region: Region) -> list[Path]:
    """Give the log directories of all brokers of a region."""
    return [broker.directory / "data" for broker in region.brokers]
