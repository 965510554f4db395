"""What was there when a rule began: only that starts where the rule says, all else is copied whole.

What the rules of a link find at their first look is kept in the catalog, and written before any
entry that follows from it. So whoever sees a new topic first, after a restart or by hand, knows
that it is new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mirrorfleet.records.catalog import CatalogLink, RuleBeginning
from mirrorfleet.records.incarnations import FROM_THE_START

if TYPE_CHECKING:
    from mirrorfleet.core.ids import TopicId
    from mirrorfleet.planning.plan import LinkFacts
    from mirrorfleet.policy.flows import FlowRule

MOST_TOPICS: Final = 30_000
"""Of a link, so that its record stays below Kafka's largest; what is left out is copied whole."""


def topics_at_begin(view: LinkFacts) -> Mapping[str, frozenset[TopicId]]:
    """What each rule with a start of its own found at its first look, which may be this one.

    Nothing is known of the first look of a build that did not write it down: all is new then.
    """
    known = view.book.links.get(view.source.cluster)
    unsaid = known is not None and known.begun is None
    said = {} if known is None else {each.rule: each.topics for each in known.begun or ()}
    return {
        rule.name: said.get(rule.name, frozenset() if unsaid else _found(view, rule))
        for rule in view.flow.rules
        if view.terms[rule.name].start != FROM_THE_START
    }


def beginning(view: LinkFacts) -> CatalogLink | None:
    """The link's record, when what its rules found is not in the catalog yet."""
    known = view.book.links.get(view.source.cluster)
    if known is None:
        return None
    begun = tuple(RuleBeginning(*each) for each in sorted(topics_at_begin(view).items()))
    return None if begun == known.begun else replace(known, begun=begun)


def _found(view: LinkFacts, rule: FlowRule) -> frozenset[TopicId]:
    found = sorted(
        topic_id for name, topic_id in view.source.wanted.items() if view.flow.takes(rule, name)
    )
    return frozenset(found[: MOST_TOPICS // len(view.flow.rules)])
