"""A copy never goes back to where it came from."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from mirrorfleet.core.ids import ClusterAlias, ClusterId
from mirrorfleet.policy.cycles import (
    Leg,
    heartbeats_at,
    is_cycle_by_name,
    is_cycle_by_origin,
    loop_of,
    origins_by_name,
    passed,
)
from tests.unit.policy.conftest import MakeFlow

CASES = yaml.safe_load(Path("tests/golden/policy_cycles.yaml").read_text(encoding="utf-8"))
IDS = {ClusterAlias("east"): ClusterId("E"), ClusterAlias("west"): ClusterId("W")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["topic"])
def test_cycles_by_name_are_those_of_mirrormaker(case: dict[str, object]) -> None:
    assert is_cycle_by_name(str(case["topic"]), "target") == case["cycle"]


def test_origins_are_the_source_and_each_known_alias_in_front() -> None:
    east = ClusterId("E")
    assert origins_by_name("orders", east, IDS) == ("E",)
    assert origins_by_name("west.orders", east, IDS) == ("E", "W")
    assert origins_by_name("west.east.orders", east, IDS) == ("E", "W", "E")


def test_a_dot_in_a_users_name_ends_the_chain_of_origins() -> None:
    assert origins_by_name("my.west.orders", ClusterId("E"), IDS) == ("E",)


def test_a_cluster_among_the_origins_makes_a_cycle() -> None:
    assert is_cycle_by_origin((ClusterId("E"), ClusterId("W")), ClusterId("W"))
    assert not is_cycle_by_origin((ClusterId("E"),), ClusterId("W"))


def test_only_hops_that_a_prefix_rule_can_have_made_were_passed(make_flow: MakeFlow) -> None:
    flows = [make_flow("east west", ("r", ["orders.*"], "prefix"))]
    assert passed(flows, "east.orders") == ("east",)
    assert passed(flows, "east.sales") == ()
    assert passed(flows, "west.orders") == ()


def test_the_way_home_is_told_leg_by_leg(make_flow: MakeFlow) -> None:
    out = make_flow("a b", ("out", ["t"], "identity"))
    on = make_flow("b c", ("on", [".*"], "identity"))
    home = make_flow("c a", ("home", [".*"], "identity"))
    way = loop_of([out, on, home], out, out.rules[0], "t")
    assert way == (Leg(out.link, "out"), Leg(on.link, "on"), Leg(home.link, "home"))
    assert str(way[0]) == "a->b (out)"
    assert loop_of([out, on], out, out.rules[0], "t") == ()


def test_a_never_list_breaks_the_way_home(make_flow: MakeFlow) -> None:
    out = make_flow("a b", ("out", ["t"], "identity"))
    home = make_flow("b a", ("home", [".*"], "identity"), never=("t",))
    assert loop_of([out, home], out, out.rules[0], "t") == ()


def test_heartbeats_come_over_every_way_that_does_not_go_back(make_flow: MakeFlow) -> None:
    flows = [make_flow(link, ("r", ["t"], "identity")) for link in ("a b", "b a", "b c", "c d")]
    assert heartbeats_at(flows, ClusterAlias("a")) == ("b.heartbeats", "heartbeats")
    assert heartbeats_at(flows, ClusterAlias("c")) == (
        "b.a.heartbeats",
        "b.heartbeats",
        "heartbeats",
    )
