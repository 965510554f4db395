"""What changes at a source is followed on the target, by a `sync` with the least rights."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest

from mirrorfleet.config.load import load_estate
from mirrorfleet.core.access import AclBinding
from mirrorfleet.policy.acls import Operation
from mirrorfleet.syncing.fleet import BACK_S
from tests.faultkit.hold import IS_LONG
from tests.faultkit.waiting import until
from tests.integration.following.conftest import Guarded
from tests.integration.following.kit import an_acl, estate_of, grant_sync
from tests.integration.sync.fleet import Hand, Running, fresh, syncing

FOLLOWED_S: Final = 10.0 if IS_LONG else 30.0
"""The short form runs on any machine: a look that a stall ends is begun again 5 s later."""


async def followed(
    hand: Hand, names: set[str], wanted: set[AclBinding], within_s: float = FOLLOWED_S
) -> float:
    """Wait for exactly these ACLs; the seconds that it took."""

    async def same() -> bool:
        return await hand.acls(names) == wanted

    started = time.monotonic()
    await until(same, deadline_s=within_s, what=f"{wanted}")
    return time.monotonic() - started


async def grown(hand: Hand, sync: Running, topic: str, partitions: int) -> float:
    """Wait until so many partitions are copied; the seconds that it took."""
    started = time.monotonic()
    await hand.shows(sync.fleet, [(topic, f"east.{topic}", n) for n in range(partitions)])
    return time.monotonic() - started


async def configured(hand: Hand, topic: str, wanted: dict[str, str]) -> float:
    """Wait for these overrides beside those that make a copy exact."""
    ours = {"compression.type", "cleanup.policy", "message.timestamp.type"}
    ours |= {"message.timestamp.before.max.ms", "message.timestamp.after.max.ms"}

    async def same() -> bool:
        found = await hand.overrides(topic)
        return {name: found[name] for name in found.keys() - ours} == wanted

    started = time.monotonic()
    await until(same, deadline_s=FOLLOWED_S, what=f"{wanted} on {topic}")
    return time.monotonic() - started


def acls_of(topic: str, group: str) -> tuple[list[AclBinding], set[AclBinding]]:
    """ACLs of a source topic and group, and what holds for the copy."""
    copy = f"east.{topic}"
    there = [
        an_acl(f"ALLOW User:alice READ TOPIC LITERAL {topic}"),
        an_acl(f"ALLOW User:bob ALL TOPIC PREFIXED {topic}"),
        an_acl(f"ALLOW User:carol WRITE TOPIC LITERAL {topic}"),
        an_acl(f"DENY User:dan READ TOPIC LITERAL {topic}"),
        an_acl(f"ALLOW User:alice READ GROUP LITERAL {group}"),
    ]
    here = {
        an_acl(f"ALLOW User:alice READ TOPIC LITERAL {copy}"),
        an_acl(f"ALLOW User:bob READ TOPIC PREFIXED {copy}"),
        an_acl(f"DENY User:dan READ TOPIC LITERAL {copy}"),
        an_acl(f"ALLOW User:alice READ GROUP LITERAL {group}"),
    }
    return there, here


@pytest.mark.timeout(240)
async def test_a_config_an_acl_and_a_partition_count_are_followed_and_write_never_crosses(
    guarded: Guarded, on_source: Hand, on_target: Hand, tmp_path: Path
) -> None:
    topic, group = fresh("orders"), fresh("app")
    copy, groups = f"east.{topic}", {"groups": [f"{group}.*"]}
    file = estate_of(guarded, tmp_path, f"{topic}.*", rule=groups, link={"acls": "mirror"})
    await grant_sync(file, on_source, on_target)
    await on_source.create(topic, 1, {"retention.ms": "1000000"})
    local = an_acl(f"ALLOW User:local READ TOPIC LITERAL {copy}")
    await on_target.give(local)
    there, here = acls_of(topic, group)
    took: dict[str, float] = {}
    async with syncing(load_estate(file)) as sync:
        await on_target.shows(sync.fleet, [(topic, copy, 0)])
        await on_source.alter(topic, retention_ms="2000000", min_insync_replicas="1")
        took["config"] = await configured(on_target, copy, {"retention.ms": "2000000"})
        await on_source.give(*there)
        took["ACLs"] = await followed(on_target, {copy, group}, {local, *here})
        await on_source.grow(topic, 4)
        took["partitions"] = await grown(on_target, sync, topic, 4)
        await on_source.alter(topic, retention_ms=None)
        took["config taken away"] = await configured(on_target, copy, {})
        await on_source.take_back(*there)
        within_s = BACK_S + FOLLOWED_S
        took["ACLs revoked"] = await followed(on_target, {copy, group}, {local}, within_s)
        await until(
            lambda: not sync.service._store.waits.is_set(),
            deadline_s=30,
            what="all events to be written",
        )
        kinds = [each.kind for each in await on_target.events(sync.fleet)]

    print("followed after " + ", ".join(f"{what} {took[what]:.1f} s" for what in took))
    assert sync.held() == {}
    assert kinds.count("acl-added") == kinds.count("acl-removed") == 4


async def test_what_may_not_be_followed_is_said_and_copying_goes_on(
    guarded: Guarded, on_source: Hand, on_target: Hand, tmp_path: Path
) -> None:
    topic = fresh("unseen")
    file = estate_of(guarded, tmp_path, topic, link={"acls": "add"})
    given = await grant_sync(file, on_source, on_target)
    alter = [each for each in given if each.operation.name == Operation.ALTER.name]
    (cluster,) = [each for each in alter if each.name == "kafka-cluster"]
    await on_target.take_back(cluster)
    try:
        await on_source.create(topic)
        async with syncing(load_estate(file)) as sync:
            await on_target.shows(sync.fleet, [(topic, f"east.{topic}", 0)])
            await until(
                lambda: (
                    "may not DESCRIBE Cluster on west" in sync.health.notes()["link east->west"]
                ),
                deadline_s=FOLLOWED_S,
                what="a note on the right that is missing",
            )
            assert sync.health.ready
    finally:
        await on_target.give(cluster)
