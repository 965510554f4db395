"""One target topic has one writer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.ids import ClusterAlias, Link
from mirrorfleet.policy.claims import Claim, provable_clashes, settle
from mirrorfleet.policy.filters import NameFilter
from tests.unit.policy.conftest import MakeFlow

EAST = Link(ClusterAlias("east"), ClusterAlias("west"))
NORTH = Link(ClusterAlias("north"), ClusterAlias("west"))


def test_claims_on_different_topics_are_all_accepted() -> None:
    claims = [Claim(EAST, "a", "t", "east.t"), Claim(NORTH, "b", "t", "north.t")]
    assert settle((), claims).accepted == tuple(claims)


def test_the_second_claim_on_a_target_topic_is_refused_with_both_named() -> None:
    first, second = Claim(EAST, "a", "t", "t"), Claim(NORTH, "b", "t", "t")
    settled = settle((), [first, second])
    assert settled.accepted == (first,)
    (clash,) = settled.clashes
    assert str(clash) == (
        "rule 'b' of north->west (t -> t) is refused:"
        " rule 'a' of east->west (t -> t) has it already"
    )


def test_what_runs_already_wins_over_file_order() -> None:
    running, newcomer = Claim(NORTH, "b", "t", "t"), Claim(EAST, "a", "t", "t")
    settled = settle([running], [newcomer, running])
    assert settled.accepted == (running,)
    assert settled.clashes[0].refused == newcomer


def test_of_two_rules_on_one_topic_the_one_that_runs_keeps_it() -> None:
    one, other = Claim(EAST, "a", "t", "east.t"), Claim(EAST, "b", "t", "east.t")
    assert settle([other], [one, other]).accepted == (other,)
    assert settle((), [one, other]).accepted == (one,)


def test_two_rules_may_not_copy_a_topic_under_two_names() -> None:
    one, other = Claim(EAST, "a", "t", "east.t"), Claim(EAST, "b", "t", "t")
    settled = settle((), [one, other])
    assert settled.accepted == (one,)
    assert settled.clashes[0].refused == other


def test_a_renamed_rule_goes_on_with_its_topics() -> None:
    before, after = Claim(EAST, "old", "t", "east.t"), Claim(EAST, "new", "t", "east.t")
    settled = settle([before], [after])
    assert settled.accepted == (after,)
    assert settled.clashes == ()


def test_a_renamed_rule_keeps_its_topics_from_one_that_stands_before_it() -> None:
    before, after = Claim(EAST, "old", "t", "t"), Claim(EAST, "new", "t", "t")
    earlier = Claim(EAST, "a", "t", "east.t")
    assert settle([before], [earlier, after]).accepted == (after,)
    assert settle([before], [after, before]).accepted == (before,)


def test_overlapping_rules_of_a_link_are_proven(make_flow: MakeFlow) -> None:
    rules = ("list", ["orders"], "prefix"), ("pattern", ["ord.*"], "prefix")
    (proof,) = provable_clashes([make_flow("east west", *rules)])
    assert str(proof) == (
        "'orders': east->west (list), east->west (pattern):"
        " both rules take it, so it would be copied twice"
    )


def test_rules_whose_patterns_meet_only_perhaps_are_left_to_run_time(make_flow: MakeFlow) -> None:
    rules = ("one", ["a.*"], "prefix"), ("other", [".*b"], "prefix")
    assert provable_clashes([make_flow("east west", *rules)]) == []


def test_everything_overlaps_with_any_pattern(make_flow: MakeFlow) -> None:
    for rules in (
        (("one", [".*"], "prefix"), ("other", ["b.*"], "prefix")),
        (("one", ["b.*"], "prefix"), ("other", [".*"], "prefix")),
        (("one", ["b.*"], "prefix"), ("other", ["b.*"], "prefix")),
    ):
        proofs = provable_clashes([make_flow("east west", *rules)])
        assert [proof.topic for proof in proofs] == ["b.*"]


def test_two_sources_may_not_share_a_target_topic(make_flow: MakeFlow) -> None:
    flows = [
        make_flow("east west", ("e", ["t"], "identity")),
        make_flow("north west", ("n", ["t"], "identity")),
    ]
    assert [proof.why for proof in provable_clashes(flows)] == [
        "both would write the same target topic"
    ]


def test_prefix_naming_keeps_two_sources_apart(make_flow: MakeFlow) -> None:
    flows = [
        make_flow("east west", ("e", [".*"], "prefix")),
        make_flow("north west", ("n", [".*"], "prefix")),
    ]
    assert provable_clashes(flows) == []


def test_the_same_name_both_ways_is_proven_once(make_flow: MakeFlow) -> None:
    flows = [
        make_flow("east west", ("out", ["t"], "identity")),
        make_flow("west east", ("back", [".*"], "identity")),
    ]
    assert [str(proof) for proof in provable_clashes(flows)] == [
        "'t': east->west (out), west->east (back): the same name both ways is not supported yet"
    ]


def test_prefix_naming_both_ways_with_everything_is_fine(make_flow: MakeFlow) -> None:
    flows = [
        make_flow("east west", ("out", [".*"], "prefix")),
        make_flow("west east", ("back", [".*"], "prefix")),
    ]
    assert provable_clashes(flows) == []


def test_a_ring_of_three_is_proven_once(make_flow: MakeFlow) -> None:
    flows = [
        make_flow("a b", ("x", ["t"], "identity")),
        make_flow("b c", ("y", ["t"], "identity")),
        make_flow("c a", ("z", ["t"], "identity")),
    ]
    assert [str(proof) for proof in provable_clashes(flows)] == [
        "'t': a->b (x), b->c (y), c->a (z): it would come back to where it came from"
    ]


@pytest.mark.parametrize(
    ("third", "naming", "proven"),
    [
        ("orders.*", "identity", True),
        (".*", "identity", True),
        ("bills.*", "identity", False),
        ("orders[.].*", "identity", False),  # what only some names show is found with the topics
        ("orders.*", "prefix", False),
    ],
)
def test_a_ring_is_proven_by_a_pattern_that_stands_in_each_leg(
    make_flow: MakeFlow, third: str, naming: str, *, proven: bool
) -> None:
    """At run time each leg would refuse it, and what copies already would end."""
    flows = [
        make_flow("a b", ("x", ["orders.*"], "identity")),
        make_flow("b c", ("y", ["orders.*"], "identity")),
        make_flow("c a", ("z", [third], naming)),
    ]
    assert [proof.topic for proof in provable_clashes(flows)] == ["orders.*"] * proven


def test_no_ring_is_proven_by_a_pattern_where_something_may_keep_the_legs_apart(
    make_flow: MakeFlow,
) -> None:
    """Both regions with names of their own, under the same rule."""
    flows = [
        make_flow("a b", ("out", ["orders-.*"], "identity")),
        make_flow("b c", ("on", ["orders-.*"], "identity")),
        make_flow("c a", ("back", ["orders-.*"], "identity")),
    ]
    (rule,) = flows[2].rules
    apart = replace(rule, topics=NameFilter(rule.topics.include, ("orders-a-.*",)))
    never = replace(flows[2], never=NameFilter(("orders-.+",)))

    assert provable_clashes([*flows[:2], replace(flows[2], rules=(apart,))]) == []
    assert provable_clashes([*flows[:2], never]) == []
    assert [proof.topic for proof in provable_clashes(flows)] == ["orders-.*"]


def test_no_ring_is_proven_by_a_pattern_that_looks_like_a_name(make_flow: MakeFlow) -> None:
    flows = [
        make_flow("a b", ("x", ["(orders|bills)[.]a"], "identity")),
        make_flow("b c", ("y", [".*"], "identity")),
        make_flow("c a", ("z", [".*"], "identity")),
    ]
    assert [proof.topic for proof in provable_clashes(flows)] == []


def test_rules_that_an_exclude_keeps_apart_do_not_clash(make_flow: MakeFlow) -> None:
    flow = make_flow("east west", ("rest", [".*"], "prefix"), ("orders", ["orders.*"], "prefix"))
    rest, orders = flow.rules
    apart = replace(rest, topics=NameFilter((".*",), ("orders.*",)))
    assert provable_clashes([replace(flow, rules=(apart, orders))]) == []


@pytest.mark.parametrize(
    ("never", "proven"),
    [
        ("orders.*", []),
        ("ord.*", []),
        ("(orders|bills).*", []),
        ("bills.*", ["orders.*"]),
        (".*[.]internal", ["orders.*"]),
    ],
)
def test_rules_that_a_never_keeps_apart_do_not_clash_and_another_never_changes_nothing(
    make_flow: MakeFlow, never: str, proven: list[str]
) -> None:
    flows = [
        make_flow("east west", ("rest", [".*"], "identity"), never=[never]),
        make_flow("north west", ("orders", ["orders.*"], "identity")),
    ]

    for each in (flows, flows[::-1]):
        assert [proof.topic for proof in provable_clashes(each)] == proven


def test_of_what_never_leaves_the_rest_is_proof(make_flow: MakeFlow) -> None:
    flows = [
        make_flow("east west", ("rest", [".*"], "identity"), never=["orders-.+"]),
        make_flow("north west", ("some", ["orders-.+", "bills.*"], "identity")),
    ]

    assert [proof.topic for proof in provable_clashes(flows)] == ["bills.*"]
