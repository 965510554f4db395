"""Which topics are copied, and how their targets are made."""

from __future__ import annotations

import pytest

from mirrorfleet.core.ids import ClusterAlias, Link
from mirrorfleet.planning.observed import SourceTopic, SourceView
from mirrorfleet.planning.rules import ReplicationPolicy, RuleTerms, replication_factor
from mirrorfleet.planning.topics import Chosen, Reason, choose, new_topic
from mirrorfleet.policy.claims import Claim
from mirrorfleet.policy.naming import Naming
from tests.unit.planning.samples import (
    CLAIM,
    EAST,
    LINK,
    SOURCE_ID,
    WEST,
    a_flow,
    orders,
)

FOREVER = "9223372036854775807"
KAFKA_4 = {
    "compression.type": "producer",
    "message.timestamp.before.max.ms": FOREVER,
    "message.timestamp.after.max.ms": "3600000",
    "retention.ms": "604800000",
    "max.message.bytes": "1048588",
}
BACK = Link(ClusterAlias("west"), ClusterAlias("east"))


def source_of(*names: str, **more: object) -> SourceView:
    topics = {name: SourceTopic(name=name, topic_id=SOURCE_ID, partitions=1) for name in names}
    return SourceView(cluster=EAST, topics=topics, **more)  # type: ignore[arg-type] # test shorthand


def targets(chosen: Chosen) -> list[str]:
    return [claim.target_topic for claim in chosen.claims]


def test_everything_both_ways_never_goes_back_by_name() -> None:
    names = ("orders", "west.orders", "north.orders", "__consumer_offsets", "__mirrorfleet.e.x")

    chosen = choose(a_flow(), source_of(*names), WEST, [])

    assert targets(chosen) == ["east.north.orders", "east.orders"]
    assert (chosen.held, chosen.skipped) == ((), 3)


def test_a_copy_never_goes_back_by_cluster_id_when_its_alias_means_nothing_here() -> None:
    source = source_of("w.orders", "orders", origins={"w.orders": (WEST,)})

    chosen = choose(a_flow(), source, WEST, [])

    assert targets(chosen) == ["east.orders"]
    assert chosen.skipped == 1


def test_a_copy_whose_name_does_not_say_so_is_held_and_not_passed_over() -> None:
    """Its owner may have deleted the other direction, and wait for this one."""
    source = source_of("orders", "stock", origins={"orders": (WEST,)})

    chosen = choose(a_flow(naming=Naming.IDENTITY), source, WEST, [])

    assert targets(chosen) == ["stock"]
    assert [(each.topic, each.reason) for each in chosen.held] == [("orders", Reason.IDENTITY_LOOP)]
    assert chosen.skipped == 0


def test_a_copy_of_a_third_cluster_goes_on() -> None:
    source = source_of("n.orders", origins={"n.orders": (EAST,)})

    assert targets(choose(a_flow(), source, WEST, [])) == ["east.n.orders"]


def test_the_same_name_both_ways_is_refused_where_both_directions_take_it() -> None:
    there = a_flow("orders.*", naming=Naming.IDENTITY)
    back = a_flow("orders[.]eu", naming=Naming.IDENTITY, link=BACK)

    chosen = choose(there, source_of("orders.eu", "orders.us"), WEST, [], estate=(there, back))

    assert targets(chosen) == ["orders.us"]
    assert [(each.topic, each.reason) for each in chosen.held] == [
        ("orders.eu", Reason.IDENTITY_LOOP)
    ]


def test_a_name_too_long_for_kafka_holds_that_topic_alone() -> None:
    chosen = choose(a_flow(), source_of("x" * 245, "orders"), WEST, [])

    assert targets(chosen) == ["east.orders"]
    assert [(each.topic, each.reason) for each in chosen.held] == [("x" * 245, Reason.NAME)]


def test_the_second_claim_on_a_target_topic_is_refused_with_the_first_named() -> None:
    north = Link(ClusterAlias("north"), ClusterAlias("west"))
    running = [Claim(north, "mine", "orders", "orders")]

    chosen = choose(a_flow(naming=Naming.IDENTITY), source_of("orders"), WEST, running)

    assert chosen.claims == ()
    (held,) = chosen.held
    assert held.reason is Reason.CLAIMED
    assert "rule 'mine' of north->west (orders -> orders) has it already" in held.detail


def test_a_topic_that_the_source_hides_is_held_only_when_a_rule_wants_it() -> None:
    hidden = {"orders": "denied", "other": "denied"}

    chosen = choose(a_flow("orders"), source_of(unreadable=hidden), WEST, [])

    assert [(each.topic, each.reason, each.detail) for each in chosen.held] == [
        ("orders", Reason.UNREADABLE, "denied")
    ]


def test_a_new_topic_sets_what_makes_a_copy_exact_and_leaves_other_defaults() -> None:
    spec = new_topic(CLAIM, orders(3), RuleTerms(), KAFKA_4, 3)

    assert (spec.name, spec.partitions, spec.replication_factor) == ("east.orders", 3, 3)
    assert spec.configs == {
        "compression.type": "producer",
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "message.timestamp.after.max.ms": FOREVER,
    }


def test_a_new_topic_asks_nothing_that_an_old_broker_does_not_know() -> None:
    configs = new_topic(CLAIM, orders(1), RuleTerms(), {"compression.type": "producer"}, 3).configs

    assert sorted(configs) == ["cleanup.policy", "compression.type", "message.timestamp.type"]


@pytest.mark.parametrize(
    ("replication", "asked"),
    [(2, 2), (5, 5), (ReplicationPolicy.SOURCE, 3), (ReplicationPolicy.BROKER_DEFAULT, -1)],
)
def test_the_replication_factor_comes_from_a_number_the_source_or_the_broker(
    replication: int | ReplicationPolicy, asked: int
) -> None:
    assert replication_factor(replication, 3, 4) == asked


def test_the_source_replication_is_bounded_by_the_brokers_of_the_target() -> None:
    assert replication_factor(ReplicationPolicy.SOURCE, 3, 1) == 1


def test_a_claim_that_runs_already_goes_on() -> None:
    running = [Claim(LINK, "all", "orders", "east.orders")]

    assert targets(choose(a_flow(), source_of("orders"), WEST, running)) == ["east.orders"]


@pytest.mark.parametrize(
    ("policy", "kept_ms"), [("delete", 5), ("compact,delete", 5), ("compact", -1)]
)
def test_what_is_only_compacted_is_kept_for_ever(policy: str, kept_ms: int) -> None:
    assert orders(1, cleanup_policy=policy, retention_ms=5).terms.kept_ms == kept_ms
