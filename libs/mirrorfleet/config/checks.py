"""Checks that need more than one part of the estate; each gives (path, message). No I/O."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from mirrorfleet.config.flows import flow_of
from mirrorfleet.config.model import Estate, EstateLink
from mirrorfleet.core.ids import Link
from mirrorfleet.policy.acls import PROCESSES
from mirrorfleet.policy.claims import provable_clashes
from mirrorfleet.policy.cycles import Leg
from mirrorfleet.policy.flows import AclPolicy

_Found = tuple[str, str]


def estate_problems(estate: Estate) -> Iterator[_Found]:
    """All of them, in file order; clashes of rules only when the links are sound."""
    yield from _services(estate)
    found = list(_links(estate))
    yield from found
    if not found:
        yield from _clashes(estate)


def _services(estate: Estate) -> Iterator[_Found]:
    """Tuning that no service would ever read: it would run with its defaults, and say nothing."""
    for name in estate.services:
        if name not in set(PROCESSES):
            yield f"services.{name}", f"{name!r} is no service; {_nearest(name, PROCESSES)}"


def _links(estate: Estate) -> Iterator[_Found]:
    seen: dict[Link, int] = {}
    for number, entry in enumerate(estate.links):
        path = f"links[{number}]"
        unknown = list(_unknown_aliases(estate, entry, path))
        yield from unknown
        if not unknown:
            yield from _same_ends(estate, entry, path)
            yield from _same_cluster(estate, number, path)
            yield from _unknown_principal(estate, entry, path)
        if entry.link in seen:
            other = seen[entry.link]
            yield path, f"{entry.link} is links[{other}] already; put its rules there"
        seen.setdefault(entry.link, number)
        yield from _rule_names(entry, path)


def _unknown_aliases(estate: Estate, entry: EstateLink, path: str) -> Iterator[_Found]:
    for key, alias in (("from", entry.source), ("to", entry.target)):
        if alias not in estate.clusters:
            hint = _nearest(alias, list(estate.clusters))
            yield f"{path}.{key}", f"{alias!r} is no cluster of the estate; {hint}"


def _nearest(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {str(near[0])!r}" if near else "known: " + ", ".join(known)


def _same_ends(estate: Estate, entry: EstateLink, path: str) -> Iterator[_Found]:
    if entry.source == entry.target:
        yield path, f"{entry.source!r} cannot be copied into itself"
        return
    shared = _shared_address(estate, *entry.link)
    if shared is not None:
        ends = f"{entry.source!r} and {entry.target!r} have the same bootstrap {shared}"
        yield path, f"{ends}: that is one cluster under two names"


def _same_cluster(estate: Estate, number: int, path: str) -> Iterator[_Found]:
    """Two targets that are one would each get every record; two sources that are one, too."""
    entry = estate.links[number]
    for other in estate.links[:number]:
        pairs = [("to", entry.target, other.target)]
        if entry.target == other.target:
            pairs.append(("from", entry.source, other.source))
        for key, alias, twin in pairs:
            shared = _shared_address(estate, alias, twin) if alias != twin else None
            if shared is not None:
                ends = f"{twin!r} and {alias!r} have the same bootstrap {shared}"
                yield f"{path}.{key}", f"{ends}: that is one cluster under two names"
                return


def _shared_address(estate: Estate, *aliases: str) -> str | None:
    """An address that all these clusters have; None when there is none, or one is unknown."""
    if not estate.clusters.keys() >= set(aliases):
        return None
    shared = set.intersection(*(set(estate.clusters[alias].bootstrap) for alias in aliases))
    return min(shared, default=None)


def _unknown_principal(estate: Estate, entry: EstateLink, path: str) -> Iterator[_Found]:
    """A denial of our own that crossed would stop us at the target."""
    if entry.acls is AclPolicy.IGNORE:
        return
    for alias in entry.link:
        if estate.clusters[alias].security.acl_principal is None:
            why = f"only {alias!r} knows whom our certificate or token means"
            what = f"write clusters.{alias}.security.username: our name in its ACLs, without User:"
            yield f"{path}.acls", f"{entry.acls} must leave out our own ACLs, and {why}; {what}"


def _rule_names(entry: EstateLink, path: str) -> Iterator[_Found]:
    seen: dict[str, int] = {}
    for number, rule in enumerate(entry.rules):
        if rule.name in seen:
            other = f"rules[{seen[rule.name]}]"
            yield f"{path}.rules[{number}].name", f"{rule.name!r} is the name of {other} already"
        seen.setdefault(rule.name, number)


def _clashes(estate: Estate) -> Iterator[_Found]:
    for proof in provable_clashes([flow_of(estate, entry) for entry in estate.links]):
        yield _path_of(estate, proof.legs[-1]), str(proof)


def _path_of(estate: Estate, leg: Leg) -> str:
    for number, entry in enumerate(estate.links):
        names = [rule.name for rule in entry.rules]
        if entry.link == leg.link and leg.rule in names:
            return f"links[{number}].rules[{names.index(leg.rule)}].topics"
    return "links"
