"""How many connections a broker far away is worth, and how much memory answers of it take. Pure."""

from __future__ import annotations

from typing import Final

from mirrorfleet.copying.budget import Weight


class Booking:
    """What is reserved of bytes that are asked for far away, until they come.

    Where answers come within a few round trips, bytes are on the line for most of that time, and
    the memory for an answer is not there before its first byte is: two thirds are reserved. So half
    as many more are under way; without that there is nothing to send for a round trip after each
    commit. Should the target stop in that moment, the budget is exceeded by what was not reserved,
    and nothing is asked for until that is gone. Where a window lets a little through in each round
    trip, an answer is in memory for most of the time, and all of it is reserved.
    """

    __slots__ = ("_trips", "rtt_s", "weight")

    QUICK: Final = 3.5
    """Round trips that an answer takes at most."""
    SLOW: Final = 2.5
    """And from which half as large ones come much sooner."""

    def __init__(self, rtt_s: float) -> None:
        self.rtt_s = rtt_s
        """At most: the quickest answer took so long."""
        self._trips = 1.0
        self.weight = Weight()

    def timed(self, took_s: float) -> None:
        """An answer took so long."""
        self.seen(took_s)
        self._trips += (took_s / max(self.rtt_s, 0.001) - self._trips) / 8

    def seen(self, took_s: float) -> None:
        """Another answer, of little."""
        self.rtt_s = min(self.rtt_s, took_s)

    def of(self, size: int) -> int:
        """What to reserve for `size` bytes."""
        memory = self.weight.of(size)
        return memory * 2 // 3 if self._is_quick else memory

    def within(self, room: int) -> int:
        """What may be asked for when so much can be reserved."""
        return self.weight.within(room * 3 // 2 if self._is_quick else room)

    @property
    def is_slow(self) -> bool:
        """Whether smaller pieces, on more connections, would come much sooner."""
        return self._trips >= self.SLOW

    @property
    def _is_quick(self) -> bool:
        return self._trips < self.QUICK


class Fan:
    """How many connections are worth having: doubled as long as that brings more.

    Measured again and again, because lines and neighbours change. A broker, or what is before it,
    may take fewer than that.
    """

    __slots__ = ("_best", "_limit", "_most", "_worth")

    GAIN: Final = 1.25
    """So much more must twice the connections bring."""
    SOME: Final = 1.1
    """The same where memory has room for no more: pieces only come sooner then."""
    LOSS: Final = 0.5
    LEAST: Final = 4
    EACH_S: Final = 0.003
    """One more for so much of a round trip: with 200 KB under way on each, as brokers' default
    buffers allow, that is 67 MB/s to begin with, however far the source is."""

    def __init__(self, most: int, rtt_s: float) -> None:
        self._most = self._limit = max(1, most)
        self._best = 0.0
        self._worth = min(max(self.LEAST, round(rtt_s / self.EACH_S)), self._most)

    @property
    def count(self) -> int:
        """Connections to have now."""
        return min(self._worth, self._limit)

    def measured(self, bytes_s: float) -> None:
        """What all connections together brought while each had work."""
        if bytes_s < self._best * self.LOSS:
            self._best = bytes_s
            self._worth = max(2, self.count // 2)
        else:
            self._double_from(self.GAIN, bytes_s)

    def crowded(self, bytes_s: float) -> None:
        """The same where memory has no room for another piece, and each takes many round trips.

        One of these is the way of the request, the others what a window lets through. On twice as
        many connections pieces are half as large, and take half of the others.
        """
        self._double_from(self.SOME, bytes_s)

    def _double_from(self, gain: float, bytes_s: float) -> None:
        """Twice as many, if this is so many times what was the most."""
        if bytes_s > self._best * gain:
            self._best = bytes_s
            self._worth = min(self.count * 2, self._most)

    def limit(self, count: int) -> None:
        """One more was refused: there are not to be more than so many."""
        self._limit = max(1, min(self._limit, count))

    def relax(self) -> None:
        """That is a while ago: twice as many may be tried."""
        self._limit = min(self._limit * 2, self._most)


class Appetite:
    """What the connections of one slot to a broker found to do, second by second."""

    __slots__ = ("_busiest", "_had_nothing", "is_full", "is_starved")

    def __init__(self) -> None:
        self._busiest = 0
        self._had_nothing = self.is_starved = self.is_full = False
        """`is_full`: there is something to ask for, for which memory has no room."""

    @property
    def has_nothing(self) -> bool:
        """Whether one found nothing to ask for lately, and not because memory has no room."""
        return self.is_starved and not self.is_full

    def fetches(self, count: int) -> None:
        """So many fetch now."""
        self._busiest = max(self._busiest, count)

    def found_nothing(self) -> None:
        """One of them."""
        self.is_starved = True

    def looked(self, *, waits: bool) -> None:
        """A moment later: who found nothing still `waits`, or has something again."""
        self.is_starved |= waits
        self._had_nothing |= self.has_nothing

    def served(self) -> None:
        """All that were wanted have been opened: what was found before that is old."""
        self.is_starved = False

    def wish(self, worth: int, fetching: int) -> int:
        """At the end of a second: who has nothing to ask for wants no more than it had use for."""
        wanted = self._busiest if self._had_nothing else worth
        self._busiest, self._had_nothing = fetching, False
        return wanted
