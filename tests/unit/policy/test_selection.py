"""From a source's topics to what is copied."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from mirrorfleet.core.ids import ClusterAlias, ClusterId
from mirrorfleet.policy.selection import Why, select
from tests.unit.policy.conftest import MakeFlow

CASES = yaml.safe_load(Path("tests/golden/policy_selection.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_what_a_flow_copies(case: dict, make_flow: MakeFlow) -> None:  # type: ignore[type-arg]  # plain YAML
    flows = [
        make_flow(entry["link"], *map(tuple, entry["rules"]), never=tuple(entry.get("never", ())))
        for entry in case["links"]
    ]
    ids = {ClusterAlias(a): ClusterId(i) for a, i in case.get("ids", {}).items()}
    selection = select(flows[0], case["topics"], estate=flows, ids=ids)
    copied = {claim.source_topic: claim.target_topic for claim in selection.claims}
    assert copied == case["copied"]
    assert {one.topic: one.why for one in selection.refusals} == case["refused"]


def test_a_name_too_long_for_the_target_is_refused_alone(make_flow: MakeFlow) -> None:
    flow = make_flow("east west", ("all", [".*"], "prefix"))
    longest, too_long = "a" * 244, "b" * 245
    selection = select(flow, [longest, too_long])
    assert [claim.target_topic for claim in selection.claims] == ["east." + longest]
    assert [(one.topic, one.why) for one in selection.refusals] == [(too_long, Why.NAME)]
    assert "250 bytes are more than the 249" in selection.refusals[0].detail


def test_only_the_ordinary_refusals_are_expected() -> None:
    assert [why for why in Why if why.expected] == [Why.INTERNAL, Why.CYCLE]


def test_the_first_rule_takes_heartbeats_that_none_names(make_flow: MakeFlow) -> None:
    first, second = ("first", ["orders"], "prefix"), ("second", ["sales", "a.heartbeats"], "prefix")
    flow = make_flow("east west", first, second)
    selection = select(flow, ["heartbeats", "a.heartbeats"])
    assert [(claim.rule, claim.source_topic) for claim in selection.claims] == [
        ("first", "heartbeats"),
        ("second", "a.heartbeats"),
    ]
    assert flow.wants("heartbeats")
    assert not flow.wants("carts")
