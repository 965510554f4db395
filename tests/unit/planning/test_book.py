"""The catalog as sync remembers it, and what it forbids."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.errors import RefusedError
from mirrorfleet.core.ids import ClusterAlias, ClusterId, Link, SlotNumber
from mirrorfleet.planning.book import CatalogBook, check_link
from mirrorfleet.policy.claims import Claim
from mirrorfleet.records.catalog import (
    CatalogAcl,
    CatalogLink,
    CatalogState,
    Removed,
    partition_key,
)
from tests.unit.planning.samples import EAST, LINK, WEST, copied, orders, planned
from tests.unit.policy.test_crossing import an_acl

NORTH = ClusterId("NORTH-ID")


def a_book(link: Link = LINK, source: ClusterId = EAST, target: ClusterId = WEST) -> CatalogBook:
    book = CatalogBook()
    slots = (SlotNumber(0), SlotNumber(3))
    book.learn(CatalogLink(link=link, source_cluster=source, target_cluster=target, slots=slots))
    return book


def test_a_topic_is_one_claim_however_many_partitions_it_has() -> None:
    book = CatalogBook()
    for entry in planned(orders(2), copied(2)).publish:
        book.learn(entry)

    assert book.claims() == [Claim(LINK, "all", "orders", "east.orders")]


def test_acls_that_were_added_are_known_by_their_source_until_they_are_forgotten() -> None:
    book = a_book()
    read = CatalogAcl(EAST, an_acl("ALLOW User:a READ TOPIC LITERAL east.orders"), (NORTH,))
    book.learn(read)
    assert (book.acls_of(EAST), book.acls_of(WEST)) == ({read.binding: (NORTH,)}, {})

    book.learn(Removed(b"", None, read))
    assert book.acls_of(EAST) == {}


def test_removed_entries_claim_nothing_and_load_no_slot() -> None:
    book = CatalogBook()
    for entry in planned(orders(2), copied(2)).publish:
        book.learn(replace(entry, state=CatalogState.REMOVED))

    assert book.claims() == []
    assert book.slots_taken(EAST) == []


def test_a_tombstone_forgets_its_partition() -> None:
    book = CatalogBook()
    (entry,) = planned(orders(1), copied(1)).publish
    book.learn(entry)

    book.learn(Removed(partition_key(entry.identity), entry.identity))

    assert book.partitions == {}


def test_slots_are_counted_over_all_links() -> None:
    book = a_book()

    assert book.highest_slot() == 3
    assert book.slots_elsewhere(EAST) == []
    assert book.slots_elsewhere(ClusterId("NORTH-ID")) == [0, 3]
    assert CatalogBook().highest_slot() == -1


def test_a_link_that_is_what_it_was_is_accepted() -> None:
    check_link(a_book(), LINK, EAST, WEST)
    check_link(CatalogBook(), LINK, EAST, WEST)


@pytest.mark.parametrize(
    ("book", "source", "target", "said"),
    [
        (CatalogBook(), EAST, EAST, "are the same cluster"),
        (a_book(), ClusterId("NEW"), WEST, "'east' was cluster.id EAST-ID and is now NEW"),
        (a_book(), EAST, ClusterId("NEW"), "the catalog is of target cluster.id WEST-ID"),
        (
            a_book(Link(ClusterAlias("east1"), ClusterAlias("west"))),
            EAST,
            WEST,
            "cluster.id EAST-ID is in the catalog as 'east1'",
        ),
        (
            a_book(Link(ClusterAlias("east"), ClusterAlias("west1"))),
            EAST,
            WEST,
            "its target is in the catalog as 'west1'",
        ),
    ],
    ids=["same cluster", "alias moved", "target replaced", "alias renamed", "target renamed"],
)
def test_a_link_whose_names_changed_their_meaning_is_refused(
    book: CatalogBook, source: ClusterId, target: ClusterId, said: str
) -> None:
    with pytest.raises(RefusedError, match=said):
        check_link(book, LINK, source, target)


def test_two_sources_that_are_one_cluster_are_refused_and_others_are_not() -> None:
    north = ClusterAlias("north")

    check_link(CatalogBook(), LINK, EAST, WEST, {north: NORTH})
    with pytest.raises(RefusedError, match="'east' and 'north' are the same cluster"):
        check_link(CatalogBook(), LINK, EAST, WEST, {north: EAST})
