"""When backlogs are copied that share a worker: what one needs no more when it is done, others get.

    A ███        at the present rates A is done after 3 s and B after 6 s;
    B ██████     B with all that A leaves, from then on, after 4.5 s

The truth lies between: some of it B cannot use, for it has a connection's rate at most. Of twelve
backlogs behind a thin line the last was done after 0.4 to 0.6 of its time at the present rate, and
after 0.6 to 1.7 of the time if it got everything (measured): so their geometric mean is told.

Present rates are those of a minute, because backlogs take turns, and too low by two thirds when
most of the others have just ended. All together take no turns: what they gain now, seconds show.
So each has the part of it that it had in the last minute.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


LEAST_CHANGE: Final = 0.25
MOST_CHANGE: Final = 1.25
"""Of a time, by what was gained lately: to stand still for seconds, as on a busy machine, is not
yet to stand for ever. What lasts is in the rates of a minute soon."""


class Backlog(NamedTuple):
    """Records that wait, by how many a second these become fewer (more than 0), and lately did."""

    records: int
    gain: float
    lately: float

    @property
    def alone_s(self) -> float:
        """Until it is done at its present rate."""
        return self.records / self.gain


def eased(backlogs: Sequence[Backlog]) -> list[float]:
    """The time that each takes, as a share of what it takes at its present rate."""
    gain, lately = sum(each.gain for each in backlogs), sum(each.lately for each in backlogs)
    change = gain / lately if lately > 0 else MOST_CHANGE
    change = min(max(change, LEAST_CHANGE), MOST_CHANGE)
    times = zip(backlogs, shared(backlogs), strict=True)
    return [change * sqrt(shared_s / each.alone_s) for each, shared_s in times]


def shared(backlogs: Sequence[Backlog]) -> list[float]:
    """Seconds until each is done if all that is free is used, by each in the ratio of its gain."""
    found = [0.0] * len(backlogs)
    total = left = sum(each.gain for each in backlogs)
    at_s = alone_s = 0.0
    for number in sorted(range(len(backlogs)), key=lambda number: backlogs[number].alone_s):
        each = backlogs[number]
        at_s += (each.alone_s - alone_s) * left / total
        alone_s, left = each.alone_s, left - each.gain
        found[number] = at_s
    return found
