"""`/readyz` of sync goes red for the cluster that is away, names it, and is green again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

from mirrorfleet.config.load import load_estate
from mirrorfleet.runtime.health import Role
from services.local.region import Region
from tests.faultkit.waiting import until
from tests.integration.following.conftest import Guarded
from tests.integration.following.kit import estate_of, grant_sync
from tests.integration.sync.fleet import Hand, Running, fresh, syncing

RED_S: Final = 40.0
GREEN_S: Final = 60.0


def is_green(sync: Running) -> bool:
    """Whether it is ready because it does its job, not because it waits for its turn."""
    return sync.health.ready and sync.health.role is Role.ACTIVE


async def start_again(region: Region) -> None:
    region.start()
    await asyncio.to_thread(region.wait_ready)


@pytest.mark.timeout(300)
async def test_sync_is_red_while_a_cluster_is_away_and_green_again(
    guarded: Guarded, on_source: Hand, on_target: Hand, tmp_path: Path
) -> None:
    topic = fresh("ready")
    file = estate_of(guarded, tmp_path, f"{topic}.*")
    await grant_sync(file, on_source, on_target)
    await on_source.create(topic)
    async with syncing(load_estate(file)) as sync:
        await on_target.shows(sync.fleet, [(topic, f"east.{topic}", 0)])
        assert is_green(sync)

        guarded.east.stop()
        red = await until(sync.health.reasons, deadline_s=RED_S, what="red without the source")
        assert list(red) == ["link east->west"]
        assert guarded.east.bootstrap[0] in red["link east->west"]
        await start_again(guarded.east)
        await until(lambda: is_green(sync), deadline_s=GREEN_S, what="green with the source")

        guarded.west.stop()
        await until(sync.health.reasons, deadline_s=RED_S, what="red without the target")
        await start_again(guarded.west)
        await until(lambda: is_green(sync), deadline_s=GREEN_S, what="green with the target")
        await on_source.create(f"{topic}-late")
        copies = [(topic, f"east.{topic}", 0), (f"{topic}-late", f"east.{topic}-late", 0)]
        await on_target.shows(sync.fleet, copies)
