"""Positions and barriers: exact bytes, and versions that stop us."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.errors import CorruptBatchError, UnknownVersionError
from mirrorfleet.core.ids import ProducerIdentity, SourceOffset, TargetOffset
from mirrorfleet.records.positions import (
    BARRIER_KEY,
    FENCE_KEY,
    RELEASE_KEY,
    SNAPSHOT_KEY,
    Barrier,
    Fence,
    Lifted,
    Position,
    PositionFault,
    Released,
    RemovedPosition,
    Snapshot,
    decode,
    encode,
)
from tests.unit.records.making import identity

POSITION = Position(
    identity=identity(3),
    next_source=SourceOffset(1000),
    leader_epoch=4,
    next_target=TargetOffset(1010),
    records=990,
    bytes=123_456,
    time_ms=1_790_000_000_000,
)
KEY = "0150" + "00" + "000102030405060708090a0b0c0d0e0f" + "11" * 16 + "22" * 16 + "03" + "00"
VALUE = "01" + "00" + "e807" + "05" + "14" + "de07" + "c0c407" + "80d8c1a28c34"


def test_a_position_has_these_bytes() -> None:
    key, value = encode(POSITION)
    assert key.hex() == KEY
    assert value is not None
    assert value.hex() == VALUE


def test_these_bytes_are_that_position() -> None:
    assert decode(bytes.fromhex(KEY), bytes.fromhex(VALUE)) == POSITION


def test_a_large_position_stays_under_80_bytes() -> None:
    large = replace(
        POSITION,
        next_source=SourceOffset(10**10),
        next_target=TargetOffset(10**10 + 10**7),
        records=10**10,
        bytes=10**13,
    )
    key, value = encode(large)
    assert (len(key), len(value or b"")) == (53, 30)
    assert decode(key, value) == large


def test_an_unknown_epoch_and_a_smaller_target_are_kept() -> None:
    odd = replace(POSITION, leader_epoch=-1, next_target=TargetOffset(2))
    assert decode(*encode(odd)) == odd


def test_a_fault_is_stored_with_its_position() -> None:
    fault = PositionFault(SourceOffset(1000), "record-too-large", "2000000 bytes > 1048588")
    faulted = replace(POSITION, fault=fault)
    assert decode(*encode(faulted)) == faulted


def test_a_barrier_has_one_key_a_slot() -> None:
    barrier = Barrier(owner="w1", producer=ProducerIdentity(4711, 3), time_ms=5)
    key, value = encode(barrier)
    assert key == BARRIER_KEY == b"\x01B"
    assert value == b"\x01\x02w1\xe7\x24\x03\x05"
    assert decode(key, value) == barrier


def test_a_release_has_one_key_a_slot() -> None:
    released = Released(owner="w1", generation=300, time_ms=5)
    key, value = encode(released)
    assert key == RELEASE_KEY == b"\x01R"
    assert value == b"\x01\x02w1\xac\x02\x05"
    assert decode(key, value) == released


def test_a_snapshot_has_one_key_a_slot() -> None:
    snapshot = Snapshot(count=300, time_ms=5)
    key, value = encode(snapshot)
    assert key == SNAPSHOT_KEY == b"\x01S"
    assert value == b"\x01\xac\x02\x05"
    assert decode(key, value) == snapshot


def test_the_fence_of_an_operator_has_one_key_a_slot_and_is_lifted_by_a_tombstone() -> None:
    fence = Fence(who="eve", reason="why", time_ms=5)
    key, value = encode(fence)
    assert key == FENCE_KEY == b"\x01F"
    assert value == b"\x01\x03eve\x03why\x05"
    assert decode(key, value) == fence
    assert encode(Lifted()) == (FENCE_KEY, None)
    assert decode(FENCE_KEY, None) == Lifted()


def test_a_tombstone_removes_an_identity() -> None:
    removed = RemovedPosition(identity(3))
    assert encode(removed) == (bytes.fromhex(KEY), None)
    assert decode(bytes.fromhex(KEY), None) == removed


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("02" + KEY[2:], VALUE),
        (KEY, "02" + VALUE[2:]),
        ("0151" + KEY[4:], VALUE),
        (KEY, "0102" + VALUE[4:]),
        ("0142", "02"),
        ("0152", "02"),
        ("0153", "02"),
        ("0146", "02"),
    ],
    ids=[
        "key version",
        "value version",
        "kind",
        "flags",
        "barrier version",
        "release version",
        "snapshot version",
        "fence version",
    ],
)
def test_what_a_newer_build_wrote_stops_us(key: str, value: str) -> None:
    with pytest.raises(UnknownVersionError, match="not known to this build"):
        decode(bytes.fromhex(key), bytes.fromhex(value))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, VALUE),
        ("", VALUE),
        ("0142", None),
        (KEY[:-2], VALUE),
        (KEY, VALUE[:-2]),
        (KEY, VALUE + "00"),
    ],
    ids=["no key", "empty key", "barrier tombstone", "short key", "short value", "long value"],
)
def test_damaged_records_are_damage(key: str | None, value: str | None) -> None:
    with pytest.raises(CorruptBatchError):
        decode(
            None if key is None else bytes.fromhex(key),
            None if value is None else bytes.fromhex(value),
        )
