"""ACLs of a source are for copies: what the target has of its own is not the source's to say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.access import AclBinding
from mirrorfleet.core.ids import NO_TOPIC_ID
from mirrorfleet.planning.access import AclStep
from mirrorfleet.planning.observed import AclsSeen, SourceTopic, TargetTopic
from mirrorfleet.planning.plan import AclsView
from mirrorfleet.planning.rules import RuleTerms
from mirrorfleet.policy.flows import AclPolicy
from mirrorfleet.policy.naming import Naming
from mirrorfleet.records.catalog import CatalogPartition
from tests.unit.planning.samples import OTHER_ID, Scene, a_flow, copied, orders, planned
from tests.unit.planning.test_entries import ended
from tests.unit.planning.test_plan import published
from tests.unit.policy.test_crossing import an_acl

READ = an_acl("ALLOW User:a READ TOPIC LITERAL orders")
ANY = an_acl("DENY User:b DELETE TOPIC LITERAL *")
HERE = (
    an_acl("ALLOW User:a READ TOPIC LITERAL east.orders"),
    an_acl("DENY User:b DELETE TOPIC LITERAL east.orders"),
)
ORDERS = orders()
FOREIGN = copied(empty=False)
NAMELESS = replace(FOREIGN, topic_id=NO_TOPIC_ID)


def edits(
    target: TargetTopic,
    *ours: AclBinding,
    source: SourceTopic = ORDERS,
    entries: tuple[CatalogPartition, ...] = (),
    adopt: bool = False,
) -> set[tuple[AclStep, AclBinding]]:
    """Under identity naming; `ours` are on the target and in the catalog, unwanted for long."""
    seen = AclsSeen(source=frozenset({READ, ANY}), target=frozenset(ours))
    flow = replace(a_flow(naming=Naming.IDENTITY), acls=AclPolicy.MIRROR)
    acls, unwanted = AclsView(seen=seen, us=frozenset()), frozenset(ours)
    scene = Scene(flow=flow, acls=acls, ours=ours, unwanted=unwanted)
    terms = RuleTerms(adopt=adopt)
    found = planned(source, target, entries=entries, terms=terms, scene=scene)
    return {(each.step, each.binding) for each in found.acls}


@pytest.mark.parametrize("target", [FOREIGN, NAMELESS], ids=["records", "no id"])
def test_a_topic_of_the_targets_own_gets_no_acl_of_the_source_unless_it_is_adopted(
    target: TargetTopic,
) -> None:
    assert edits(target) == set()
    assert edits(target, adopt=True) == {(AclStep.ADD, each) for each in HERE}


def test_what_was_put_on_a_topic_of_the_targets_own_goes_and_stays_on_an_old_copy() -> None:
    again = orders(topic_id=OTHER_ID)

    assert edits(FOREIGN, *HERE) == {(AclStep.REMOVE, each) for each in HERE}
    assert edits(FOREIGN, *HERE, source=again, entries=ended(*published())) == set()


def test_while_nobody_tells_whose_a_topic_is_its_acls_stay_and_none_is_added() -> None:
    untold = copied(empty=None)

    assert edits(untold) == set()
    assert edits(untold, *HERE) == set()
