"""Which ACLs hold for copies, and under which names."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from mirrorfleet.core.access import (
    AclBinding,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
)
from mirrorfleet.core.ids import ClusterAlias, Link
from mirrorfleet.policy.claims import Claim
from mirrorfleet.policy.crossing import Crossings
from mirrorfleet.policy.filters import NameFilter
from mirrorfleet.policy.flows import Flow, FlowRule
from mirrorfleet.policy.naming import Naming

CASES = yaml.safe_load(Path("tests/golden/policy_crossing.yaml").read_text(encoding="utf-8"))
LINK = Link(ClusterAlias("east"), ClusterAlias("west"))
NONE = NameFilter(())
COPIES = (
    Claim(LINK, "pre", "orders", "east.orders"),
    Claim(LINK, "pre", "orders-eu", "east.orders-eu"),
    Claim(LINK, "same", "same-a", "same-a"),
    Claim(LINK, "same", "same-b", "same-b"),
)


def a_flow(*groups: str) -> Flow:
    rules = (
        FlowRule("pre", NameFilter(("orders.*",)), NameFilter(groups), Naming.PREFIX),
        FlowRule("same", NameFilter(("same.*",)), NONE, Naming.IDENTITY),
    )
    return Flow(LINK, rules, NONE)


def an_acl(text: str) -> AclBinding:
    permission, principal, operation, resource, pattern, name = text.split()
    return AclBinding(
        AclResource[resource],
        name,
        AclPattern[pattern],
        principal,
        "10.0.0.1",
        AclOperation[operation],
        AclPermission[permission],
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_what_an_acl_becomes(case: dict) -> None:  # type: ignore[type-arg]  # plain YAML
    crossings = Crossings(a_flow("app-.*"), COPIES, {"User:fleet"})

    assert crossings.of([an_acl(case["acl"])]) == {an_acl(text) for text in case["becomes"]}


@pytest.mark.parametrize(
    ("followed", "denial", "becomes"),
    [
        ("(app|web)-.*", "PREFIXED app-1", ["PREFIXED app-1"]),
        ("(app|web)-.*", "LITERAL *", ["LITERAL *"]),
        ("app-1", "PREFIXED app", ["LITERAL app-1"]),
        ("app-1", "PREFIXED web", []),
        ("team.app", "PREFIXED team-", ["PREFIXED team-"]),
        ("team.app", "PREFIXED teamwork", []),
    ],
)
def test_a_wide_denial_limits_what_crosses(followed: str, denial: str, becomes: list[str]) -> None:
    """Rights to single groups cross, and the source denies them of many at once."""
    wide = an_acl(f"DENY User:a READ GROUP {denial}")

    assert Crossings(a_flow(followed), COPIES, ()).of([wide]) == {
        an_acl(f"DENY User:a READ GROUP {text}") for text in becomes
    }


def test_a_topic_that_was_copied_under_two_names_is_denied_under_both() -> None:
    twice = (Claim(LINK, "gone", "pay", "east.pay"), Claim(LINK, "same", "pay", "pay"))
    denied = an_acl("DENY User:a READ TOPIC LITERAL pay")

    assert {one.name for one in Crossings(a_flow(), twice, ()).of([denied])} == {"east.pay", "pay"}


def test_any_group_crosses_when_all_are_followed() -> None:
    any_group = an_acl("ALLOW User:a READ GROUP LITERAL *")

    assert Crossings(a_flow(".*"), COPIES, ()).of([any_group]) == {any_group}


@pytest.mark.parametrize(
    ("group", "crosses"),
    [
        pytest.param("LITERAL *", False, id="any group is ours, too"),
        pytest.param("PREFIXED mirror", False, id="a prefix of ours"),
        pytest.param("PREFIXED mirrorfleet.west.", False, id="more than a prefix of ours"),
        pytest.param("LITERAL mirrorfleet.west.mirror", False, id="one of ours"),
        pytest.param("PREFIXED app-", True, id="no prefix of ours"),
        pytest.param("LITERAL mirror", True, id="not ours"),
    ],
)
def test_what_is_denied_to_everybody_never_hits_the_groups_of_the_fleet(
    group: str, *, crosses: bool
) -> None:
    denial = an_acl(f"DENY User:* READ GROUP {group}")
    others = {an_acl(f"DENY {text} GROUP {group}") for text in ("User:a READ", "User:* DELETE")}

    found = Crossings(a_flow(".*"), COPIES, ()).of([denial, *others])
    assert found == ({denial, *others} if crosses else others)


@pytest.mark.parametrize(
    ("include", "exclude"), [((".*",), ("app-secret",)), (("a|b.*",), ()), (("a[pq].*",), ())]
)
def test_a_prefix_of_groups_is_left_when_not_all_of_it_is_surely_followed(
    include: tuple[str, ...], exclude: tuple[str, ...]
) -> None:
    rule = FlowRule("g", NONE, NameFilter(include, exclude), Naming.PREFIX)
    some = an_acl("ALLOW User:a READ GROUP PREFIXED a|bx")

    assert Crossings(Flow(LINK, (rule,), NONE), (), ()).of([some]) == set()


@pytest.mark.parametrize("operation", AclOperation)
@pytest.mark.parametrize("permission", [AclPermission.ALLOW, AclPermission.DENY])
@pytest.mark.parametrize("resource", [AclResource.TOPIC, AclResource.GROUP])
def test_nothing_that_crosses_is_about_writing(
    operation: AclOperation, permission: AclPermission, resource: AclResource
) -> None:
    one = an_acl("ALLOW User:a READ TOPIC LITERAL *")
    one = one._replace(operation=operation, permission=permission, resource=resource)

    crossed = Crossings(a_flow(".*"), COPIES, ()).of([one])

    assert {each.operation for each in crossed}.isdisjoint({AclOperation.WRITE, AclOperation.ALL})
