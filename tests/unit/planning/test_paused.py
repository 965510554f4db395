"""What `sync` makes of a topic that an operator has paused, or throttled."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from mirrorfleet.planning.rules import RuleTerms
from mirrorfleet.planning.topics import Reason
from mirrorfleet.records.catalog import CatalogPartition, CatalogState
from tests.unit.planning.anew import asked_anew
from tests.unit.planning.samples import Scene, copied, orders, planned

ACTIVE, PAUSED, REMOVED = CatalogState.ACTIVE, CatalogState.PAUSED, CatalogState.REMOVED


def published(*states: CatalogState) -> tuple[CatalogPartition, ...]:
    many = len(states)
    entries = planned(orders(many), copied(many)).publish
    return tuple(replace(entry, state=state) for entry, state in zip(entries, states, strict=True))


@pytest.mark.parametrize(
    ("states", "new"),
    [
        ((PAUSED, PAUSED), PAUSED),
        ((PAUSED, ACTIVE), ACTIVE),
        ((ACTIVE, ACTIVE), ACTIVE),
        ((PAUSED, REMOVED), PAUSED),
    ],
    ids=["all stand", "one stands", "none stands", "what is left stands"],
)
def test_a_partition_that_a_topic_gets_stands_where_all_of_the_topic_does(
    states: tuple[CatalogState, ...], new: CatalogState
) -> None:
    entries = published(*states)

    result = planned(orders(3), copied(3), entries=entries)

    now = {**_states(entries), **_states(result.publish)}
    assert now == {n: new if state is REMOVED else state for n, state in enumerate(states)} | {
        2: new
    }


def _states(entries: tuple[CatalogPartition, ...]) -> dict[int, CatalogState]:
    return {each.identity.partition: each.state for each in entries}


@pytest.mark.parametrize("states", [(PAUSED, ACTIVE), (PAUSED, PAUSED), (ACTIVE, ACTIVE)])
def test_each_partition_of_a_topic_that_was_made_again_stands_as_it_did(
    states: tuple[CatalogState, ...],
) -> None:
    old = published(*states)
    terms = RuleTerms(on_source_loss="record-gap")
    again = replace(orders(2), topic_id=UUID(int=0xE))

    result = planned(again, copied(2), entries=old, terms=terms)

    new = [each for each in result.publish if each.state is not REMOVED]
    assert [each.identity.incarnation for each in new] == [1, 1]
    assert tuple(each.state for each in new) == states


@pytest.mark.parametrize("state", [ACTIVE, PAUSED])
def test_another_incarnation_of_what_stands_stands(state: CatalogState) -> None:
    old = published(state, ACTIVE)
    there = replace(copied(2), topic_id=UUID(int=0xD))
    scene = Scene(anew={old[0].identity: asked_anew(old[0], "offset:0", Reason.TARGET_RECREATED)})

    result = planned(orders(2), there, entries=old, scene=scene)

    assert [each.state for each in result.publish] == [REMOVED, state]


def throttled(entry: CatalogPartition) -> CatalogPartition:
    return replace(entry, throttle=7, throttle_asked=True)


def _throttles(entries: tuple[CatalogPartition, ...]) -> list[tuple[int, int | None, bool]]:
    return [(each.identity.partition, each.throttle, each.throttle_asked) for each in entries]


def test_a_throttle_that_was_asked_for_holds_for_what_a_whole_topic_gets() -> None:
    one, other = published(ACTIVE, ACTIVE)
    terms = RuleTerms(throttle=9)

    both = planned(orders(3), copied(3), entries=(throttled(one), throttled(other)), terms=terms)
    alone = planned(orders(3), copied(3), entries=(one, throttled(other)), terms=terms)

    assert _throttles(both.publish) == [(2, 7, True)]
    assert _throttles(alone.publish) == [(0, 9, False), (2, 9, False)]


def test_another_incarnation_of_what_is_throttled_is_throttled() -> None:
    one, other = published(ACTIVE, ACTIVE)
    there = replace(copied(2), topic_id=UUID(int=0xD))
    scene = Scene(anew={one.identity: asked_anew(one, "offset:0", Reason.TARGET_RECREATED)})

    result = planned(orders(2), there, entries=(throttled(one), other), scene=scene)

    assert _throttles(result.publish[1:]) == [(0, 7, True)]
