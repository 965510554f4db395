"""What a slot still knows of refusals when it goes on with another producer id, as v1 does."""

from __future__ import annotations

import pytest

from tests.unit.copying.making import fetched, give, partition_of, slot


@pytest.mark.parametrize(
    ("refusals", "held_until"),
    [
        pytest.param(1, 9.0, id="else it would be in the first transaction, and abort it again"),
        pytest.param(0, 0.0, id="what else it waited for may be over"),
    ],
)
def test_a_partition_is_held_back_on_where_the_target_refuses_its_batch(
    refusals: int, held_until: float
) -> None:
    made = slot()
    partition = partition_of(made)
    give(made, partition, fetched((0, [b"v"])), end=1)
    batch = made.next_batch(partition).batch
    for _ in range(refusals):
        made.refused_again(partition, batch)
    made.hold_back(partition, 9.0)

    made.forget_all()
    again = made.admit(partition.entry, partition.committed)

    assert again is not partition
    assert again.held_until == held_until
