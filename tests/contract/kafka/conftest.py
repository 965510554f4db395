"""Clusters that the contract tests share; a test of another kind of broker has a `cluster` of its
own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from mirrorfleet.kafka.cluster import Cluster
from services.local.region import Region, RegionSpec
from tests.conftest import running
from tests.fakes import broker as fake
from tests.fakes.broker import FakeBroker


@pytest.fixture
async def cluster(east: Region) -> AsyncIterator[Cluster]:
    async with Cluster(east.settings()) as opened:
        yield opened


@pytest.fixture(scope="module")
def old() -> Iterator[Region]:
    """A broker that knows transactions v1 only."""
    for started in running(RegionSpec(name="old", kafka="3.9.1")):
        yield started[0]


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    """One that leads the only partition of the topic `t`."""
    async with FakeBroker() as made:
        made.then(fake.METADATA, made.metadata, fake.topic_of(made, "t"))
        yield made
