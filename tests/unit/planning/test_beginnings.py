"""A rule's own start is for what was there when the rule began; whoever looks first knows that."""

from __future__ import annotations

from dataclasses import replace

from mirrorfleet.core.ids import TopicId
from mirrorfleet.planning.pending import automatic, planned_changes, within
from mirrorfleet.planning.plan import Growth, Plan
from mirrorfleet.planning.rules import Apply, RuleTerms
from mirrorfleet.records.catalog import CatalogLink, RuleBeginning
from tests.unit.planning.samples import (
    CLAIM,
    EAST,
    LINK,
    OTHER_ID,
    SLOTS,
    SOURCE_ID,
    WEST,
    Scene,
    a_flow,
    copied,
    orders,
    planned,
)

LATEST = RuleTerms(start="latest")
FRESH = CatalogLink(link=LINK, source_cluster=EAST, target_cluster=WEST, slots=SLOTS, begun=())
"""As it is introduced: no rule has looked yet."""


def begun(*topics: TopicId, rule: str = "all") -> CatalogLink:
    return replace(FRESH, begun=(RuleBeginning(rule, frozenset(topics)),))


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
    result = planned(orders(1), copied(1), terms=LATEST, scene=Scene(link=begun(rule="other")))

    assert [each.start for each in result.publish] == ["latest"]
    assert result.begun == begun(SOURCE_ID)


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

    assert before.grow == (Growth(CLAIM, 3, 1),)
    assert before.publish == ()
    assert [each.start for each in after.publish] == ["latest"] * 3
