"""What one look could not tell changes nothing: it is decided when a look says it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.access import AclBinding
from mirrorfleet.planning.access import AclEdit, AclStep
from mirrorfleet.planning.observed import AclsSeen
from mirrorfleet.planning.plan import AclsView
from mirrorfleet.planning.rules import ConfigPolicy, RuleTerms
from mirrorfleet.planning.topics import Reason
from mirrorfleet.policy.filters import NameFilter
from mirrorfleet.policy.flows import AclPolicy, Flow, FlowRule
from mirrorfleet.policy.naming import Naming
from mirrorfleet.records.catalog import CatalogPartition, CatalogState
from tests.unit.planning.anew import asked_anew
from tests.unit.planning.samples import (
    LINK,
    OTHER_ID,
    Scene,
    a_flow,
    copied,
    orders,
    planned,
)
from tests.unit.planning.test_plan import published
from tests.unit.policy.test_crossing import an_acl

READ = an_acl("ALLOW User:a READ TOPIC LITERAL orders")
READ_HERE = an_acl("ALLOW User:a READ TOPIC LITERAL east.orders")
DENIED = an_acl("DENY User:z READ TOPIC LITERAL orders")
DENIED_HERE = an_acl("DENY User:z READ TOPIC LITERAL east.orders")
ANY = an_acl("ALLOW User:b READ TOPIC LITERAL *")
ANY_HERE = an_acl("ALLOW User:b READ TOPIC PREFIXED east.")
THERE = frozenset({READ, DENIED, ANY})
HERE = (READ_HERE, DENIED_HERE, ANY_HERE)

WAITING = Scene(waiting=("orders",))
UNREADABLE = Scene(unreadable=("orders",))
MISSED = Scene()
EVERYTHING = a_flow()
UNREAD = (Reason.TARGET_UNREAD, True)
"""Told when a second look says so, too."""


def edits(
    scene: Scene,
    *,
    source: frozenset[AclBinding] = THERE,
    ours: tuple[AclBinding, ...] = HERE,
    entries: tuple[CatalogPartition, ...] = (),
    flow: Flow = EVERYTHING,
) -> set[tuple[AclStep, AclBinding]]:
    """Of a look that has no claim on the topic; `ours` are on the target and in the catalog, and no
    look for long has shown that they are wanted.
    """
    seen = AclsSeen(source=source, target=frozenset(ours))
    acls = AclsView(seen=seen, us=frozenset())
    flow = replace(flow, acls=AclPolicy.MIRROR)
    scene = replace(scene, acls=acls, ours=ours, flow=flow, unwanted=frozenset(ours))
    found = planned(None, copied(), entries=entries, scene=scene)
    return {(each.step, each.binding) for each in found.acls}


@pytest.mark.parametrize("scene", [WAITING, UNREADABLE, MISSED], ids=["waiting", "error", "missed"])
def test_acls_of_a_copied_topic_that_a_look_does_not_decide_stay(scene: Scene) -> None:
    assert edits(scene, entries=published()) == set()


@pytest.mark.parametrize("scene", [WAITING, UNREADABLE], ids=["waiting", "error"])
def test_acls_of_a_topic_that_is_not_copied_yet_stay_while_it_is_not_decided(scene: Scene) -> None:
    assert edits(scene) == set()


def test_an_acl_that_the_source_took_back_goes_also_while_its_topic_is_not_decided() -> None:
    assert edits(WAITING, source=frozenset({DENIED, ANY}), entries=published()) == {
        (AclStep.REMOVE, READ_HERE)
    }


def test_nothing_is_added_for_a_topic_that_is_not_decided() -> None:
    assert edits(WAITING, ours=(), entries=published()) == set()


def test_acls_of_a_topic_that_no_rule_takes_any_more_go_whatever_the_look_saw() -> None:
    gone = {(AclStep.REMOVE, each) for each in HERE}

    for scene in (WAITING, UNREADABLE, MISSED):
        assert edits(scene, entries=published(), flow=a_flow("others")) == gone


def test_acls_of_a_topic_that_is_gone_and_not_copied_any_more_go() -> None:
    removed = tuple(replace(each, state=CatalogState.REMOVED) for each in published())

    assert edits(MISSED, entries=removed) == {(AclStep.REMOVE, each) for each in HERE}


def test_acls_of_a_topic_that_the_look_saw_and_nothing_claims_go_when_many_looks_say_so() -> None:
    seen = AclsSeen(source=THERE, target=frozenset(HERE))
    flow = replace(EVERYTHING, acls=AclPolicy.MIRROR)
    acls = AclsView(seen=seen, us=frozenset())

    result = planned(
        orders(),
        copied(),
        entries=published(),
        scene=Scene(claimed=False, acls=acls, ours=HERE, flow=flow, unwanted=frozenset(HERE[:2])),
    )

    assert set(result.acls) == {AclEdit(AclStep.REMOVE, each) for each in HERE[:2]}
    assert set(result.acls_later) == {AclEdit(AclStep.REMOVE, HERE[2])}
    assert result.unwanted == frozenset(HERE)


def test_what_is_denied_of_a_copy_that_was_left_out_stays_beside_a_right_to_all() -> None:
    denied = an_acl("DENY User:b READ TOPIC LITERAL payroll")
    here = an_acl("DENY User:b READ TOPIC LITERAL east.payroll")
    (orders_entry,) = published()[:1]
    identity = replace(orders_entry.identity, source_topic_id=OTHER_ID)
    left_out = replace(
        orders_entry,
        identity=identity,
        source_topic="payroll",
        target_topic="east.payroll",
        state=CatalogState.REMOVED,
    )
    both = (ANY_HERE, here)
    acls = AclsView(
        seen=AclsSeen(source=frozenset({ANY, denied}), target=frozenset(both)), us=frozenset()
    )
    flow = replace(EVERYTHING, acls=AclPolicy.MIRROR)
    scene = Scene(acls=acls, ours=both, flow=flow)

    found = planned(orders(), copied(), entries=(*published(), left_out), scene=scene)

    assert found.acls == ()


@pytest.mark.parametrize("is_copied", [True, False])
def test_what_is_denied_of_a_topic_that_waits_comes_with_a_wider_right_where_it_is_copied(
    *, is_copied: bool
) -> None:
    """The name of one that is not copied may be a topic of the target's own."""
    denied = an_acl("DENY User:b READ TOPIC LITERAL payroll")
    here = an_acl("DENY User:b READ TOPIC LITERAL east.payroll")
    (orders_entry,) = published()[:1]
    identity = replace(orders_entry.identity, source_topic_id=OTHER_ID)
    payroll = replace(
        orders_entry, identity=identity, source_topic="payroll", target_topic="east.payroll"
    )
    seen = AclsSeen(source=frozenset({ANY, denied}), target=frozenset())
    flow = replace(EVERYTHING, acls=AclPolicy.MIRROR)
    scene = Scene(acls=AclsView(seen=seen, us=frozenset()), flow=flow, beside={"payroll": OTHER_ID})
    entries = (*published(), payroll) if is_copied else published()

    found = planned(orders(), copied(), entries=entries, scene=scene)

    added = {each.binding for each in found.acls if each.step is AclStep.ADD}
    assert added == ({here, ANY_HERE} if is_copied else {ANY_HERE})


