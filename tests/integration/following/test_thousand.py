"""A look at a thousand topics that did not change. Last in its folder: they stay on the pair."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from mirrorfleet.config.load import load_estate
from mirrorfleet.kafka.admin import NewTopic, create_topics
from services.sync.report import LinkReport
from tests.faultkit.waiting import until
from tests.integration.following.conftest import Guarded
from tests.integration.following.kit import an_acl, estate_of, grant_sync
from tests.integration.sync.fleet import Hand, Running, fresh, syncing

MANY: Final = 1_000
CYCLE_S: Final = 5.0
CYCLES: Final = 5


@pytest.mark.timeout(400)
async def test_a_cycle_over_1000_unchanged_topics_writes_nothing_and_is_quick(
    guarded: Guarded, on_source: Hand, on_target: Hand, tmp_path: Path
) -> None:
    word = fresh("many")
    file = estate_of(guarded, tmp_path, f"{word}-.*", link={"acls": "mirror"})
    await grant_sync(file, on_source, on_target)
    await create_many(on_source, word)
    async with syncing(load_estate(file)) as sync:
        report = sync.service.reports[0]
        await until(
            lambda: (
                report.entries == MANY
                and report.pending == 0
                and not sync.service._store.waits.is_set()
            ),
            deadline_s=200,
            what="all of them in step, and told",
        )
        before = await state_of(on_target, sync)
        took: list[float] = []
        cpu = time.process_time()
        while len(took) < CYCLES:
            await until(partial(is_new, report, report.looked_at), deadline_s=60, what="a look")
            took.append(report.took_s)
        cpu = (time.process_time() - cpu) / CYCLES
        after = await state_of(on_target, sync)

    cycles = ", ".join(f"{seconds:.2f} s" for seconds in took)
    print(f"a cycle over {MANY} unchanged topics: {cycles}; {cpu:.2f} s of a core each")
    assert after == before
    assert min(took) < CYCLE_S  # the machine may be busy with others


def is_new(report: LinkReport, former: float | None) -> bool:
    """Whether a look has ended after the one at `former`."""
    return report.looked_at != former


async def create_many(hand: Hand, word: str) -> None:
    """A thousand topics with a config of their own, some with an ACL."""
    names = [f"{word}-{number:04}" for number in range(MANY)]
    for start in range(0, MANY, 100):
        topics = [
            NewTopic(name=n, partitions=1, replication_factor=1, configs={"retention.ms": "1000"})
            for n in names[start : start + 100]
        ]
        made = await create_topics(hand.cluster, topics, deadline_s=60)
        assert set(made.values()) == {None}
    await hand.give(
        *(an_acl(f"ALLOW User:alice READ TOPIC LITERAL {name}") for name in names[:100])
    )


async def state_of(hand: Hand, sync: Running) -> tuple[object, ...]:
    """Everything that a needless write would change."""
    metrics = sync.service.status()
    return (
        len(await hand.raw_catalog(sync.fleet)),
        len(await hand.events(sync.fleet)),
        metrics["generation"],
        sync.metric("sync_changes"),
    )
