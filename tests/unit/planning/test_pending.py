"""A plan in words, and the parts of it that may be made."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from mirrorfleet.planning.access import AclEdit, AclStep
from mirrorfleet.planning.configs import ConfigEdit
from mirrorfleet.planning.pending import (
    Kind,
    PlannedChange,
    automatic,
    left_out,
    planned_changes,
    within,
)
from mirrorfleet.planning.plan import Alteration, Creation, Growth, Plan
from mirrorfleet.planning.rules import Apply, RuleTerms
from mirrorfleet.policy.claims import Claim
from mirrorfleet.records.catalog import CatalogPartition, CatalogState
from mirrorfleet.records.topics import TopicSpec
from tests.unit.planning.samples import CLAIM, LINK, OTHER_ID, UNCLAIMED, copied, orders, planned
from tests.unit.policy.test_crossing import an_acl

STOCK = Claim(LINK, "slow", "stock", "east.stock")
READ = an_acl("ALLOW User:a READ TOPIC LITERAL east.orders")
ALL = Plan(
    create=(Creation(CLAIM, TopicSpec("east.orders", 3, 2, {"retention.ms": "5"})),),
    grow=(Growth(STOCK, 4, 1),),
    alter=(Alteration(STOCK, (ConfigEdit("a.b", "1", "2"), ConfigEdit("c.d", "3", None))),),
    acls=(AclEdit(AclStep.ADD, READ), AclEdit(AclStep.REMOVE, READ._replace(name="east.x"))),
)
NAME = "east->west"
WHOLE = "from {}: partition{}, start earliest"


def test_each_change_has_a_line_with_its_values() -> None:
    read = "ALLOW User:a READ on TOPIC LITERAL {} from 10.0.0.1"
    assert planned_changes(LINK, ALL) == [
        PlannedChange(NAME, Kind.ACL_ADD, read.format("east.orders")),
        PlannedChange(NAME, Kind.ACL_REMOVE, read.format("east.x")),
        PlannedChange(
            NAME, Kind.CREATE, "east.orders", "3 partitions, replication factor 2, retention.ms=5"
        ),
        PlannedChange(NAME, Kind.COPY, "east.orders", WHOLE.format("orders", "s 0 to 2")),
        PlannedChange(NAME, Kind.GROW, "east.stock", "1 -> 4 partitions"),
        PlannedChange(NAME, Kind.COPY, "east.stock", WHOLE.format("stock", "s 1 to 3")),
        PlannedChange(NAME, Kind.CONFIG, "east.stock", "a.b: 1 -> 2"),
        PlannedChange(NAME, Kind.CONFIG, "east.stock", "c.d: 3 -> default"),
    ]


def test_entries_of_a_topic_are_one_line() -> None:
    plan = planned(orders(3), copied(3))
    stopped = planned(orders(3), copied(3), entries=plan.publish, scene=UNCLAIMED)

    assert planned_changes(LINK, plan) == [
        PlannedChange(NAME, Kind.COPY, "east.orders", WHOLE.format("orders", "s 0 to 2"))
    ]
    assert planned_changes(LINK, stopped) == [
        PlannedChange(NAME, Kind.STOP, "east.orders", "no rule takes orders as it is now")
    ]


def test_new_terms_of_what_is_copied_already_are_told_apart_from_a_new_copy() -> None:
    entries = planned(orders(1), copied(1)).publish

    plan = planned(orders(2, retention_ms=5), copied(2), entries=entries)

    assert planned_changes(LINK, replace(plan, alter=())) == [
        PlannedChange(NAME, Kind.TERMS, "east.orders", "from orders: partition 0"),
        PlannedChange(NAME, Kind.COPY, "east.orders", WHOLE.format("orders", " 1")),
    ]
    assert planned_changes(LINK, left_out(plan, Plan())) == planned_changes(LINK, plan)


def test_what_was_agreed_to_is_all_that_is_made() -> None:
    agreed = planned_changes(LINK, ALL)

    assert within(LINK, ALL, agreed) == ALL
    assert within(LINK, ALL, []).pending == 0
    assert within(LINK, ALL, agreed[-1:]) == Plan(
        alter=(Alteration(STOCK, (ConfigEdit("c.d", "3", None),)),)
    )


def test_a_change_that_became_another_one_was_not_agreed_to() -> None:
    agreed = planned_changes(LINK, ALL)
    later = Plan(grow=(Growth(STOCK, 9, 1),))

    assert within(LINK, later, agreed).pending == 0


def test_copying_starts_where_its_topic_was_agreed_to() -> None:
    entries = planned(orders(3), copied(3)).publish

    assert within(LINK, Plan(publish=entries), planned_changes(LINK, ALL)).publish == entries


def test_a_manual_rule_waits_and_the_others_go_on() -> None:
    terms = {"all": RuleTerms(), "slow": RuleTerms(apply=Apply.MANUAL)}

    free = automatic(ALL, terms, Apply.AUTO)

    assert free == Plan(create=ALL.create)
    assert left_out(ALL, free) == replace(ALL, create=())


@pytest.mark.parametrize("lives", [Apply.AUTO, Apply.MANUAL])
def test_no_incarnation_ends_or_begins_without_the_other_one(lives: Apply) -> None:
    """Also when a topic that was made again is another rule's now."""
    ends = Apply.MANUAL if lives is Apply.AUTO else Apply.AUTO
    (first,) = planned(orders(1), copied(1)).publish
    plan = planned(
        orders(1, topic_id=OTHER_ID),
        copied(1),
        entries=[replace(first, rule="slow")],
        terms=RuleTerms(on_source_loss="record-gap"),
    )

    free = automatic(plan, {"all": RuleTerms(apply=lives), "slow": RuleTerms(apply=ends)}, lives)

    assert [each.rule for each in plan.publish] == ["slow", "all"]
    assert free.publish == (plan.publish if lives is Apply.AUTO else ())


def test_what_ends_for_good_is_decided_on_by_its_own_rule() -> None:
    entries = [replace(each, rule="slow") for each in planned(orders(1), copied(1)).publish]
    plan = planned(orders(1), copied(1), entries=entries, scene=UNCLAIMED)

    made = automatic(plan, {"slow": RuleTerms(apply=Apply.MANUAL)}, Apply.AUTO).publish

    assert (len(plan.publish), made) == (1, ())


def test_nothing_waits_when_all_is_automatic() -> None:
    terms = {"all": RuleTerms(), "slow": RuleTerms()}

    assert left_out(ALL, automatic(ALL, terms, Apply.AUTO)).pending == 0
    assert automatic(ALL, {}, Apply.MANUAL).pending == 0


def test_what_waits_is_found_without_comparing_each_with_each() -> None:
    class Entry:
        """One of many; comparing two is what must not be done."""

        rule = source_topic = target_topic = "all"
        state, identity = CatalogState.ACTIVE, SimpleNamespace(partition=0)

        def __eq__(self, other: object) -> bool:
            raise AssertionError

        def __hash__(self) -> int:
            return 0

    entries = tuple(Entry() for _ in range(3))
    plan = Plan(publish=cast("tuple[CatalogPartition, ...]", entries))
    free = automatic(plan, {"all": RuleTerms()}, Apply.AUTO)

    waits = left_out(plan, free).publish, left_out(plan, Plan()).publish

    assert [len(each) for each in waits] == [0, 3]
