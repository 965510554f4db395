"""Copies that ended and are wanted again, topics that are given up, requests that came too late."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from mirrorfleet.planning.pending import Kind, planned_changes, within
from mirrorfleet.planning.plan import Plan
from mirrorfleet.planning.rules import RuleTerms
from mirrorfleet.planning.topics import Held, Reason
from mirrorfleet.policy.naming import Naming
from mirrorfleet.records.catalog import CatalogPartition, CatalogState
from tests.unit.planning.anew import asked_anew, first_of_two
from tests.unit.planning.samples import (
    LINK,
    OTHER_ID,
    PLAIN,
    SOURCE_ID,
    TARGET_ID,
    UNCLAIMED,
    Scene,
    a_flow,
    copied,
    orders,
    planned,
)
from tests.unit.planning.test_plan import held_reasons, published

NEW_SOURCE, NEW_TARGET = UUID(int=11), UUID(int=12)
OTHERS = Scene(flow=a_flow("others"))
"""No rule is about `orders`."""


def ended(*entries: CatalogPartition) -> tuple[CatalogPartition, ...]:
    return tuple(replace(each, state=CatalogState.REMOVED) for each in entries)


# -- what has ended, wanted again


def test_a_copy_that_ended_and_was_deleted_is_created_again_and_copied_whole() -> None:
    old = ended(*published(2))

    created = planned(orders(2), None, entries=old)
    result = planned(orders(2), copied(2, topic_id=NEW_TARGET), entries=old)

    assert ([each.spec.name for each in created.create], created.held) == (["east.orders"], ())
    assert [
        (each.identity.target_topic_id, each.identity.incarnation, each.slot, each.start, each.loss)
        for each in result.publish
    ] == [(NEW_TARGET, 1, 0, "earliest", None), (NEW_TARGET, 1, 1, "earliest", None)]


def test_a_copy_that_ended_begins_where_its_rule_says_when_the_rule_began_with_the_topic() -> None:
    old = ended(*published(1))
    terms = RuleTerms(start="latest")

    result = planned(orders(1), copied(1, topic_id=NEW_TARGET), entries=old, terms=terms)

    assert [each.start for each in result.publish] == ["latest"]


def test_a_copy_that_ended_and_begins_again_is_in_step_from_then_on() -> None:
    old = ended(*published(2))
    new = planned(orders(2), copied(2, topic_id=NEW_TARGET), entries=old).publish

    again = planned(orders(2), copied(2, topic_id=NEW_TARGET, empty=False), entries=(*old, *new))

    assert (again.pending, again.held) == (0, ())


def test_a_copy_of_which_only_some_partitions_began_again_is_completed() -> None:
    old = ended(*published(2))
    (first, _) = planned(orders(2), copied(2, topic_id=NEW_TARGET), entries=old).publish

    result = planned(orders(2), copied(2, topic_id=NEW_TARGET), entries=(*old, first))

    assert [(each.identity.partition, each.start) for each in result.publish] == [(1, "earliest")]


@pytest.mark.parametrize("topic_id", [NEW_TARGET, TARGET_ID], ids=["target", "source"])
def test_a_copy_that_ended_does_not_begin_again_among_other_records(topic_id: UUID) -> None:
    old = ended(*published(1))
    source = orders(1, topic_id=NEW_SOURCE if topic_id == TARGET_ID else SOURCE_ID)
    there = copied(1, topic_id=topic_id, empty=False)

    refused = planned(source, there, entries=old)
    adopted = planned(source, there, entries=old, terms=RuleTerms(adopt=True))

    assert held_reasons(*refused.held) == [("orders", Reason.NOT_EMPTY)]
    assert [(each.identity.incarnation, each.state) for each in adopted.publish] == [(1, "active")]


def test_a_copy_that_ended_waits_until_its_new_target_says_whether_it_is_empty() -> None:
    result = planned(orders(), copied(topic_id=NEW_TARGET, empty=None), entries=ended(*published()))

    assert result.pending == 0
    assert [each.reason for each in result.held] == [Reason.TARGET_UNREAD]


# -- what has ended, and seems to be there again


RECREATED = RuleTerms(on_source_loss="record-gap")


def shown_as_before(scene: Scene = PLAIN) -> Plan:
    """The source topic was made again and is copied so; this look shows the one of before."""
    old = published(2, RECREATED)
    made = planned(orders(2, topic_id=OTHER_ID), copied(2), entries=old, terms=RECREATED)
    return planned(orders(2), copied(2), entries=made.publish, terms=RECREATED, scene=scene)


def test_what_has_ended_for_a_later_incarnation_is_not_begun_again_by_one_look() -> None:
    result = shown_as_before()

    (held,) = result.held
    assert (held.reason, held.reason.may_pass) == (Reason.FORMER_TOPIC, True)
    assert str(SOURCE_ID) in held.detail
    assert (result.pending, result.back) == (0, frozenset({"orders"}))


def test_what_has_ended_and_is_there_again_for_long_goes_on() -> None:
    result = shown_as_before(Scene(returned=frozenset({"orders"})))

    assert (result.held, result.back) == ((), frozenset({"orders"}))
    assert [
        (each.identity.partition, each.identity.incarnation, each.state) for each in result.publish
    ] == [(0, 1, "removed"), (1, 1, "removed"), (0, 0, "active"), (1, 0, "active")]


def test_of_a_recreated_target_in_two_minds_the_topic_of_before_is_not_taken_for_it() -> None:
    """One partition began anew there, the other one waits for a word."""
    _, old, new = first_of_two(copied(2, topic_id=NEW_TARGET, empty=False))

    result = planned(orders(2), copied(2, empty=False), entries=(*old, *new))

    assert held_reasons(*result.held) == [("orders", Reason.FORMER_TOPIC)]
    assert result.pending == 0


def test_nor_is_it_when_a_worker_that_saw_it_asks_for_an_incarnation_there() -> None:
    """A broker that lags tells both of them of it: what was copied anew would be copied again."""
    _, old, new = first_of_two(copied(2, topic_id=NEW_TARGET, empty=False))
    (latest,) = (each for each in new if each.state is CatalogState.ACTIVE)
    asked = asked_anew(latest, "offset:0", Reason.TARGET_RECREATED)
    scene = Scene(anew={latest.identity: asked})

    result = planned(orders(2), copied(2, empty=False), entries=(*old, *new), scene=scene)

    assert held_reasons(*result.held) == [("orders", Reason.FORMER_TOPIC)]
    assert result.publish == ()


# -- what is given up


def test_a_topic_that_is_gone_and_that_no_rule_wants_any_more_is_given_up() -> None:
    entries = published()

    result = planned(None, copied(), entries=entries, scene=OTHERS)

    assert result.publish == ended(*entries)
    assert (result.held, dict(result.ended)) == (
        (),
        {"orders": "no rule takes orders as it is now"},
    )


@pytest.mark.parametrize(
    "hidden", [Scene(unreadable=("orders",)), Scene(waiting=("orders",))], ids=["denied", "waiting"]
)
def test_a_topic_that_no_rule_wants_is_given_up_whatever_the_look_saw(hidden: Scene) -> None:
    entries = published()

    result = planned(None, copied(), entries=entries, scene=replace(hidden, flow=OTHERS.flow))

    assert result.publish == ended(*entries)


def test_a_topic_that_is_gone_is_given_up_under_a_name_that_no_rule_gives_it() -> None:
    entries = published()
    scene = Scene(flow=a_flow(naming=Naming.IDENTITY))

    assert planned(None, copied(), entries=entries, scene=scene).publish == ended(*entries)


def test_a_topic_that_is_gone_and_wanted_is_held_with_what_ends_it() -> None:
    (held,) = planned(None, copied(), entries=published()).held

    assert "DESCRIBE" in held.detail
    assert "`exclude`" in held.detail


# -- requests


def asked(start: str, cause: Reason | str, source_id: UUID, target_id: UUID) -> Plan:
    """A worker asks for a new incarnation of what was copied, and the topics are these now."""
    old = published(1)
    scene = Scene(anew={old[0].identity: asked_anew(old[0], start, cause)})
    there = copied(1, topic_id=target_id, empty=False)
    return planned(orders(1, topic_id=source_id), there, entries=old, scene=scene)


@pytest.mark.parametrize(
    ("cause", "source_id", "target_id"),
    [
        (Reason.TARGET_RECREATED, OTHER_ID, NEW_TARGET),
        (Reason.TARGET_RECREATED, OTHER_ID, TARGET_ID),
        (Reason.TARGET_RECREATED, SOURCE_ID, TARGET_ID),
        (Reason.SOURCE_RECREATED, SOURCE_ID, TARGET_ID),
        ("source-truncated", SOURCE_ID, NEW_TARGET),
        ("source-truncated", OTHER_ID, TARGET_ID),
        ("target-truncated", SOURCE_ID, NEW_TARGET),
        ("rewound", OTHER_ID, TARGET_ID),
    ],
)
def test_a_request_whose_offset_is_of_another_topic_is_not_met(
    cause: Reason | str, source_id: UUID, target_id: UUID
) -> None:
    result = asked("offset:40", cause, source_id, target_id)

    assert result.publish == ()
    assert len(result.held) == (1 if (source_id, target_id) != (SOURCE_ID, TARGET_ID) else 0)


@pytest.mark.parametrize(
    ("cause", "source_id", "target_id"),
    [
        (Reason.TARGET_RECREATED, SOURCE_ID, NEW_TARGET),
        (Reason.SOURCE_RECREATED, OTHER_ID, TARGET_ID),
        (Reason.SOURCE_RECREATED, OTHER_ID, NEW_TARGET),
        ("target-truncated", SOURCE_ID, TARGET_ID),
        ("rewound", SOURCE_ID, TARGET_ID),
    ],
)
def test_a_request_about_the_topics_that_are_there_is_met(
    cause: Reason | str, source_id: UUID, target_id: UUID
) -> None:
    result = asked("earliest", cause, source_id, target_id)

    assert [(each.identity.incarnation, each.state) for each in result.publish] == [
        (0, "removed"),
        (1, "active"),
    ]


# -- what is said of it


def test_a_recreated_source_is_one_change_that_ends_nothing() -> None:
    terms = RuleTerms(on_source_loss="record-gap")
    old = published(2, terms)
    plan = planned(orders(2, topic_id=OTHER_ID), copied(2), entries=old, terms=terms)

    (change,) = planned_changes(LINK, plan)

    assert (change.kind, change.detail) == (
        Kind.ANEW,
        "from orders: partitions 0 to 1, incarnation 1",
    )
    assert within(LINK, plan, [change]).publish == plan.publish
    assert dict(plan.ended) == {}


def test_what_begins_anew_is_made_for_the_partitions_that_were_shown_and_for_no_others() -> None:
    old = published(4, RuleTerms())
    asked = {each.identity: asked_anew(each, "offset:40") for each in old}

    def begun_anew(*numbers: int) -> Plan:
        anew = {old[n].identity: asked[old[n].identity] for n in numbers}
        return planned(orders(4), copied(4), entries=old, scene=Scene(anew=anew))

    (shown,) = planned_changes(LINK, begun_anew(3))
    later = begun_anew(1, 3)

    assert shown.detail == "from orders: partition 3, incarnation 1"
    assert [each.detail for each in planned_changes(LINK, later)] == [
        "from orders: partitions 1, 3, incarnation 1"
    ]
    assert within(LINK, later, [shown]).publish == ()
    assert within(LINK, later, planned_changes(LINK, later)).publish == later.publish


def test_partitions_that_a_recreated_source_lacks_are_said_to_end_for_that() -> None:
    terms = RuleTerms(on_source_loss="record-gap")
    old = published(2, terms)
    plan = planned(orders(1, topic_id=OTHER_ID), copied(2), entries=old, terms=terms)

    assert [(each.kind, each.detail) for each in planned_changes(LINK, plan)] == [
        (Kind.ANEW, "from orders: partition 0, incarnation 1"),
        (Kind.STOP, "orders has fewer partitions now"),
    ]


def test_a_topic_whose_claim_was_refused_ends_for_that_reason() -> None:
    refused = Held("orders", Reason.CLAIMED, "another rule has it already")
    scene = replace(UNCLAIMED, refused=(refused,))
    plan = planned(orders(1), copied(1), entries=published(1), scene=scene)

    assert [(each.kind, each.detail) for each in planned_changes(LINK, plan)] == [
        (Kind.STOP, "another rule has it already")
    ]
