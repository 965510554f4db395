"""What was there when a rule began: only that starts where the rule says, all else is copied whole.

What the rules of a link find at their first look is kept in the catalog, and written before any
entry that follows from it. So whoever sees a new topic first, after a restart or by hand, knows
that it is new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.ids import TopicId
from mirrorfleet.policy.naming import is_heartbeats_topic
from mirrorfleet.records.catalog import CatalogLink, CatalogState, RuleBeginning
from mirrorfleet.records.incarnations import FROM_THE_START

if TYPE_CHECKING:
    from mirrorfleet.planning.plan import LinkFacts
    from mirrorfleet.policy.flows import FlowRule

Beginnings = Mapping[str, frozenset[TopicId]]
"""By the name of the rule."""

MOST_TOPICS: Final = 30_000
"""Of a link, so that its record stays below Kafka's largest; what is left out is copied whole."""


def topics_at_begin(view: LinkFacts) -> Beginnings:
    """What each rule with a start of its own found at its first look, which may be this one.

    Nothing is known of the first look of a build that did not write it down: all is new then.
    """
    known = view.book.links.get(view.source.cluster)
    unsaid = known is not None and known.begun is None
    said = _said(known)

    def of(rule: FlowRule) -> frozenset[TopicId]:
        if unsaid or rule.name in said:
            return said.get(rule.name, frozenset())
        return _there(view, rule, said)

    own = (rule for rule in view.flow.rules if view.terms[rule.name].start != FROM_THE_START)
    return {rule.name: of(rule) for rule in own}


def beginning(view: LinkFacts) -> CatalogLink | None:
    """The link's record, when what its rules found is not in the catalog yet.

    What rules began with that are not in this file, or start at the begin in it, stays, as far as
    there is room: another process may have another file, and a rule may come back.
    """
    known = view.book.links.get(view.source.cluster)
    if known is None:
        return None
    ours = topics_at_begin(view)
    all_of_them = {**_others(_said(known), ours), **ours}
    begun = tuple(RuleBeginning(*each) for each in sorted(all_of_them.items()))
    return None if begun == known.begun else replace(known, begun=begun)


def _said(known: CatalogLink | None) -> Beginnings:
    begun = known.begun if known is not None else None
    return {each.rule: each.topics for each in begun or ()}


def _others(said: Beginnings, ours: Beginnings) -> Beginnings:
    room = max(0, MOST_TOPICS - sum(map(len, ours.values())))
    kept: dict[str, frozenset[TopicId]] = {}
    for rule in sorted(said.keys() - ours.keys()):
        topics = said[rule]
        kept[rule] = topics if len(topics) <= room else frozenset(sorted(topics)[:room])
        room -= len(kept[rule])
    return kept


def _there(view: LinkFacts, rule: FlowRule, said: Beginnings) -> frozenset[TopicId]:
    """What counts as there at the first look of `rule`: all that it finds, if no other had any.

    Else another one was renamed or split, and what came since that began came later for this one,
    too. What no rule ever took counts as that: nobody can tell, and a whole copy skips nothing. A
    rule that is in no file and copies nothing any more was given up: it has no heir.
    """
    copied, given_up = dict[str, set[TopicId]](), set[str]()
    for entry in view.book.of_source(view.source.cluster):
        given_up.add(entry.rule)
        if entry.state is not CatalogState.REMOVED:
            copied.setdefault(entry.rule, set()).add(entry.identity.source_topic_id)
    given_up -= {*copied, *(each.name for each in view.flow.rules)}
    # heartbeats are whose rule is first in the file, and tell nothing of who was before
    named = {
        topic_id
        for name, topic_id in view.source.wanted.items()
        if rule.topics.matches(name) and not is_heartbeats_topic(name)
    }
    before = [
        topics
        for name, topics in said.items()
        if name not in given_up and not named.isdisjoint(topics | copied.get(name, set()))
    ]
    found = _found(view, rule)
    return found.intersection(chain(*before)) if before else found


def _found(view: LinkFacts, rule: FlowRule) -> frozenset[TopicId]:
    found = sorted(
        topic_id for name, topic_id in view.source.wanted.items() if view.flow.takes(rule, name)
    )
    return frozenset(found[: MOST_TOPICS // len(view.flow.rules)])
