"""Slots are given out evenly and never taken back."""

from __future__ import annotations

from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.planning.slot_load import SlotLoad, slots_of_link


def numbers(*values: int) -> list[SlotNumber]:
    return [SlotNumber(value) for value in values]


def test_the_least_loaded_slot_is_next_and_the_lowest_of_equals() -> None:
    load = SlotLoad(numbers(4, 5, 6), numbers(4, 4, 5))

    assert [load.assign() for _ in range(5)] == [6, 5, 6, 4, 5]


def test_partitions_in_slots_of_other_links_do_not_count() -> None:
    assert SlotLoad(numbers(0, 1), numbers(0, 7, 7)).assign() == 1


def test_the_first_link_begins_at_0_and_the_next_one_after_it() -> None:
    first = slots_of_link((), 3, ())

    assert first == (0, 1, 2)
    assert slots_of_link((), 2, first) == (3, 4)


def test_a_link_that_grows_keeps_its_slots_and_takes_the_next_free_numbers() -> None:
    assert slots_of_link(numbers(0, 1), 4, numbers(2, 3)) == (0, 1, 4, 5)


def test_a_link_never_loses_a_slot() -> None:
    assert slots_of_link(numbers(0, 1, 2), 1, ()) == (0, 1, 2)
