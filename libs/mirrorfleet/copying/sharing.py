"""Who gets which slots: decided by one member of the group for all, from what each one claims.

    claims (generation, slots held) -> keep what one holds -> give away the rest -> even out

Sticky, as KIP-54: a slot moves only when its owner is gone or holds two more than another.
A claim of an older generation loses: a member that slept is no owner any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.records.members import Claim, Slots


class Share(NamedTuple):
    """What a member gets. `handed` come from a member that lives, which releases them first."""

    slots: Slots
    handed: Slots


def share(claims: Mapping[str, Claim]) -> dict[str, Share]:
    """Each member's share of all slots that somebody knows; the same input, the same answer.

    Slots with something to copy are evened out by themselves, so that nobody gets only idle ones.
    Who leaves keeps nothing, unless all do.
    """
    before = _owners(claims)
    none: Slots = frozenset()
    busy = none.union(*(one.busy for one in claims.values()))
    idle = none.union(*(one.known for one in claims.values())) - busy
    after = dict.fromkeys(sorted(claims), none)
    staying = [member for member in after if not claims[member].leaving] or list(after)
    for part in (busy, idle):
        for member, slots in _evened(part, before, staying).items():
            after[member] |= slots
    return {
        member: Share(
            slots, frozenset(slot for slot in slots if before.get(slot, member) != member)
        )
        for member, slots in after.items()
    }


def _evened(
    slots: Slots, before: Mapping[SlotNumber, str], members: Sequence[str]
) -> dict[str, set[SlotNumber]]:
    after: dict[str, set[SlotNumber]] = {member: set() for member in members}
    kept = {slot for slot in slots if before.get(slot) in after}
    for slot in kept:
        after[before[slot]].add(slot)
    for slot in sorted(slots - kept):
        after[_least(after)].add(slot)
    while after:
        most, least = max(after, key=lambda member: len(after[member])), _least(after)
        if len(after[most]) - len(after[least]) <= 1:
            break
        moved = max(after[most])
        after[most].remove(moved)
        after[least].add(moved)
    return after


def _owners(claims: Mapping[str, Claim]) -> dict[SlotNumber, str]:
    """The owner of each claimed slot: the claim of the highest generation."""
    found: dict[SlotNumber, str] = {}
    for member in sorted(claims, key=lambda name: (claims[name].generation, name)):
        found.update(dict.fromkeys(claims[member].held, member))
    return found


def _least(after: Mapping[str, set[SlotNumber]]) -> str:
    return min(after, key=lambda member: len(after[member]))
