"""Who gets which slots: decided by one member of the group for all, from what each one claims.

    claims (generation, slots held, bytes a second) -> keep what one holds and can copy
    -> give away the rest, the heaviest first, to who can -> even out

Sticky, as KIP-54: a slot moves only when its owner is gone, or when that takes a fair part of the
load from the busiest. Load is measured bytes; of slots that nobody measured a usual one is
supposed, and where nothing was measured each slot counts the same. Who does not reach the source
of a slot has it among those that it knows and not among its busy ones, and does not get it. One
that nobody reaches stays where it is, and so does one that goes on without some partition: only its
owner can, and whoever takes it waits until all is well. A claim of an older generation loses: a
member that slept is no owner any more.

Weights are whole numbers. Each move then makes the sum of the members' squared loads smaller, so
moving ends; with fractions 7.7 + 7.7 + 7.7 is more than 7.7 above 7.7 + 7.7, and one slot would go
to and fro for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.records.members import Claim, Loads, Slots

FAIR: Final = 0.1
"""Of the usual load of a member: members that differ by less are even, and nothing moves."""
IDLE: Final = 10
"""One part in so many of the usual load of a slot: so much more does each count, as one without
traffic may get some."""
DRIFT: Final = 0.5
"""Of a member's load: when it changed by so much since it was shared out, it is shared out anew."""
LEAST_DRIFT: Final = 1 << 20
"""Bytes a second; less is not worth a rebalance."""


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
    fixed = _fixed(claims, {slot: one for slot, one in before.items() if one in staying}, busy)
    for part in (busy, idle):
        able = {slot: _able(slot, staying, claims) if part is busy else staying for slot in part}
        kept = {
            slot: before[slot] for slot in part if before.get(slot) in able[slot] or slot in fixed
        }
        evening = _Evening(staying, _weights(part, claims, before), kept, able, fixed)
        for member, slots in evening.done().items():
            after[member] |= slots
    return {
        member: Share(
            slots, frozenset(slot for slot in slots if before.get(slot, member) != member)
        )
        for member, slots in after.items()
    }


def has_drifted(claimed: Loads, now: Loads) -> bool:
    """Whether what a member carries is so different from what it claimed that others should know.

    So is a slot that had not been measured, as none is when all workers start together. One that
    is measured no more has another owner, who tells.
    """
    before = sum(load for slot, load in claimed.items() if slot in now)
    after = sum(now.values())
    return abs(after - before) > max(DRIFT * max(before, after), LEAST_DRIFT)


class _Evening:
    """The slots of each member, while they are given away and evened out."""

    def __init__(
        self,
        members: Iterable[str],
        weights: Mapping[SlotNumber, int],
        kept: Mapping[SlotNumber, str],
        able: Mapping[SlotNumber, Collection[str]],
        fixed: Slots,
    ) -> None:
        """`able`: who can copy a slot; somebody, of each. `fixed`: what of `kept` does not move."""
        self._weights, self._able, self._fixed = weights, able, fixed
        self._slots: dict[str, set[SlotNumber]] = {member: set() for member in members}
        for slot, member in kept.items():
            self._slots[member].add(slot)
        for slot in sorted(weights.keys() - kept.keys(), key=lambda one: (-weights[one], one)):
            self._slots[min(able[slot], key=self._load)].add(slot)

    def done(self) -> dict[str, set[SlotNumber]]:
        """Move slots from the busiest to the idlest until they are even, or no slot is so light."""
        even = FAIR * sum(self._weights.values()) / max(len(self._slots), 1)
        while move := next(self._moves(even), None):
            slot, most, least = move
            self._slots[most].remove(slot)
            self._slots[least].add(slot)
        return self._slots

    def _moves(self, even: float) -> Iterator[tuple[SlotNumber, str, str]]:
        """Which slot to move, from whom, to whom; from the busiest to the idlest where it can be.

        Not one that would only have them change places: loads are never measured alike twice.
        """
        by_load = sorted(self._slots, key=self._load)
        for most in sorted(self._slots, key=self._load, reverse=True):
            movable = self._slots[most] - self._fixed
            for least in by_load:
                gap = self._load(most)[0] - self._load(least)[0]
                if gap <= even:
                    break
                light = [
                    slot
                    for slot, weight in self._weights.items()
                    if slot in movable and least in self._able[slot]
                    if 2 * (gap - weight) >= min(even, weight)
                ]
                if light:
                    fit = min(light, key=lambda one: (abs(gap - 2 * self._weights[one]), -one))
                    yield fit, most, least

    def _load(self, member: str) -> tuple[int, int]:
        slots = self._slots[member]
        return sum(self._weights[slot] for slot in slots), len(slots)


def _able(
    slot: SlotNumber, members: Collection[str], claims: Mapping[str, Claim]
) -> Collection[str]:
    """Who reaches the source of a slot, or has not heard of it yet; everybody when nobody does."""
    found = [
        member
        for member in members
        if slot in claims[member].busy or slot not in claims[member].known
    ]
    return found or members


def _fixed(claims: Mapping[str, Claim], owners: Mapping[SlotNumber, str], busy: Slots) -> Slots:
    """What stays with its owner: slots that go on without some partition, as only an owner can, and
    those whose source nobody reaches, so that nobody is better.
    """
    away = {slot for one in claims.values() for slot in one.away} - busy
    return frozenset(
        slot for slot, owner in owners.items() if slot in claims[owner].diverted or slot in away
    )


def _weights(
    slots: Slots, claims: Mapping[str, Claim], owners: Mapping[SlotNumber, str]
) -> dict[SlotNumber, int]:
    """What each slot counts: its bytes a second, of an unmeasured one those of a usual one."""
    measured = {
        slot: claims[owner].loads[slot]
        for slot, owner in owners.items()
        if slot in slots and slot in claims[owner].loads
    }
    usual = sum(measured.values()) // max(len(measured), 1)
    at_least = max(usual // IDLE, 1)
    return {slot: at_least + measured.get(slot, usual) for slot in slots}


def _owners(claims: Mapping[str, Claim]) -> dict[SlotNumber, str]:
    """The owner of each claimed slot: the claim of the highest generation."""
    found: dict[SlotNumber, str] = {}
    for member in sorted(claims, key=lambda name: (claims[name].generation, name)):
        found.update(dict.fromkeys(claims[member].held, member))
    return found
