"""What members of a fleet's group tell each other: claims when they join, shares when it is formed.

They travel as user data of Kafka's consumer protocol, so the group looks like any other to
`kafka-consumer-groups.sh`. A member of another build is understood or counts as one without claims.

    claim  {"v":1,"generation":7,"held":[0,2],"known":[0,1,2,3],"busy":[0,3],"leaving":false,
           "loads":{"0":120000},       bytes a second that were measured, of slots held for a while
           "level":1,
           "away":[1],                 known ones whose source does not answer this member
           "diverted":[2]}             held ones that go on without some partition
    share  {"v":1,"handed":[2]}        the slots themselves are the assigned partitions
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.records.formats import FIRST_LEVEL, KNOWN_LEVEL
from mirrorfleet.records.jsonvalue import Fields, to_json

VERSION: Final = 1
_LENGTH: Final = struct.Struct(">h")
_COUNT: Final = struct.Struct(">i")
Slots = frozenset[SlotNumber]
Loads = Mapping[SlotNumber, int]
NO_LOADS: Final[Loads] = MappingProxyType({})
NO_SLOTS: Final[Slots] = frozenset()


class Known(NamedTuple):
    """Slots as a member knows them: all; those that it can copy something of; and `away`, those
    that have something to copy, from a source that it does not reach.
    """

    slots: Slots
    busy: Slots
    away: Slots = NO_SLOTS


class Carried(NamedTuple):
    """What is known of the slots that a member holds: bytes a second, of those that were measured
    for long enough; and which are `diverted`, so that they go on without some partition.
    """

    loads: Loads = NO_LOADS
    diverted: Slots = NO_SLOTS


class Claim(NamedTuple):
    """What a member brings to a rebalance: its slots as of `generation`, and all that it knows.

    `busy` are the known slots that have something to copy from a source that the member reaches,
    `away` those whose source it does not reach. Who is `leaving` wants no slots. `loads` are bytes
    a second, of those held slots that were measured for long enough.
    """

    generation: int
    held: Slots
    known: Slots
    busy: Slots
    leaving: bool = False
    loads: Loads = NO_LOADS
    level: int = KNOWN_LEVEL
    """Newest format level that the member's build knows (`records.formats`)."""
    away: Slots = NO_SLOTS
    diverted: Slots = NO_SLOTS
    """Held slots that go on with their spare id: whoever takes one waits with all of it."""


def encode_claim(claim: Claim) -> bytes:
    """The user data of a JoinGroup."""
    values = {
        "v": VERSION,
        "generation": claim.generation,
        "held": sorted(claim.held),
        "known": sorted(claim.known),
        "busy": sorted(claim.busy),
        "leaving": claim.leaving,
        "loads": {str(slot): load for slot, load in sorted(claim.loads.items())},
        "level": claim.level,
        "away": sorted(claim.away),
        "diverted": sorted(claim.diverted),
    }
    return to_json(values)


def decode_claim(data: bytes) -> Claim:
    """The claim. Raises: UnknownVersionError, CorruptBatchError."""
    found = Fields.parse(data, "claim")
    found.check_version(VERSION)
    held, known, busy = (_slots(found.integers(name)) for name in ("held", "known", "busy"))
    level = found.maybe_integer("level") or FIRST_LEVEL  # builds before it knew the first only
    generation, leaving = found.integer("generation"), found.flag("leaving")
    away, diverted = (_maybe_slots(found, name) for name in ("away", "diverted"))
    return Claim(generation, held, known, busy, leaving, _loads(found), level, away, diverted)


def claim_brought(data: bytes) -> Claim:
    """The claim in what a member joined with: Kafka's ConsumerProtocolSubscription.

    version i16 | topics [i16 length, name] with an i32 count | user data with an i32 length | ...
    Raises: UnknownVersionError, CorruptBatchError.
    """
    try:
        (count,) = _COUNT.unpack_from(data, _LENGTH.size)
        at = _LENGTH.size + _COUNT.size
        for _ in range(count):
            at += _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
        (size,) = _COUNT.unpack_from(data, at)
    except struct.error as error:
        raise CorruptBatchError("a member's subscription is cut short") from error
    at += _COUNT.size
    return decode_claim(data[at : at + size])


def encode_handed(handed: Slots) -> bytes:
    """The user data of an assignment: which of its slots a living member gives away."""
    return to_json({"v": VERSION, "handed": sorted(handed)})


def decode_handed(data: bytes) -> Slots:
    """Raises: UnknownVersionError, CorruptBatchError."""
    found = Fields.parse(data, "share")
    found.check_version(VERSION)
    return _slots(found.integers("handed"))


def _loads(found: Fields) -> Loads:
    values = found.values.get("loads", {})
    if not isinstance(values, dict):
        raise CorruptBatchError("claim: loads are no JSON object")
    loads = Fields(values, "claim's loads")
    try:
        measured = {SlotNumber(int(name)): loads.integer(name) for name in values}
    except ValueError as error:
        raise CorruptBatchError(f"claim: a load of no slot: {error}") from error
    if any(load < 0 for load in measured.values()):
        raise CorruptBatchError(f"claim: a load below zero in {measured}")
    return measured


def _maybe_slots(found: Fields, name: str) -> Slots:
    """None of a build that does not tell."""
    return NO_SLOTS if found.values.get(name) is None else _slots(found.integers(name))


def _slots(numbers: Iterable[int]) -> Slots:
    return frozenset(SlotNumber(number) for number in numbers)
