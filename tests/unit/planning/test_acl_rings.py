"""Clusters that copy to each other in a ring or a mesh: what is taken back stays away."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import permutations

import pytest

from mirrorfleet.core.access import AclBinding
from mirrorfleet.core.ids import ClusterAlias, ClusterId, Link
from mirrorfleet.planning.access import AclStep, acl_edits, shortest_ways
from mirrorfleet.planning.book import CatalogBook
from mirrorfleet.planning.observed import AclsSeen
from mirrorfleet.policy.crossing import Crossings
from mirrorfleet.policy.filters import NameFilter
from mirrorfleet.policy.flows import AclPolicy, Flow, FlowRule
from mirrorfleet.policy.naming import Naming
from mirrorfleet.records.catalog import CatalogAcl, Removed
from mirrorfleet.watching.source import acls_in
from tests.unit.policy.test_crossing import an_acl

READ = an_acl("ALLOW User:a READ GROUP LITERAL app")
DENIED = an_acl("DENY User:z READ GROUP LITERAL app")
RING = ("AB", "BC", "CA")
MESH = tuple(map("".join, permutations("ABC", 2)))
MESH_OF_FOUR = tuple(map("".join, permutations("ABCD", 2)))
LOOKS = 30


class World:
    """Clusters by letter, each the target of one fleet; a link is two letters."""

    def __init__(self, links: Iterable[str], policy: AclPolicy) -> None:
        self.links, self.policy = tuple(links), policy
        names = set("".join(self.links))
        self.acls: dict[str, set[AclBinding]] = {name: set() for name in names}
        self.books = {name: CatalogBook() for name in names}
        self.history: list[tuple[AclStep, str]] = []

    def look(self, link: str) -> int:
        """One look at a link and what follows from it; how many edits."""
        source, target = link[0], link[1]
        book, here = self.books[target], ClusterId(target)
        others = [each[0] for each in self.links if each[1] == target and each != link]
        seen = AclsSeen(
            source=frozenset(self.acls[source]),
            target=frozenset(self.acls[target]),
            passed=shortest_ways(acls_in([self.books[source]]), here),
            shared=frozenset(b for other in others for b in book.acls_of(ClusterId(other))),
        )
        none = NameFilter(())
        rule = FlowRule("all", NameFilter((".*",)), NameFilter((".*",)), Naming.PREFIX)
        flow = Flow(Link(ClusterAlias(source), ClusterAlias(target)), (rule,), none)
        ours, crossings = book.acls_of(ClusterId(source)), [Crossings(flow, (), ())] * 3
        edits = acl_edits(self.policy, seen, ours, *crossings)
        for step, binding, origins in edits:
            self.history.append((step, target))
            entry = CatalogAcl(ClusterId(source), binding, origins)
            book.learn(entry if step in {AclStep.ADD, AclStep.NOTE} else Removed(b"", None, entry))
            if step is AclStep.ADD:
                self.acls[target].add(binding)
            elif step is AclStep.REMOVE:
                self.acls[target].discard(binding)
        return len(edits)

    def settle(self, dice: random.Random) -> None:
        """Looks in any order, each link once a round, until nothing is left to do."""
        for _ in range(LOOKS):
            if not sum(self.look(link) for link in dice.sample(self.links, len(self.links))):
                return
        raise AssertionError(f"still at it after {LOOKS} rounds: {self.history[-20:]}")

    def having(self, binding: AclBinding) -> str:
        return "".join(sorted(name for name, acls in self.acls.items() if binding in acls))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("links", [RING, MESH, MESH_OF_FOUR], ids=["ring", "mesh", "mesh of four"])
def test_what_is_taken_back_where_it_was_given_goes_everywhere_and_never_comes_back(
    links: tuple[str, ...], seed: int
) -> None:
    world, dice = World(links, AclPolicy.MIRROR), random.Random(seed)
    world.acls["A"].add(READ)
    world.settle(dice)
    everywhere = world.having(READ)

    world.acls["A"].discard(READ)
    world.settle(dice)

    assert (everywhere, world.having(READ)) == ("".join(sorted(world.acls)), "")
    assert (AclStep.ADD, "A") not in world.history
    assert not any(book.acls_of(ClusterId(name)) for book in world.books.values() for name in "ABC")


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("links", [RING, MESH], ids=["ring", "mesh"])
def test_where_nothing_is_taken_back_it_is_not_given_again_either(
    links: tuple[str, ...], seed: int
) -> None:
    world, dice = World(links, AclPolicy.ADD), random.Random(seed)
    world.acls["A"].add(READ)
    world.settle(dice)

    world.acls["A"].discard(READ)
    world.settle(dice)

    assert world.having(READ) == "BC"


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("links", [RING, MESH], ids=["ring", "mesh"])
def test_what_two_clusters_gave_stays_until_both_have_taken_it_back(
    links: tuple[str, ...], seed: int
) -> None:
    world, dice = World(links, AclPolicy.MIRROR), random.Random(seed)
    world.acls["A"].add(READ)
    world.acls["B"].add(READ)
    world.settle(dice)
    world.acls["A"].discard(READ)
    world.settle(dice)
    while_one_has_it = world.having(READ)

    world.acls["B"].discard(READ)
    world.settle(dice)

    assert (while_one_has_it, world.having(READ)) == ("ABC", "")


def test_a_right_follows_a_chain_of_copies_to_its_end() -> None:
    world = World(("AB", "BC"), AclPolicy.MIRROR)
    world.acls["A"].add(READ)

    world.settle(random.Random(0))

    assert world.having(READ) == "ABC"


@pytest.mark.parametrize("seed", range(10))
def test_a_denial_that_another_source_has_still_is_never_away(seed: int) -> None:
    world, dice = World(("AC", "BC"), AclPolicy.MIRROR), random.Random(seed)
    world.acls["A"].add(DENIED)
    world.acls["B"].add(DENIED)
    world.settle(dice)

    world.acls["A"].discard(DENIED)
    world.settle(dice)
    with_one = world.having(DENIED)
    world.acls["B"].discard(DENIED)
    world.settle(dice)

    assert (with_one, world.having(DENIED)) == ("BC", "")
    assert [step for step, _ in world.history].count(AclStep.REMOVE) == 1
