"""A look at the ACLs: they are read now and then, and the catalogs that explain them each time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from mirrorfleet.core.access import AclBinding
from mirrorfleet.core.ids import ClusterId
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.planning.observed import AclsSeen
from mirrorfleet.watching import acls
from mirrorfleet.watching.acls import AclWatch, Ways
from tests.fakes.clock import HandClock
from tests.unit.policy.test_crossing import an_acl

READ = an_acl("ALLOW User:a READ GROUP LITERAL app")
EAST, NORTH, WEST = ClusterId("EAST-ID"), ClusterId("NORTH-ID"), ClusterId("WEST-ID")


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


async def seen(watch: AclWatch, ways: Ways) -> AclsSeen:
    await watch.look_at_source(ways)
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
