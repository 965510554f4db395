"""Which ACLs must be added to and removed from a target. No I/O.

Only ACLs that the fleet added itself (the catalog remembers them) are ever removed: one that an
operator gave on the target stays, also when the source has no such thing. And none is removed
because one look did not see its topic, or while another source of the fleet has it: a denial must
not be away for a moment. Nor are the rights of the user that the fleet is now: they may have come
over before it was that user. A broker that lags does not know an ACL yet, at either end: what is
taken back is left to who knows how long all looks have said so.

Names of groups stay the same on every cluster, so that an ACL could come back to where it was just
taken back. Therefore each is remembered with the clusters that it passed, and never goes to one of
them; one that every way brought from the target is there by the target's own word only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from mirrorfleet.core.access import AclBinding, AclPattern, AclPermission, show
from mirrorfleet.core.ids import ClusterId
from mirrorfleet.planning.observed import AclsSeen
from mirrorfleet.policy.crossing import Crossings, is_wide
from mirrorfleet.policy.flows import AclPolicy

Way = tuple[ClusterId, ...]
"""Clusters that an ACL passed, nearest first."""


class AclStep(StrEnum):
    """What is done with an ACL."""

    ADD = "add"
    REMOVE = "remove"
    NOTE = "note"
    """It is there, and this source has it, too: the catalog remembers so, and what it passed."""
    FORGET = "forget"
    """It is gone already, or stays for another source or for the fleet itself; the catalog need not
    remember it.
    """


class AclEdit(NamedTuple):
    """One ACL of the target."""

    step: AclStep
    binding: AclBinding
    origins: Way = ()

    def __str__(self) -> str:
        return show(self.binding)

    @property
    def takes_back(self) -> bool:
        """Whether nobody wants the ACL any more for this source, as far as one look tells."""
        return self.step in {AclStep.REMOVE, AclStep.FORGET}


def acl_edits(
    policy: AclPolicy,
    seen: AclsSeen,
    ours: Mapping[AclBinding, Way],
    crossings: Crossings,
    unsure: Crossings,
    ended: Crossings,
) -> tuple[AclEdit, ...]:
    """The edits, denials first: a right is never there before what limits it.

    `ours` are the ACLs of the target that the catalog remembers for this link; `unsure` is about
    topics that this look does not decide: what may be wanted for them is kept, not added. `ended`
    is about copies that are there and that nobody follows now. What the source denies of these is
    wanted as long as a right that is wider than the topic would give it.
    """
    if policy is AclPolicy.IGNORE or seen.trouble:
        return ()
    wanted = _wanted(seen, crossings)
    wanted |= _denied_within(seen, ended, wanted)
    edits = [AclEdit(AclStep.ADD, each, wanted[each]) for each in wanted.keys() - seen.target]
    edits += [
        AclEdit(AclStep.NOTE, each, wanted[each])
        for each in wanted.keys() & seen.target & (ours.keys() | seen.shared)
        if ours.get(each) != wanted[each]
    ]
    if policy is AclPolicy.MIRROR:
        stays = unsure.of(seen.source - _echoes(seen))
        for binding in ours.keys() - wanted.keys() - stays:
            stays_there = binding in seen.shared or crossings.is_about_us(binding)
            goes = binding in seen.target and not stays_there
            edits.append(AclEdit(AclStep.REMOVE if goes else AclStep.FORGET, binding))
    return tuple(sorted(edits, key=_order))


def shortest_ways(
    ways: Mapping[AclBinding, Iterable[Way]], target: ClusterId
) -> dict[AclBinding, Way | None]:
    """Of each ACL that fleets put on a source the shortest way that did not pass `target`, if any.

    The ways of one source; the first cluster of each is where the ACL came from last.
    """
    return {
        binding: min((way for way in each if target not in way), key=_length, default=None)
        for binding, each in ways.items()
    }


def _wanted(seen: AclsSeen, crossings: Crossings) -> dict[AclBinding, Way]:
    """What should hold on the target, with what it passed before it came to the source."""
    wanted: dict[AclBinding, Way] = {}
    for binding in seen.source - _echoes(seen):
        way = seen.passed.get(binding) or ()
        for made in crossings.of((binding,)):
            wanted[made] = min(wanted.get(made, way), way, key=_length)
    return wanted


def _denied_within(
    seen: AclsSeen, left: Crossings, wanted: Mapping[AclBinding, Way]
) -> dict[AclBinding, Way]:
    """What the source denies of copies that are left, where a wider right gives it."""
    rights = [one for one in wanted if one.permission is AclPermission.ALLOW and is_wide(one)]
    return {
        made: way
        for made, way in _wanted(seen, left).items()
        if made.permission is AclPermission.DENY and made not in wanted and _is_within(made, rights)
    }


def _is_within(denial: AclBinding, rights: Iterable[AclBinding]) -> bool:
    """Whether one of these rights, each to more than one topic, is about this one, too."""
    return any(
        each.resource is denial.resource
        and (each.pattern is AclPattern.LITERAL or denial.name.startswith(each.name))
        for each in rights
    )


def _echoes(seen: AclsSeen) -> set[AclBinding]:
    """ACLs of the source that are there because our target has, or had, them."""
    return {binding for binding, way in seen.passed.items() if way is None}


def _length(way: Way) -> tuple[int, Way]:
    return len(way), way


def _order(edit: AclEdit) -> tuple[bool, int, AclBinding]:
    return edit.step is not AclStep.ADD, edit.binding.permission, edit.binding
