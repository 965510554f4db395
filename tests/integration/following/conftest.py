"""A pair that checks ACLs, shared by the tests of this folder; they use topics of their own.

`sync` is no super user: it has what `mirrorfleet acls` prints, and nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

import pytest

from services.local.region import Region, RegionSpec
from services.local.security import Authorizer, Kind, RegionSecurity
from tests.conftest import running
from tests.integration.sync.fleet import Hand, hand_on

USERS = {name: f"{name}-secret" for name in ("admin", "sync")}


class Guarded(NamedTuple):
    """Two regions with SASL and ACLs."""

    east: Region
    west: Region


@pytest.fixture(scope="package")
def guarded() -> Iterator[Guarded]:
    security = RegionSecurity(kind=Kind.SASL_PLAINTEXT, authorizer=Authorizer.STANDARD, users=USERS)
    specs = (RegionSpec(name=name, security=security, heap_mb=640) for name in ("east", "west"))
    for regions in running(*specs):
        yield Guarded(*regions)


@pytest.fixture
async def on_source(guarded: Guarded) -> AsyncIterator[Hand]:
    async with hand_on(guarded.east) as hand:
        yield hand


@pytest.fixture
async def on_target(guarded: Guarded) -> AsyncIterator[Hand]:
    async with hand_on(guarded.west) as hand:
        yield hand
