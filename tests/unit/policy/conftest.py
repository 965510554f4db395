"""Flows in one line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirrorfleet.core.ids import ClusterAlias, Link
from mirrorfleet.policy.filters import NameFilter
from mirrorfleet.policy.flows import Flow, FlowRule
from mirrorfleet.policy.naming import Naming

MakeFlow = Callable[..., Flow]


@pytest.fixture
def make_flow() -> MakeFlow:
    """`make_flow("east west", ("name", ["topics"], "prefix"), never=["x"], groups=[".*"])`."""

    def make(
        link: str,
        *rules: tuple[str, list[str], str],
        never: tuple[str, ...] = (),
        groups: tuple[str, ...] = (),
    ) -> Flow:
        source, target = map(ClusterAlias, link.split())
        made = tuple(
            FlowRule(name, NameFilter(tuple(topics)), NameFilter(groups), Naming(kind))
            for name, topics, kind in rules
        )
        return Flow(Link(source, target), made, NameFilter(tuple(never)))

    return make
