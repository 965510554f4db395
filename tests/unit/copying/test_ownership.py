"""A slot is kept through rebalances, handed over in two steps, and never taken back by force."""

from __future__ import annotations

import pytest

from mirrorfleet.copying.ownership import PATIENCE_S, End, Ownership, Standing, Steps
from mirrorfleet.copying.sharing import Share
from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.records.members import Slots
from tests.unit.copying.making import slots

ONE, TWO = SlotNumber(1), SlotNumber(2)
NONE: Slots = frozenset()


@pytest.fixture
def ours() -> Ownership:
    """Holds slots 1 and 2."""
    made = Ownership()
    made.given(Share(slots(1, 2), NONE), 100.0)
    assert made.steps(100.0) == Steps((ONE, TWO), ())
    return made


def test_slots_of_nobody_begin_at_once(ours: Ownership) -> None:
    assert ours.with_standing(Standing.HELD) == (ONE, TWO)
    assert ours.steps(101.0) == Steps((), ())


def test_a_rebalance_does_not_touch_what_is_kept(ours: Ownership) -> None:
    ours.given(Share(slots(1, 2), NONE), 101.0)
    assert ours.steps(101.0) == Steps((), ())


def test_what_is_not_given_again_ends_and_is_forgotten(ours: Ownership) -> None:
    ours.given(Share(slots(1), NONE), 101.0)
    assert ours.steps(101.0) == Steps((), (TWO,))
    assert ours.standing(TWO) is Standing.LEAVING
    ours.ended(TWO, End.DRAINED)
    assert ours.standing(TWO) is None


def test_a_slot_of_a_living_owner_begins_when_it_is_released() -> None:
    heir = Ownership()
    heir.given(Share(slots(1, 2), slots(1, 2)), 100.0)
    assert heir.steps(100.1) == Steps((), ())
    heir.released(TWO)
    assert heir.steps(100.2) == Steps((TWO,), ())


def test_a_slot_that_is_not_released_begins_after_two_seconds() -> None:
    heir = Ownership()
    heir.given(Share(slots(1), slots(1)), 100.0)
    assert heir.next_at() == 100.0 + PATIENCE_S == 102.0
    assert heir.steps(101.9) == Steps((), ())
    assert heir.steps(102.0) == Steps((ONE,), ())


def test_a_later_generation_does_not_make_the_wait_longer() -> None:
    heir = Ownership()
    heir.given(Share(slots(1), slots(1)), 100.0)
    heir.given(Share(slots(1), slots(1)), 101.5)
    assert heir.steps(102.0) == Steps((ONE,), ())


def test_a_slot_that_another_one_fenced_waits_for_the_coordinators_word(ours: Ownership) -> None:
    ours.ended(ONE, End.FENCED)
    assert ours.standing(ONE) is Standing.DROPPED
    ours.given(Share(slots(1, 2), NONE), 101.0)
    assert ours.steps(500.0) == Steps((), ())
    ours.confirmed([ONE])
    assert ours.steps(500.0) == Steps((ONE,), ())


def test_a_dropped_slot_that_went_to_another_worker_is_forgotten(ours: Ownership) -> None:
    ours.ended(ONE, End.FENCED)
    ours.given(Share(slots(2), NONE), 101.0)
    assert ours.standing(ONE) is None
    assert ours.steps(500.0) == Steps((), ())


def test_a_sleeper_that_is_handed_its_slot_again_ends_the_old_run_first(ours: Ownership) -> None:
    ours.given(Share(slots(1, 2), slots(1)), 200.0)
    assert ours.steps(200.0) == Steps((), (ONE,))
    assert ours.standing(ONE) is Standing.RETURNING
    ours.ended(ONE, End.FENCED)
    ours.confirmed([ONE])
    assert ours.steps(201.9) == Steps((), ())
    ours.released(ONE)
    assert ours.steps(201.9) == Steps((ONE,), ())


def test_a_slot_that_comes_back_while_it_drains_begins_again_after_that(ours: Ownership) -> None:
    ours.given(Share(slots(1), NONE), 101.0)
    ours.given(Share(slots(1, 2), NONE), 101.2)
    assert ours.steps(101.2) == Steps((), (TWO,))
    ours.ended(TWO, End.DRAINED)
    assert ours.steps(101.3) == Steps((TWO,), ())


def test_a_run_that_ended_by_itself_is_not_ended_again(ours: Ownership) -> None:
    """It is fenced while the coordinator is asked about another one: between share and steps."""
    ours.ended(ONE, End.FENCED)
    ours.given(Share(slots(1, 2), slots(1, 2)), 200.0)
    ours.ended(TWO, End.FENCED)
    assert ours.steps(200.0) == Steps((), ())
    assert ours.standing(TWO) is Standing.DROPPED
