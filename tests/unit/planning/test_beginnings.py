"""A rule's own start is for what was there when the rule began; whoever looks first knows that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.ids import TopicId
from mirrorfleet.planning import beginnings
from mirrorfleet.planning.pending import Kind, PlannedChange, automatic, planned_changes, within
from mirrorfleet.planning.plan import Growth, Plan
from mirrorfleet.planning.rules import Apply, RuleTerms
from mirrorfleet.planning.topics import Reason
from mirrorfleet.records.catalog import CatalogLink, CatalogState, RuleBeginning
from tests.unit.planning.samples import (
    CLAIM,
    EAST,
    LINK,
    OTHER_ID,
    SLOTS,
    SOURCE_ID,
    TARGET_ID,
    WEST,
    Scene,
    a_flow,
    copied,
    orders,
    planned,
)
from tests.unit.planning.test_entries import ended

LATEST = RuleTerms(start="latest")
FRESH = CatalogLink(link=LINK, source_cluster=EAST, target_cluster=WEST, slots=SLOTS, begun=())
"""As it is introduced: no rule has looked yet."""


def begun(*topics: TopicId, rule: str = "all", and_of: CatalogLink = FRESH) -> CatalogLink:
    """`and_of` is what the catalog says of rules that come behind this one."""
    return replace(FRESH, begun=(RuleBeginning(rule, frozenset(topics)), *(and_of.begun or ())))


def starts(link: CatalogLink, terms: RuleTerms = LATEST) -> list[str]:
    """Of a topic without entries."""
    result = planned(orders(1), copied(1), terms=terms, scene=Scene(link=link))
    return [each.start for each in result.publish]


def test_what_is_there_at_the_first_look_starts_where_the_rule_says_and_is_written_down() -> None:
    result = planned(orders(1), copied(1), terms=LATEST, scene=Scene(link=FRESH))

    assert [each.start for each in result.publish] == ["latest"]
    assert result.begun == begun(SOURCE_ID)


def test_what_was_there_starts_where_the_rule_says_in_a_process_that_goes_on_with_it() -> None:
    result = planned(orders(1), copied(1), terms=LATEST, scene=Scene(link=begun(SOURCE_ID)))

    assert [each.start for each in result.publish] == ["latest"]
    assert result.begun is None


def test_a_topic_that_came_later_is_copied_whole_whoever_sees_it_first() -> None:
    assert starts(begun(OTHER_ID)) == starts(begun()) == ["earliest"]
    assert starts(begun(OTHER_ID), RuleTerms(start="timestamp:5")) == ["earliest"]


def test_a_topic_that_has_the_name_of_one_that_was_there_came_later() -> None:
    again = orders(1, topic_id=OTHER_ID)

    result = planned(again, copied(1), terms=LATEST, scene=Scene(link=begun(SOURCE_ID)))

    assert [each.start for each in result.publish] == ["earliest"]


def test_of_a_link_whose_writer_did_not_say_what_was_there_all_is_copied_whole() -> None:
    silent = replace(FRESH, begun=None)

    result = planned(orders(1), copied(1), terms=LATEST, scene=Scene(link=silent))

    assert [each.start for each in result.publish] == ["earliest"]
    assert result.begun == begun()


def test_a_rule_that_is_added_begins_with_what_is_there_then() -> None:
    before = begun(OTHER_ID, rule="other")

    result = planned(orders(1), copied(1), terms=LATEST, scene=Scene(link=before))

    assert [each.start for each in result.publish] == ["latest"]
    assert result.begun == begun(SOURCE_ID, and_of=before)


def test_a_rule_that_starts_at_the_beginning_has_nothing_to_write_down() -> None:
    assert planned(orders(1), copied(1), scene=Scene(link=FRESH)).begun is None


def test_a_link_that_is_not_in_the_catalog_yet_begins_with_what_is_there() -> None:
    result = planned(orders(1), copied(1), terms=LATEST)

    assert [each.start for each in result.publish] == ["latest"]
    assert result.begun is None


def test_a_topic_that_waits_at_the_first_look_was_there() -> None:
    """One that another fleet may call its copy; it has no claim yet."""
    scene = Scene(link=FRESH, waiting=("orders",), claimed=False)

    assert planned(orders(1), None, terms=LATEST, scene=scene).begun == begun(SOURCE_ID)


def test_only_topics_of_the_rule_are_written_down() -> None:
    scene = Scene(link=FRESH, flow=a_flow("others"), claimed=False)

    assert planned(orders(1), None, terms=LATEST, scene=scene).begun == begun()


def test_what_was_there_is_no_change_to_agree_to_and_is_written_whatever_is_agreed_to() -> None:
    """Also of a rule that has nothing to copy yet: what comes after it was applied is new."""
    result = planned(orders(1), None, terms=LATEST, scene=Scene(link=FRESH))
    changes = planned_changes(LINK, result)

    assert planned_changes(LINK, Plan(begun=FRESH)) == []
    assert within(LINK, result, changes).begun == begun(SOURCE_ID)
    assert within(LINK, result, []).begun == begun(SOURCE_ID)
    assert planned(None, None, terms=LATEST, scene=Scene(link=FRESH)).begun == begun()


def test_what_was_there_is_not_written_where_every_rule_waits_for_a_word() -> None:
    plan = Plan(begun=FRESH)

    assert automatic(plan, {"all": RuleTerms()}, Apply.MANUAL).begun == FRESH
    assert automatic(plan, {"all": RuleTerms(apply=Apply.MANUAL)}, Apply.AUTO).begun is None


def test_a_copy_that_is_there_with_too_few_partitions_is_grown_before_a_start_of_its_own() -> None:
    terms = RuleTerms(start="latest", adopt=True)
    before = planned(orders(3), copied(1), terms=terms)
    after = planned(orders(3), copied(3), terms=terms)

    assert before.grow == (Growth(CLAIM, 3, 1, "latest"),)
    assert before.publish == ()
    assert [each.start for each in after.publish] == ["latest"] * 3


@pytest.mark.parametrize("adopt", [True, False])
def test_what_came_under_a_rule_later_is_not_copied_whole_behind_records_of_others(
    *, adopt: bool
) -> None:
    terms, later = replace(LATEST, adopt=adopt), Scene(link=begun(OTHER_ID))
    result = planned(orders(1), copied(1, empty=False), terms=terms, scene=later)

    (held,) = result.held
    assert (result.publish, held.reason) == ((), Reason.NOT_EMPTY)
    assert "a rule of its own with `adopt: true`" in held.detail


def test_what_came_under_a_rule_later_is_copied_whole_where_that_repeats_nothing() -> None:
    terms = replace(LATEST, adopt=True)
    first = planned(orders(1), copied(1), terms=terms, scene=Scene(link=begun(SOURCE_ID)))
    again, later = orders(1, topic_id=OTHER_ID), Scene(link=begun())
    for source, empty, old in ((again, False, ended(*first.publish)), (again, True, ())):
        result = planned(source, copied(1, empty=empty), entries=old, terms=terms, scene=later)
        assert [each.start for each in result.publish] == ["earliest"]


def test_records_of_others_are_adopted_as_the_rule_says_when_the_topic_was_there() -> None:
    there = copied(1, empty=False)
    for terms, link in ((LATEST, begun(SOURCE_ID)), (RuleTerms(), begun())):
        adopting = replace(terms, adopt=True)
        result = planned(orders(1), there, terms=adopting, scene=Scene(link=link))
        assert [each.start for each in result.publish] == [terms.start]


def test_where_copying_begins_stands_in_the_line_of_the_copy() -> None:
    for link, start in ((begun(SOURCE_ID), "latest"), (begun(), "earliest")):
        for target in (None, copied(1)):
            result = planned(orders(1), target, terms=LATEST, scene=Scene(link=link))
            line = planned_changes(LINK, result)[-1]
            assert line == PlannedChange(
                str(LINK), Kind.COPY, "east.orders", f"from orders: partition 0, start {start}"
            )


def test_what_came_after_a_rule_began_came_later_for_what_the_rule_is_renamed_to() -> None:
    old, beside = begun(OTHER_ID, rule="old"), {"stock": OTHER_ID}
    late = planned(orders(1), copied(1), terms=LATEST, scene=Scene(link=old, beside=beside))
    both = begun(SOURCE_ID, OTHER_ID, rule="old")
    there = planned(orders(1), copied(1), terms=LATEST, scene=Scene(link=both, beside=beside))

    assert [each.start for each in (*late.publish, *there.publish)] == ["earliest", "latest"]
    assert late.begun == begun(OTHER_ID, and_of=old)
    assert there.begun == begun(SOURCE_ID, OTHER_ID, and_of=both)


def test_a_rule_that_began_with_nothing_is_known_again_by_what_it_copies() -> None:
    (entry,) = planned(orders(1), copied(1)).publish
    identity = replace(entry.identity, source_topic_id=OTHER_ID)
    stock = replace(entry, source_topic="stock", identity=identity, rule="old")
    scene = Scene(link=begun(rule="old"), beside={"stock": OTHER_ID})
    for state, start in ((CatalogState.ACTIVE, "earliest"), (CatalogState.REMOVED, "latest")):
        old = [replace(stock, target_topic="east.stock", state=state)]
        result = planned(orders(1), copied(1), entries=old, terms=LATEST, scene=scene)
        assert [each.start for each in result.publish if each.source_topic == "orders"] == [start]


def test_a_rule_that_was_given_up_has_no_heir() -> None:
    """What it copied has ended, and no file has it; one that never copied anything may live."""
    (entry,) = planned(orders(1), copied(1)).publish
    identity = replace(entry.identity, source_topic_id=OTHER_ID)
    stock = replace(entry, source_topic="stock", identity=identity, rule="old")
    scene = Scene(link=begun(OTHER_ID, rule="old"), beside={"stock": OTHER_ID})
    for state, start in ((CatalogState.ACTIVE, "earliest"), (CatalogState.REMOVED, "latest")):
        old = [replace(stock, target_topic="east.stock", state=state)]
        result = planned(orders(1), copied(1), entries=old, terms=LATEST, scene=scene)
        assert [each.start for each in result.publish if each.source_topic == "orders"] == [start]


@pytest.mark.parametrize("adopt", [True, False])
def test_heartbeats_that_any_pattern_matches_make_no_heir(*, adopt: bool) -> None:
    scene = Scene(link=begun(OTHER_ID, rule="old"), beside={"heartbeats": OTHER_ID})
    terms = replace(LATEST, adopt=adopt)
    result = planned(orders(1), copied(1, empty=not adopt), terms=terms, scene=scene)
    assert [each.start for each in result.publish if each.source_topic == "orders"] == ["latest"]


def test_a_rule_that_only_has_the_heartbeats_of_another_one_is_new() -> None:
    old = begun(OTHER_ID, rule="old")
    scene = Scene(link=old, flow=a_flow("orders"), beside={"heartbeats": OTHER_ID})

    result = planned(orders(1), copied(1), terms=LATEST, scene=scene)

    assert [each.start for each in result.publish] == ["latest"]
    assert result.begun == begun(SOURCE_ID, OTHER_ID, and_of=old)


def test_what_a_rule_began_with_stays_known_where_a_file_lacks_it_or_starts_at_the_begin() -> None:
    for link in (begun(OTHER_ID), begun(OTHER_ID, rule="old")):
        assert planned(orders(1), copied(1), scene=Scene(link=link)).begun is None
    both = begun(SOURCE_ID, and_of=begun(OTHER_ID, rule="old"))
    assert planned(orders(1), copied(1), terms=LATEST, scene=Scene(link=both)).begun is None


def test_of_what_other_rules_began_with_as_much_is_kept_as_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(beginnings, "MOST_TOPICS", 2)
    old = begun(OTHER_ID, TARGET_ID, rule="old")

    result = planned(orders(1), copied(1), terms=LATEST, scene=Scene(link=old))

    assert result.begun == begun(SOURCE_ID, and_of=begun(TARGET_ID, rule="old"))
    again = planned(orders(1), copied(1), terms=LATEST, scene=Scene(link=result.begun))
    assert again.begun is None
