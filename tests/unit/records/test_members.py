"""What members tell each other is read back as it was said."""

from __future__ import annotations

import pytest

from mirrorfleet.core.errors import CorruptBatchError, UnknownVersionError
from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.records.members import (
    Claim,
    claim_brought,
    decode_claim,
    decode_handed,
    encode_claim,
    encode_handed,
)

HELD = frozenset({SlotNumber(2), SlotNumber(0)})
KNOWN = HELD | {SlotNumber(1)}


def test_a_claim_has_these_bytes_and_is_read_back() -> None:
    loads, one = {SlotNumber(2): 500}, frozenset({SlotNumber(2)})
    claim = Claim(7, HELD, KNOWN, HELD, leaving=True, loads=loads, away=KNOWN - HELD, diverted=one)
    data = encode_claim(claim)
    assert data == (
        b'{"v":1,"generation":7,"held":[0,2],"known":[0,1,2],"busy":[0,2],"leaving":true,'
        b'"loads":{"2":500},"level":2,"away":[1],"diverted":[2]}'
    )
    assert decode_claim(data) == claim


def test_a_claim_of_a_build_that_measured_nothing_is_read() -> None:
    data = b'{"v":1,"generation":7,"held":[0,2],"known":[0,1,2],"busy":[0,2],"leaving":false}'
    assert decode_claim(data) == Claim(7, HELD, KNOWN, HELD, level=1)


def test_a_claim_without_a_level_is_of_a_build_that_knew_the_first() -> None:
    data = b'{"v":1,"generation":7,"held":[],"known":[],"busy":[],"leaving":false}'
    assert decode_claim(data).level == 1


def test_a_claim_without_what_is_away_or_diverted_has_none_and_more_is_ignored() -> None:
    data = b'{"v":1,"generation":7,"held":[0,2],"known":[0,1,2],"busy":[0,2],"leaving":false'
    older = decode_claim(data + b"}")
    assert (older.away, older.diverted) == (frozenset(), frozenset())
    newer = decode_claim(data + b',"level":2,"away":[1],"diverted":[0,2],"more":[3]}')
    assert (newer.away, newer.diverted) == (KNOWN - HELD, HELD)
    for name in ("away", "diverted"):
        with pytest.raises(CorruptBatchError, match=name):
            decode_claim(data + f',"{name}":"east"}}'.encode())


def test_a_claim_is_found_in_what_a_member_joined_with() -> None:
    claim = Claim(7, HELD, KNOWN, HELD, level=3)
    user_data = encode_claim(claim)
    # version 0, one topic "slots", user data
    brought = b"\0\0" + b"\0\0\0\1" + b"\0\5slots" + len(user_data).to_bytes(4, "big") + user_data
    assert claim_brought(brought) == claim
    with pytest.raises(CorruptBatchError):
        claim_brought(brought[:9])
    with pytest.raises(CorruptBatchError):
        claim_brought(b"")


def test_what_is_handed_over_has_these_bytes_and_is_read_back() -> None:
    assert encode_handed(HELD) == b'{"v":1,"handed":[0,2]}'
    assert decode_handed(b'{"v":1,"handed":[0,2],"more":true}') == HELD


def test_a_claim_of_a_newer_build_is_not_guessed_at() -> None:
    with pytest.raises(UnknownVersionError):
        decode_claim(b'{"v":2,"generation":7,"held":[],"known":[],"busy":[]}')
    with pytest.raises(CorruptBatchError):
        decode_handed(b"")
    for loads in (b"[1]", b'{"x":1}', b'{"2":-1}'):
        with pytest.raises(CorruptBatchError, match="load"):
            decode_claim(
                b'{"v":1,"generation":7,"held":[],"known":[],"busy":[],"leaving":false,"loads":'
                + loads
                + b"}"
            )
