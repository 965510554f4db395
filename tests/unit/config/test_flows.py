"""From the estate to what policy decides on."""

from __future__ import annotations

from mirrorfleet.config.flows import all_flows
from mirrorfleet.policy.naming import Naming
from tests.unit.config.making import RIGHT, parse


def test_never_lists_of_estate_and_link_are_one() -> None:
    text = RIGHT.replace("estate: demo", 'estate: demo\nnever: ["secret.*"]').replace(
        "    rules:", "    never: [orders-private]\n    rules:"
    )
    (flow,) = all_flows(parse(text))
    assert flow.never.matches("secret-1")
    assert flow.never.matches("orders-private")
    assert not flow.never.matches("orders")


def test_a_rule_keeps_its_filters_and_naming() -> None:
    text = RIGHT.replace("groups:", "exclude: [orders-x]\n        groups:")
    (flow,) = all_flows(parse(text))
    (rule,) = flow.rules
    assert (rule.name, rule.naming) == ("orders", Naming.PREFIX)
    assert rule.topics.matches("orders-y")
    assert not rule.topics.matches("orders-x")
    assert rule.groups.matches("any")
