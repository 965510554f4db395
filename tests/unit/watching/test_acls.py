"""A look at the ACLs: they are read now and then, and the catalogs that explain them each time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from mirrorfleet.core.access import AclBinding
from mirrorfleet.core.ids import ClusterId
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.watching import acls
from mirrorfleet.watching.acls import AclWatch
from tests.fakes.clock import HandClock
from tests.unit.policy.test_crossing import an_acl

READ = an_acl("ALLOW User:a READ GROUP LITERAL app")
NORTH, WEST = ClusterId("NORTH-ID"), ClusterId("WEST-ID")


async def test_an_acl_whose_fleet_forgot_it_since_it_was_read_is_not_the_sources_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def describe(_: Cluster) -> list[AclBinding]:
        return [READ]

    monkeypatch.setattr(acls, "describe_acls", describe)
    clock, cluster = HandClock(), cast("Cluster", SimpleNamespace(cluster_id=WEST))
    watch = AclWatch(cluster, cluster, clock, period_s=5.0)

    first = await watch.look({READ: [(NORTH, WEST)]})
    clock.seconds += 2.0
    cached = await watch.look({})
    clock.seconds += 4.0
    read_again = await watch.look({})

    assert [each.passed for each in (first, cached, read_again)] == [{READ: None}, {READ: None}, {}]
