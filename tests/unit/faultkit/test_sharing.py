"""Workers share bytes, so the slots of two that share all are not always the same number."""

from __future__ import annotations

import pytest

from tests.versions.kit import SLOTS, is_shared

COPYING = "copying"


@pytest.mark.parametrize("shares", [[8], [4, 4], [3, 5], [5, 3], [3, 3, 2]])
def test_all_slots_in_fair_parts_are_shared(shares: list[int]) -> None:
    assert is_shared([[COPYING] * share for share in shares])


@pytest.mark.parametrize("shares", [[7], [2, 6], [0, 8], [4, 3], [6, 1, 1], [4, 5]])
def test_a_worker_with_too_little_or_a_slot_that_nobody_or_two_copy_are_not(
    shares: list[int],
) -> None:
    assert not is_shared([[COPYING] * share for share in shares])


def test_a_slot_that_is_still_being_taken_is_not_shared() -> None:
    assert not is_shared([[COPYING] * 4, [COPYING] * (SLOTS - 5) + ["fencing"]])
