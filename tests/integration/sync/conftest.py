"""Hands on the shared regions."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from services.local.region import Region
from tests.integration.sync.fleet import Hand, hand_on


@pytest.fixture
async def on_east(east: Region) -> AsyncIterator[Hand]:
    async with hand_on(east) as hand:
        yield hand


@pytest.fixture
async def on_west(west: Region) -> AsyncIterator[Hand]:
    async with hand_on(west) as hand:
        yield hand
