"""What is waited for when a service becomes active, and what ends it."""

from __future__ import annotations

import pytest

from mirrorfleet.core.errors import (
    DeadlineError,
    FencedError,
    MirrorfleetError,
    NotOursError,
    OutdatedError,
    RefusedError,
)
from mirrorfleet.standby.beginning import begun


class Dice:
    def uniform(self, low: float, high: float) -> float:
        return low


class Work:
    """Fails with each of the errors in turn, then succeeds."""

    def __init__(self, *errors: MirrorfleetError) -> None:
        self.errors = list(errors)
        self.told: list[str] = []
        self.tries = 0
        self.ours = True

    async def begin(self) -> None:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)

    async def is_ours(self) -> bool:
        return self.ours

    async def run(self) -> None:
        await begun(self.begin, is_ours=self.is_ours, tell=self.told.append, dice=Dice())


async def test_what_may_succeed_later_is_told_and_tried_again() -> None:
    work = Work(DeadlineError("no leader"), DeadlineError("no source"))
    await work.run()
    assert (work.tries, work.told) == (3, ["no leader", "no source"])


async def test_a_refusal_ends_it() -> None:
    work = Work(RefusedError("the same cluster at both ends"))
    with pytest.raises(RefusedError, match="the same cluster"):
        await work.run()
    assert work.tries == 1


async def test_a_refusal_while_nobody_confirms_our_place_is_waited_out() -> None:
    work = Work(RefusedError("the same cluster at both ends"))
    work.ours = False
    await work.run()
    assert (work.tries, work.told) == (2, ["the same cluster at both ends"])


@pytest.mark.parametrize("why", [NotOursError, OutdatedError, FencedError])
async def test_a_write_that_others_came_before_is_waited_out_also_where_the_place_is_ours_by_then(
    why: type[MirrorfleetError],
) -> None:
    work = Work(why("another process is active, or nobody can say"))
    await work.run()
    assert (work.tries, work.told) == (2, ["another process is active, or nobody can say"])
