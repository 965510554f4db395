"""A look at the ACLs: they are read now and then, and the catalogs that explain them each time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from mirrorfleet.core.access import AclBinding
from mirrorfleet.core.ids import ClusterId
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.planning.observed import AclsSeen, SourceView
from mirrorfleet.watching import acls
from mirrorfleet.watching.acls import AclWatch
from tests.fakes.clock import HandClock
from tests.unit.policy.test_crossing import an_acl

READ = an_acl("ALLOW User:a READ GROUP LITERAL app")
EAST, NORTH, WEST = ClusterId("EAST-ID"), ClusterId("NORTH-ID"), ClusterId("WEST-ID")

Ways = dict[AclBinding, list[tuple[ClusterId, ...]]]


class Acls:
    """What the clusters have, and which were asked, with what deadline."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []

    async def describe(self, cluster: Cluster, *, deadline_s: float | None) -> list[AclBinding]:
        self.asked.append((cluster.cluster_id, deadline_s is not None))
        return [READ]


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Acls:
    made = Acls()
    monkeypatch.setattr(acls, "describe_acls", made.describe)
    return made


def a_watch(clock: HandClock) -> AclWatch:
    east, west = (cast("Cluster", SimpleNamespace(cluster_id=each)) for each in (EAST, WEST))
    return AclWatch(east, west, clock, period_s=5.0)


async def seen(watch: AclWatch, ways: Ways, **wanted: int) -> AclsSeen:
    """`wanted` are topics of the source that some rule takes, each with its id."""
    ids = {name: UUID(int=number) for name, number in wanted.items()}
    await watch.look_at_source(SourceView(cluster=EAST, topics={}, acl_ways=ways, wanted=ids))
    return await watch.look(ways)


async def test_an_acl_whose_fleet_forgot_it_since_it_was_read_is_not_the_sources_own(
    there: Acls,
) -> None:
    clock = HandClock()
    watch = a_watch(clock)

    first = await seen(watch, {READ: [(NORTH, WEST)]})
    clock.seconds += 2.0
    cached = await seen(watch, {})
    clock.seconds += 4.0
    read_again = await seen(watch, {})

    assert [each.passed for each in (first, cached, read_again)] == [{READ: None}, {READ: None}, {}]


async def test_the_target_is_read_after_the_source_and_after_our_changes_and_never_waited_for_long(
    there: Acls,
) -> None:
    clock = HandClock()
    watch = a_watch(clock)
    source, target = (EAST, False), (WEST, True)

    unread = await watch.look({})
    await seen(watch, {})
    await seen(watch, {})
    once = list(there.asked)
    watch.forget()
    found = await watch.look({})
    clock.seconds += 6.0
    await seen(watch, {})

    assert unread.trouble == "not looked at yet"
    assert once == [source, target]
    assert found.source == found.target == {READ}
    assert there.asked == [source, target, target, source, target]


async def test_a_topic_that_is_new_at_the_source_has_both_read_once(there: Acls) -> None:
    watch = a_watch(HandClock())
    reads: list[int] = []
    for topics in ({}, {"a": 1}, {"a": 1}, {}, {"a": 1}, {"a": 2}):
        await seen(watch, {}, **topics)
        reads.append(len(there.asked))

    assert reads == [2, 4, 4, 4, 4, 6]
