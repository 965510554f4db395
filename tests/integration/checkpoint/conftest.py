"""A stored map of a fleet of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mirrorfleet.kafka.cluster import Cluster
from services.local.region import Region
from tests.integration.checkpoint.stored_map import StoredMap


@pytest.fixture
async def stored_map(west: Region) -> AsyncIterator[StoredMap]:
    async with Cluster(west.settings()) as cluster:
        made = StoredMap(cluster)
        await made.make()
        yield made
        made.close()
