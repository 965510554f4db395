"""Connections to far brokers are shared as they are wanted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrorfleet.copying.seats import Seats, Share, Table

NODE = 1
MOST = 12


def shares(*wishes: int) -> tuple[Table, list[Share]]:
    table = Seats().at(NODE, MOST)
    made = [table.join() for _ in wishes]
    for share, wish in zip(made, wishes, strict=True):
        share.wanted = wish
    return table, made


def fill(share: Share) -> int:
    """Take as many as it wants and gets."""
    while share.taken < share.wanted and share.take():
        pass
    return share.taken


def settle(made: list[Share]) -> list[int]:
    """What each has when all have taken and given back as they are to."""
    for _ in range(4 * MOST):
        for share in made:
            if share.has_too_many:
                share.give_back()
            fill(share)
    return [share.taken for share in made]


def test_the_seats_of_a_broker_are_its_own() -> None:
    seats = Seats()
    near, far = seats.at(1, 2).join(), seats.at(2, 2).join()
    assert [near.take(), near.take(), near.take(), far.take()] == [True, True, False, True]
    near.give_back()
    assert near.take()


def test_small_wishes_are_fulfilled_and_the_rest_is_shared() -> None:
    assert settle(shares(11, 2, 11)[1]) == [5, 2, 5]


def test_who_comes_late_gets_its_share_and_who_is_done_has_none() -> None:
    table, made = shares(11)
    assert fill(made[0]) == 11
    late = table.join()
    late.wanted = 11
    assert settle([made[0], late]) == [6, 6]

    made[0].wanted = 0
    assert settle([made[0], late]) == [1, 11]
    table.leave(made[0])
    assert table.fair > MOST


def test_who_wants_none_keeps_what_nobody_else_wants() -> None:
    _, (idle, other) = shares(6, 3)
    assert fill(idle) + fill(other) == 9
    idle.wanted = 0
    assert not idle.has_too_many


def test_of_seats_that_become_fewer_some_are_given_back_where_another_is_short() -> None:
    seats = Seats()
    first = seats.at(NODE, MOST).join()
    first.wanted = MOST
    assert fill(first) == MOST
    second = seats.at(NODE, 4).join()
    second.wanted = 4
    assert settle([first, second]) == [2, 2]


def test_seats_that_do_not_divide_are_taken_and_none_stays_free_where_slots_are_many() -> None:
    assert sorted(settle(shares(*[3] * 5)[1])) == [2, 2, 2, 3, 3]
    assert sum(settle(shares(*[3] * (MOST - 2))[1])) == MOST
    assert sum(settle(shares(*[3] * (MOST + 1))[1])) == MOST


@given(st.lists(st.integers(0, 2 * MOST), min_size=1, max_size=6))
def test_shares_settle_fairly_and_are_never_more_than_there_are(wishes: list[int]) -> None:
    _, made = shares(*wishes)
    taken = settle(made)
    assert sum(taken) == min(MOST, sum(wishes))
    assert settle(made) == taken
    for mine, wish in zip(taken, wishes, strict=True):
        assert mine <= wish
        if mine < wish:  # then nobody has two more than it
            assert all(other <= mine + 1 for other in taken)


def test_more_than_a_few_seats_are_there_when_somebody_misses_one_and_only_while_he_stays() -> None:
    seats, counts = Seats(), list[int]()
    table = seats.at(NODE, 150)
    share = table.join()
    share.wanted = 1_000
    for _ in range(4):
        counts.append(fill(share))
        table.widen()
    second = seats.at(NODE, 150).join()
    counts.append(table.expected)
    table.leave(second)
    counts.append(table.seats)
    table.leave(share)

    assert [*counts, table.seats] == [48, 96, 150, 150, 150, 150, 48]


def test_seats_that_are_wanted_are_expected_as_far_as_there_are_so_many() -> None:
    table, made = shares(3, 4)
    assert table.expected == 7
    assert fill(made[1]) == 4
    made[1].wanted = 1
    assert table.expected == 7
    made[0].wanted = 30
    assert table.expected == MOST
