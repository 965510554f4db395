"""Links that are no longer in the estate: what ends with them, and what keeps one of them. No I/O.

One that is gone may be one of the estate with another name. That one is refused once its source
answers, and named again as it was: nothing of it may end before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from mirrorfleet.planning.rules import Apply
from mirrorfleet.records.catalog import CatalogPartition, CatalogState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from mirrorfleet.core.ids import Link
    from mirrorfleet.planning.book import CatalogBook
    from mirrorfleet.syncing.side import Side


class Retired(NamedTuple):
    """`ends` is what the link copied, marked as removed; `may_be` are links of the estate, not met
    yet, of which one may be it.
    """

    ends: Sequence[CatalogPartition]
    may_be: Sequence[Link] = ()


def retired(
    book: CatalogBook, links: Collection[Link], unmet: Collection[Side]
) -> dict[Link, Retired]:
    """The links that are copied and are none of `links`; of these, `unmet` are not met yet."""
    gone: dict[Link, list[CatalogPartition]] = {}
    for entry in book.partitions.values():
        if entry.link not in links and entry.state is not CatalogState.REMOVED:
            gone.setdefault(entry.link, []).append(replace(entry, state=CatalogState.REMOVED))
    return {link: Retired(ends, _may_be(book, link, ends, unmet)) for link, ends in gone.items()}


def _may_be(
    book: CatalogBook, gone: Link, ends: Collection[CatalogPartition], unmet: Collection[Side]
) -> list[Link]:
    """An alias of another link of the catalog means another source, unless this one answered."""
    others = {entry.link.source for entry in book.links.values()} - {gone.source}
    clusters = {entry.identity.source_cluster for entry in ends}
    return [
        side.link
        for side in unmet
        if side.link.source not in others or side.source_cluster in clusters
    ]


def still_copied(found: Mapping[Link, Retired], apply: Apply) -> dict[Link, str]:
    """Which of these links go on for now, and why."""
    kept: dict[Link, str] = {}
    for link, one in found.items():
        why = ""
        if one.may_be:
            names = ", ".join(map(str, one.may_be))
            why = f"it may be one that is not met yet, under another name: {names}"
        elif apply is Apply.MANUAL:
            why = "it waits for `mirrorfleet apply`"
        if why:
            kept[link] = f"link {link} is not in the estate and is still copied, because {why}"
    return kept