def test_of_two_rules_that_take_a_topic_the_one_that_copies_it_counts_while_it_waits() -> None:
    topics, groups = NameFilter((".*",)), NameFilter(())
    both = (
        FlowRule("all", topics, groups, Naming.PREFIX),
        FlowRule("same", topics, groups, Naming.IDENTITY),
    )
    flow = Flow(LINK, both, NameFilter(()))

    assert edits(WAITING, entries=published(), flow=flow) == set()


def test_a_target_topic_whose_configs_are_not_told_yet_waits() -> None:
    result = planned(orders(1, max_message_bytes=5_000_000), copied(1, unread=True))

    assert result.pending == 0
    assert [(each.reason, each.reason.may_pass) for each in result.held] == [UNREAD]


def test_a_topic_whose_configs_we_may_not_read_is_not_created_by_guess() -> None:
    source = replace(orders(1), overrides=None)

    (held,) = planned(source, None).held
    (made,) = planned(source, None, terms=RuleTerms(configs=ConfigPolicy.IGNORE)).create
    known = published(1)
    there = planned(source, copied(1), entries=known)

    assert (held.reason, planned(source, None).pending) == (Reason.UNREADABLE, 0)
    assert "may not DESCRIBE_CONFIGS Topic:orders on east" in held.detail
    assert "`configs: ignore`" in held.detail
    assert "cleanup.policy" not in made.spec.configs
    assert (there.pending, there.held) == (1, ())
    assert there.publish == (replace(known[0], source_retention_ms=None),)  # nobody knows it now


def test_configs_that_are_not_told_after_a_restart_change_neither_target_nor_catalog() -> None:
    large = {"max.message.bytes": "9000000", "cleanup.policy": "compact"}
    source = orders(1, max_message_bytes=5_000_000, cleanup_policy="compact")
    entries = planned(source, copied(1, configs=large)).publish

    result = planned(source, copied(1, unread=True), entries=entries)

    assert result.pending == 0
    assert [(each.reason, each.reason.may_pass) for each in result.held] == [UNREAD]


def test_no_partition_begins_anew_under_configs_that_are_not_told_yet() -> None:
    old = published(1)
    scene = Scene(anew={old[0].identity: asked_anew(old[0], "offset:40")})

    assert planned(orders(1), copied(1, unread=True), entries=old, scene=scene).pending == 0


def test_a_recreated_target_topic_is_held_also_while_its_configs_are_not_told() -> None:
    there = copied(topic_id=OTHER_ID, unread=True)

    result = planned(orders(), there, entries=published())

    assert [each.reason for each in result.held] == [Reason.TARGET_RECREATED]
