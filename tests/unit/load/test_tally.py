"""The tally survives its way from one process to another."""

from __future__ import annotations

from collections import Counter

from tests.load.tally import Tally


def test_a_tally_is_read_as_it_was_written() -> None:
    tally = Tally(
        committed=Counter({("a:b", 0): 3, ("a:b", 10): 4}),
        aborted=Counter({("c", 1): 5}),
        unknown=Counter({("c", 2): 1}),
        transactions_committed=2,
        transactions_aborted=1,
        seconds=1.5,
    )
    assert Tally.from_json(tally.to_json()) == tally
    assert tally.records == 7


def test_lanes_are_added_up() -> None:
    total = Tally(committed=Counter({("t", 0): 3}), transactions_committed=1)
    total.add(Tally(committed=Counter({("t", 0): 2, ("t", 1): 1}), transactions_committed=4))
    assert total.committed == {("t", 0): 5, ("t", 1): 1}
    assert total.transactions_committed == 5
