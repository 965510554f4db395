"""ACLs are added where they are missing, and only our own are taken back."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from mirrorfleet.core.access import AclBinding
from mirrorfleet.core.ids import ClusterId
from mirrorfleet.planning.access import AclEdit, AclStep, Way, acl_edits, shortest_ways
from mirrorfleet.planning.observed import AclsSeen
from mirrorfleet.policy.claims import Claim
from mirrorfleet.policy.crossing import Crossings
from mirrorfleet.policy.flows import AclPolicy
from tests.unit.planning.samples import CLAIM, LINK, WEST, a_flow
from tests.unit.policy.test_crossing import an_acl

THERE = an_acl("ALLOW User:a READ TOPIC LITERAL orders")
HERE = an_acl("ALLOW User:a READ TOPIC LITERAL east.orders")
DENIED = an_acl("DENY User:z READ TOPIC LITERAL orders")
DENIED_HERE = an_acl("DENY User:z READ TOPIC LITERAL east.orders")
NORTH, SOUTH = ClusterId("NORTH-ID"), ClusterId("SOUTH-ID")


def edits(
    seen: AclsSeen,
    *ours: AclBinding,
    policy: AclPolicy = AclPolicy.MIRROR,
    us: Collection[str] = (),
    claims: Collection[Claim] = (CLAIM,),
    ended: Collection[Claim] = (),
) -> list[AclEdit]:
    crossings, none = Crossings(a_flow(), claims, us), Crossings(a_flow(), (), us)
    gone = Crossings(a_flow(), ended, us)
    return list(acl_edits(policy, seen, dict.fromkeys(ours, ()), crossings, none, gone))


def seen(
    source: set[AclBinding],
    target: set[AclBinding],
    passed: dict[AclBinding, Way | None] | None = None,
    shared: set[AclBinding] | None = None,
) -> AclsSeen:
    return AclsSeen(
        source=frozenset(source),
        target=frozenset(target),
        passed=passed or {},
        shared=frozenset(shared or ()),
    )


def test_what_is_missing_is_added_and_denials_come_first() -> None:
    assert edits(seen({THERE, DENIED}, set())) == [
        AclEdit(AclStep.ADD, DENIED_HERE),
        AclEdit(AclStep.ADD, HERE),
    ]


def test_what_is_there_is_no_change_whoever_made_it() -> None:
    assert edits(seen({THERE}, {HERE})) == []
    assert edits(seen({THERE}, {HERE}), HERE) == []


def test_what_is_denied_of_a_copy_that_nobody_follows_stays_while_a_wider_right_is_there() -> None:
    """The copy is still there, and the source still denies it."""
    payroll = Claim(LINK, "all", "payroll", "east.payroll")
    every = an_acl("ALLOW User:* READ TOPIC LITERAL *")
    every_here = an_acl("ALLOW User:* READ TOPIC PREFIXED east.")
    denied = an_acl("DENY User:z READ TOPIC LITERAL payroll")
    here = an_acl("DENY User:z READ TOPIC LITERAL east.payroll")
    both = {every_here, here}

    assert edits(seen({every, denied}, both), *both, ended=[payroll]) == []
    for source, claims in (({every}, (CLAIM,)), ({every, denied}, ())):
        found = edits(seen(source, both), *both, claims=claims, ended=[payroll])
        assert AclEdit(AclStep.REMOVE, here) in found


@pytest.mark.parametrize("policy", [AclPolicy.MIRROR, AclPolicy.ADD])
def test_a_wider_right_brings_along_what_is_denied_of_a_copy_that_nobody_follows(
    policy: AclPolicy,
) -> None:
    """The copy was made before ACLs were followed, or the right came later."""
    payroll = Claim(LINK, "all", "payroll", "east.payroll")
    every = an_acl("ALLOW User:* READ TOPIC LITERAL *")
    denied = an_acl("DENY User:z READ TOPIC LITERAL payroll")

    assert edits(seen({every, denied}, set()), policy=policy, ended=[payroll]) == [
        AclEdit(AclStep.ADD, an_acl("DENY User:z READ TOPIC LITERAL east.payroll")),
        AclEdit(AclStep.ADD, an_acl("ALLOW User:* READ TOPIC PREFIXED east.")),
    ]
    assert edits(seen({denied}, set()), policy=policy, ended=[payroll]) == []


def test_what_is_denied_by_prefix_stays_though_the_rule_of_its_copy_is_gone() -> None:
    payroll = Claim(LINK, "gone", "payroll", "east.payroll")
    every = an_acl("ALLOW User:* READ TOPIC LITERAL *")
    denied = an_acl("DENY User:z READ TOPIC PREFIXED pay")
    here = {
        an_acl("ALLOW User:* READ TOPIC PREFIXED east."),
        an_acl("DENY User:z READ TOPIC PREFIXED east.pay"),
    }

    assert edits(seen({every, denied}, here), *here, ended=[payroll]) == []


def test_what_we_added_goes_when_the_source_has_it_no_more() -> None:
    assert edits(seen(set(), {HERE}), HERE) == [AclEdit(AclStep.REMOVE, HERE)]


def test_what_an_operator_gave_on_the_target_stays() -> None:
    assert edits(seen(set(), {HERE})) == []


def test_add_takes_nothing_back() -> None:
    assert edits(seen(set(), {HERE}), HERE, policy=AclPolicy.ADD) == []


def test_ours_that_somebody_removed_is_forgotten() -> None:
    assert edits(seen(set(), set()), HERE) == [AclEdit(AclStep.FORGET, HERE)]


def test_ours_that_somebody_removed_is_added_again_while_the_source_has_it() -> None:
    assert edits(seen({THERE}, set()), HERE) == [AclEdit(AclStep.ADD, HERE)]


def test_what_a_fleet_put_on_the_source_from_here_does_not_come_back() -> None:
    assert edits(seen({THERE}, set(), passed={THERE: None})) == []


def test_what_a_fleet_put_on_the_source_from_elsewhere_goes_on_with_what_it_passed() -> None:
    assert edits(seen({THERE}, set(), passed={THERE: (NORTH,)})) == [
        AclEdit(AclStep.ADD, HERE, (NORTH,))
    ]


def test_what_two_acls_of_the_source_become_has_passed_the_less_of_both() -> None:
    every = an_acl("ALLOW User:a ALL TOPIC LITERAL orders")
    passed: dict[AclBinding, Way | None] = {THERE: (NORTH,), every: ()}

    assert edits(seen({THERE, every}, set(), passed=passed)) == [AclEdit(AclStep.ADD, HERE)]


def test_what_ours_passed_is_noted_when_it_is_something_else_now() -> None:
    again = seen({THERE}, {HERE}, passed={THERE: (NORTH,)})

    assert edits(again, HERE) == [AclEdit(AclStep.NOTE, HERE, (NORTH,))]


def test_what_is_there_for_another_source_is_noted_for_this_one_too() -> None:
    assert edits(seen({THERE}, {HERE}, shared={HERE})) == [AclEdit(AclStep.NOTE, HERE)]
    assert edits(seen({THERE}, {HERE}, shared={HERE}), HERE) == []


def test_what_another_source_has_still_is_forgotten_and_stays() -> None:
    assert edits(seen(set(), {HERE}, shared={HERE}), HERE) == [AclEdit(AclStep.FORGET, HERE)]


def test_what_the_fleet_may_do_stays_though_it_came_over_before_the_fleet_was_that_user() -> None:
    right = an_acl("ALLOW User:new READ GROUP LITERAL *")
    there = seen({right}, {right})

    assert edits(there, right, us={"User:new"}) == [AclEdit(AclStep.FORGET, right)]
    assert edits(seen(set(), {right}), right) == [AclEdit(AclStep.REMOVE, right)]


def test_of_several_ways_the_shortest_counts_that_did_not_pass_the_target() -> None:
    ways: dict[AclBinding, list[Way]] = {
        THERE: [(NORTH, WEST), (NORTH, SOUTH), (SOUTH,)],
        DENIED: [(WEST,), (NORTH, WEST)],
    }

    assert shortest_ways(ways, WEST) == {THERE: (SOUTH,), DENIED: None}


def test_a_cluster_without_an_authorizer_is_left_alone() -> None:
    assert edits(AclsSeen(trouble="east has no ACL authorizer"), HERE) == []


def test_ignore_does_nothing() -> None:
    assert edits(seen({THERE}, set()), policy=AclPolicy.IGNORE) == []
