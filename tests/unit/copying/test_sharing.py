"""Slots stay where they are unless their owner is gone or has too many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorfleet.copying.sharing import Share, has_drifted, share
from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.records.members import Claim, Slots
from tests.unit.copying.making import slots


def claim(generation: int, held: Slots, known: Slots) -> Claim:
    return Claim(generation, held, known, known)


ALL = slots(0, 1, 2, 3, 4, 5, 6, 7)


def test_a_worker_alone_gets_all_slots_and_waits_for_nobody() -> None:
    assert share({"a": claim(-1, slots(), ALL)}) == {"a": Share(ALL, slots())}


def test_a_second_worker_is_handed_half_and_the_first_keeps_the_rest() -> None:
    found = share({"a": claim(1, ALL, ALL), "b": claim(-1, slots(), ALL)})
    assert found == {
        "a": Share(slots(0, 1, 2, 3), slots()),
        "b": Share(slots(4, 5, 6, 7), slots(4, 5, 6, 7)),
    }


def test_slots_of_a_dead_worker_go_to_the_others_at_once_and_no_other_slot_moves() -> None:
    found = share({"a": claim(5, slots(0, 1, 2), ALL), "c": claim(5, slots(6, 7), ALL)})
    assert found == {
        "a": Share(slots(0, 1, 2, 4), slots()),
        "c": Share(slots(3, 5, 6, 7), slots()),
    }


def test_a_worker_that_slept_owns_nothing_any_more_and_is_handed_slots_as_a_new_one() -> None:
    sleeper, heir = claim(3, slots(0, 1, 2, 3), ALL), claim(5, ALL, ALL)
    assert share({"a": sleeper, "b": heir}) == {
        "a": Share(slots(4, 5, 6, 7), slots(4, 5, 6, 7)),
        "b": Share(slots(0, 1, 2, 3), slots()),
    }


def test_a_slot_that_one_worker_learns_of_first_is_given_to_whoever_has_least() -> None:
    before = slots(0, 1)
    found = share({"a": claim(2, slots(0), before), "b": claim(2, slots(1), slots(0, 1, 2, 3))})
    assert found == {
        "a": Share(slots(0, 2), slots()),
        "b": Share(slots(1, 3), slots()),
    }


def test_the_place_of_a_service_stays_with_its_owner_whoever_joins() -> None:
    place = slots(0)
    found = share({"z": claim(4, place, place), "a": claim(-1, slots(), place)})
    assert found == {"a": Share(slots(), slots()), "z": Share(place, slots())}


def test_a_second_worker_gets_half_of_the_slots_that_have_something_to_copy() -> None:
    busy = slots(0, 1, 2)
    found = share({"a": Claim(1, ALL, ALL, busy), "b": Claim(-1, slots(), ALL, busy)})
    assert found == {
        "a": Share(slots(0, 1, 3, 4, 5), slots()),
        "b": Share(slots(2, 6, 7), slots(2, 6, 7)),
    }


def test_who_leaves_hands_its_slots_over() -> None:
    half = slots(0, 1, 2, 3)
    leaver = Claim(3, half, ALL, ALL, leaving=True)
    assert share({"a": leaver, "b": claim(3, ALL - half, ALL)}) == {
        "a": Share(slots(), slots()),
        "b": Share(ALL, half),
    }


def test_when_all_leave_each_keeps_what_it_has() -> None:
    half = slots(0, 1, 2, 3)
    claims = {"a": Claim(3, half, ALL, ALL, leaving=True)}
    claims["b"] = Claim(3, ALL - half, ALL, ALL, leaving=True)
    assert share(claims) == {"a": Share(half, slots()), "b": Share(ALL - half, slots())}


def test_a_group_of_nobody_has_no_shares() -> None:
    assert share({}) == {}


def test_a_worker_that_does_not_reach_the_source_of_slots_is_given_none_of_them() -> None:
    """As one behind a firewall, or with an older estate: they would stand still."""
    rest = slots(6, 7)
    found = share({"a": claim(1, ALL, ALL), "b": Claim(-1, slots(), ALL, rest)})
    assert found == {"a": Share(ALL - rest, slots()), "b": Share(rest, rest)}
    nothing = share({"a": claim(1, ALL, ALL), "b": Claim(-1, slots(), ALL, slots())})
    assert nothing == {"a": Share(ALL, slots()), "b": Share(slots(), slots())}


def test_what_a_worker_was_given_and_cannot_reach_goes_to_one_that_can() -> None:
    """It came first, and alone."""
    found = share({"a": Claim(1, ALL, ALL, slots(0, 1)), "b": claim(-1, slots(), ALL)})
    rest = ALL - slots(0, 1)
    assert found == {"a": Share(slots(0, 1), slots()), "b": Share(rest, rest)}


def test_slots_whose_source_nobody_reaches_are_shared_out_all_the_same() -> None:
    """Whoever reaches it first begins."""
    found = share({name: Claim(-1, slots(), ALL, slots()) for name in ("a", "b")})
    assert [len(each.slots) for each in found.values()] == [4, 4]
    reached = slots(0)  # of a source that one of two cannot reach, and it is the one that leaves
    claims = {"a": Claim(1, reached, ALL, reached, leaving=True)}
    claims["b"] = Claim(1, ALL - reached, ALL, slots())
    assert share(claims) == {"a": Share(slots(), slots()), "b": Share(ALL, reached)}


def test_slots_whose_source_all_have_lost_stay_where_they_are() -> None:
    """They may be shared unevenly, as they came while only one reached it, or one carries more."""
    held = {"a": slots(0), "b": ALL - slots(0), "c": slots()}
    claims = {name: Claim(4, own, ALL, slots(), away=ALL) for name, own in held.items()}
    claims["a"] = claims["a"]._replace(loads={SlotNumber(0): 9000})
    kept = {name: Share(own, slots()) for name, own in held.items()}
    assert share(claims) == kept

    heard = {**claims, "c": Claim(4, slots(), ALL, ALL)}
    assert share(heard)["c"] == Share(ALL, ALL)
    left = share({**claims, "b": claims["b"]._replace(leaving=True)})
    assert left["a"].slots | left["c"].slots == ALL
    assert left["a"].slots >= slots(0)


def test_what_one_has_lost_goes_to_who_reaches_it_whatever_that_carries() -> None:
    east, south = slots(0, 1, 2, 3), slots(4, 5, 6, 7)
    loads = {SlotNumber(slot): 100 for slot in (2, 3, 6, 7)}
    found = share(
        {
            "a": Claim(3, slots(0, 1, 4, 5), ALL, ALL, loads={SlotNumber(0): 90_000}),
            "b": Claim(3, slots(2, 3, 6, 7), ALL, south, loads=loads, away=east),
        }
    )
    assert found["a"].slots >= east
    assert found["b"].slots <= south


def test_a_slot_that_goes_on_without_a_partition_stays_with_an_owner_that_stays() -> None:
    """Whoever took it would have to wait with all of it, perhaps for hours."""
    owner, newcomer = loaded(1, dict.fromkeys(range(8), 100), ALL), claim(-1, slots(), ALL)
    owner = owner._replace(loads={**owner.loads, SlotNumber(7): 9000}, diverted=slots(6, 7))
    found = share({"a": owner, "b": newcomer})
    assert found == {
        "a": Share(slots(6, 7), slots()),
        "b": Share(slots(0, 1, 2, 3, 4, 5), slots(0, 1, 2, 3, 4, 5)),
    }
    assert share({"a": owner._replace(diverted=ALL), "b": newcomer})["a"] == Share(ALL, slots())
    healed = share({"a": owner._replace(diverted=slots()), "b": newcomer})
    assert healed["b"].slots == slots(7)

    lost = owner._replace(busy=slots(), away=ALL)
    assert share({"a": lost, "b": newcomer})["a"] == Share(slots(6, 7), slots())


def test_of_a_dead_or_leaving_owner_or_one_that_slept_such_a_slot_is_given_away() -> None:
    half, rest = slots(0, 1, 2, 3), slots(4, 5, 6, 7)
    other = claim(5, rest, ALL)
    gone = Claim(5, half, ALL, ALL, diverted=half)
    assert share({"b": other}) == {"b": Share(ALL, slots())}
    leaving = share({"a": gone._replace(leaving=True), "b": other})
    assert leaving == {"a": Share(slots(), slots()), "b": Share(ALL, half)}
    slept, heir = gone._replace(diverted=slots()), claim(6, ALL, ALL)
    assert share({"a": gone, "b": heir}) == share({"a": slept, "b": heir})


def test_of_three_the_idlest_is_given_slots_though_the_busiest_has_none_to_give() -> None:
    six = slots(0, 1, 2, 3, 4)
    claims = {"a": loaded(1, {0: 9000}, six), "b": loaded(1, dict.fromkeys(range(1, 5), 100), six)}
    found = share({**claims, "c": claim(-1, slots(), six)})
    assert found == {
        "a": Share(slots(0), slots()),
        "b": Share(slots(1, 2), slots()),
        "c": Share(slots(3, 4), slots(3, 4)),
    }


def test_a_slot_too_many_does_not_go_to_and_fro_with_each_new_measurement() -> None:
    even = slots(0, 1, 2, 3, 4)
    measured = {
        "a": loaded(1, {0: 101, 1: 103, 2: 99}, even),
        "b": loaded(1, {3: 98, 4: 100}, even),
    }
    assert not any(each.handed for each in share(measured).values())


def loaded(generation: int, loads: dict[int, int], known: Slots) -> Claim:
    measured = {SlotNumber(slot): load for slot, load in loads.items()}
    return Claim(generation, frozenset(measured), known, known, loads=measured)


def test_load_is_shared_by_bytes_and_not_by_the_number_of_slots() -> None:
    four = slots(0, 1, 2, 3)
    found = share(
        {"a": loaded(1, {0: 900, 1: 100, 2: 100, 3: 100}, four), "b": claim(-1, slots(), four)}
    )
    assert found == {
        "a": Share(slots(1, 2, 3), slots()),
        "b": Share(slots(0), slots(0)),
    }


def test_members_that_are_nearly_even_keep_what_they_have() -> None:
    four = slots(0, 1, 2, 3)
    found = share({"a": loaded(1, {0: 520, 1: 500}, four), "b": loaded(1, {2: 480, 3: 470}, four)})
    assert found == {"a": Share(slots(0, 1), slots()), "b": Share(slots(2, 3), slots())}


def test_one_slot_heavier_than_all_others_stays_and_the_others_make_room_for_it() -> None:
    four = slots(0, 1, 2, 3)
    found = share({"a": loaded(1, {0: 9000, 1: 100}, four), "b": loaded(1, {2: 100, 3: 100}, four)})
    assert found == {"a": Share(slots(0), slots()), "b": Share(slots(1, 2, 3), slots(1))}


def test_the_heaviest_go_first_and_unmeasured_slots_of_the_dead_count_as_usual() -> None:
    six = slots(0, 1, 2, 3, 4, 5)
    found = share({"a": loaded(1, {0: 300}, six), "b": loaded(1, {1: 100}, six)})
    assert found == {"a": Share(slots(0, 3, 5), slots()), "b": Share(slots(1, 2, 4), slots())}


@pytest.mark.timeout(10)
def test_sharing_ends_when_slots_count_alike_and_are_one_too_many_for_all_to_have_as_many() -> None:
    """Each unmeasured slot counted 7.7 here, and one of them went to and fro for ever."""
    found = share(
        {
            "a": loaded(14, {0: 7}, ALL),
            "b": claim(14, slots(1, 2), ALL),
            "c": claim(14, slots(3, 4, 5), ALL),
        }
    )
    assert sorted(len(each.slots) for each in found.values()) == [2, 3, 3]
    assert found["c"] == Share(slots(3, 4, 5), slots())


MEMBER = st.tuples(st.integers(-1, 3), st.dictionaries(st.integers(0, 11), st.integers(0, 50)))


@pytest.mark.timeout(60)
@given(st.lists(MEMBER, min_size=1, max_size=5), st.sets(st.integers(0, 11)))
def test_whatever_is_claimed_each_slot_is_given_to_one_member(
    claimed: list[tuple[int, dict[int, int]]], known: set[int]
) -> None:
    """Loads of zero stand for slots that were not measured."""
    claims = {}
    for number, (generation, loads) in enumerate(claimed):
        held = slots(*loads)
        measured = {SlotNumber(slot): load for slot, load in loads.items() if load}
        every = held | slots(*known)
        claims[str(number)] = Claim(generation, held, every, every, loads=measured)
    found = share(claims)
    given_out = sorted(slot for each in found.values() for slot in each.slots)
    assert given_out == sorted(frozenset().union(*(one.known for one in claims.values())))
    assert found == share(dict(reversed(claims.items())))


@pytest.mark.parametrize(
    ("claimed", "now", "drifted"),
    [
        ({0: 10 << 20}, {0: 11 << 20}, False),
        ({0: 10 << 20}, {0: 30 << 20}, True),
        ({0: 30 << 20}, {0: 10 << 20}, True),
        ({0: 100}, {0: 10_000}, False),
        ({}, {0: 30 << 20}, True),
        ({}, {0: 10_000}, False),
        ({0: 10 << 20, 1: 30 << 20}, {0: 11 << 20}, False),
    ],
    ids=[
        "little",
        "three times as much",
        "a third",
        "next to nothing",
        "measured first",
        "next to nothing, measured first",
        "given away since",
    ],
)
def test_load_is_shared_out_anew_when_it_is_quite_another(
    claimed: dict[int, int], now: dict[int, int], *, drifted: bool
) -> None:
    def of(loads: dict[int, int]) -> dict[SlotNumber, int]:
        return {SlotNumber(slot): load for slot, load in loads.items()}

    assert has_drifted(of(claimed), of(now)) is drifted
