"""The load that a drill asked for, and what the judge may demand of the run for it.

Pure. A drill under a tenth of its load proves little. A machine that cannot make what is asked for
gets UNKNOWN, and is told how much it made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tests.judge.verdict import Counted, Demands

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tests.load.tally import At, Tally

REACHED: Final = 0.8
"""Of what is asked for: a seventh is in transactions, which abort and wait for slow brokers."""
IN_RUNS_FROM: Final = 10_000
"""Records a second."""
RUNS: Final = ["--sticky", "128"]


def shape(rate: float) -> list[str]:
    """How the traffic maker sends so many records a second.

    Many come in runs for one partition, as producers send what has no key (KIP-480): of 128 each of
    the maker's producers has about a dozen, 6 KB where the default `batch.size` is 16. One at a
    time over 24 partitions they are thousands of batches, and two cores write these and no more.
    """
    return RUNS if rate >= IN_RUNS_FROM else []


class Asked(NamedTuple):
    """One load: its rate, and when it began (monotonic)."""

    rate: float
    began: float


class Ran(NamedTuple):
    """All loads of a run together, up to a moment."""

    rate: float
    """Records a second that were asked for, on average."""
    seconds: float

    def left_s(self, seconds: float) -> float:
        """For how long it must go on to be as long as it should."""
        return max(0.0, seconds - self.seconds)

    def demands(
        self, *, acknowledged: int, seconds: float, counted: Mapping[At, Counted] | None = None
    ) -> Demands:
        """Enough of the rate, for so long, and nearly all records that a source took.

        Of partitions that were `counted` all of them, and no other.
        """
        return Demands(
            records=max(1, int(acknowledged * 0.99)),
            seconds=seconds,
            rate=REACHED * self.rate,
            counted=counted or {},
        )

    def told(self, records: int) -> str:
        """What was asked for and what came of it."""
        reached = records / self.seconds if self.seconds else 0.0
        return (
            f"load: {reached:,.0f} records/s reached, {self.rate:,.0f} asked for,"
            f" over {self.seconds:.1f} s"
        )


def ran(loads: Sequence[Asked], now: float) -> Ran:
    """What loads that still run were asked to make until now."""
    if not loads:
        return Ran(0.0, 0.0)
    seconds = now - min(load.began for load in loads)
    records = sum(load.rate * (now - load.began) for load in loads)
    return Ran(records / seconds if seconds else 0.0, seconds)


def counted(tally: Tally, *, but: Collection[str] = ()) -> dict[At, Counted]:
    """What loads wrote to each partition, `but` to topics that others write to as well."""
    places = {*tally.committed, *tally.aborted, *tally.unknown}
    return {
        at: Counted(tally.committed[at], tally.unknown[at]) for at in places if at[0] not in but
    }
