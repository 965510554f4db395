"""How much a worker sends to a broker whose quota nobody knows before it is met: pure decisions.

    taken in 11 s  ████████████████        without a word: that much is proven
    without answer                 ███     a quarter more at most, of all slots together
                                       ╎   the quota, passed by no more than that

    for 30 s after a silence    an eighth more at most
    after one of over 1.5 s     at the pace of what is proven, not at once; later three times that

A broker takes each request, answers it at once with the silence that it wants, and reads nothing
more of that connection for so long (KIP-219). It wants it again for each request that waited
meanwhile, until its mean of some 10 s is below (ClientQuotaManager, Rate.windowSize). Positions
wait for that behind the data; the time-out of their transaction does not. All slots of a worker
share a quota, and workers do: each proves its own part of it, which may be that of another one by
now. Those that keep the pace meet short silences all the time, and one that comes anew finds its
part in between. What is late for a second is not waited for: it may be no quota that holds it up.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MEAN_S: Final = 10.0
"""What a broker's mean is over at least (quota.window.num 11, quota.window.size.seconds 1)."""
KEPT_S: Final = 11.0
"""And at most."""
FIRST_BYTES: Final = 32 << 10
"""More than is proven, before a quota is met: one of 20 KB/s is passed by 1.6 s of it."""
FREE: Final = 1.25
"""Times what is proven, while nobody wants silence: ten round trips for each ten times more."""
WARNED: Final = 1.125
"""The same after a silence."""
LONG_S: Final = 1.5
"""A quota that wants more silence is met; less may be due to others."""
PACE: Final = 1.05
"""Times what is proven a second: so a quota is met again, and as soon as it is passed."""
PROBING: Final = 3.0
"""The same with a quota that was met longer ago: it may be another one, and others may use it."""
AT_ONCE_S: Final = 1.0
"""What the pace allows in this time may be sent at once."""
LAPSES_S: Final = 30.0
"""So long after a silence nobody knows what the quota lets pass now."""
LATE_S: Final = 1.0
"""What has no answer for so long does not count: a follower is slow, or a replica away."""
_STEP_S: Final = 0.1


class Allowance:
    """What one broker takes of one worker. Times are monotonic seconds, sizes bytes."""

    __slots__ = (
        "_flying",
        "_met_at",
        "_owed",
        "_owed_at",
        "_proven",
        "_silent_until",
        "_steps",
        "_taken",
        "_unanswered",
        "_waiting",
    )

    def __init__(self) -> None:
        self._steps: deque[tuple[float, int]] = deque()  # bytes taken, since when
        self._flying: dict[int, int] = {}  # bytes without an answer, by the step of their sending
        self._taken = self._unanswered = 0
        self._proven = 0.0
        self._met_at = self._silent_until = -inf
        self._owed = self._owed_at = 0.0  # bytes ahead of the pace, and when they were
        self._waiting: dict[Callable[[], None], None] = {}

    def room(self, now: float) -> int:
        """What may be sent; where that is more than nothing, one batch of any size may."""
        self._forget(now)
        if now < self._silent_until:
            return 0
        under_way = self._taken + self._unanswered
        if not under_way:
            return max(self._most(now), 1)
        free = self._most(now) - under_way
        if self._silent_until > 0:
            self._pay(now)
            free = min(free, int(self._pace(now) * AT_ONCE_S - self._owed))
        return max(free, 0)

    def silence_s(self, now: float) -> float:
        """For how long the broker wants nothing."""
        return max(self._silent_until - now, 0.0)

    def wait_s(self, now: float, wake: Callable[[], None]) -> float:
        """For how long there is no room; `wake` is called if an answer may have made some."""
        if silence_s := self.silence_s(now):
            return silence_s
        self._forget(now)
        self._waiting[wake] = None
        if self._silent_until > 0:
            self._pay(now)
            wait_s = self._owed / self._pace(now) - AT_ONCE_S + _STEP_S
            if wait_s > 0:
                return min(wait_s, KEPT_S)
        until = [now + KEPT_S]
        if self._steps:
            until.append(self._steps[0][0] + KEPT_S)
        if self._flying:
            until.append(next(iter(self._flying)) * _STEP_S + LATE_S + _STEP_S)
        return max(min(until) - now, 0.01)

    def sent(self, size: int, now: float) -> None:
        """That much is on its way, or about to be."""
        step = int(now / _STEP_S)
        self._flying[step] = self._flying.get(step, 0) + size
        self._unanswered += size
        self._pay(now)
        self._owed += size

    def answered(self, size: int, sent_at: float, now: float, silence_s: float) -> None:
        """What was sent then is taken, and the broker wants so long a silence."""
        self._take(size, now)
        part = MEAN_S / (MEAN_S + silence_s)
        passes = max(self._taken, 1) * part
        if silence_s > LONG_S:
            self._met_at = now
            if 2 * self._taken >= self._proven:
                self._proven = passes
            elif now >= self._silent_until:  # others passed it, perhaps
                self._proven = max(passes, self._proven * part)
        elif silence_s <= 0 or not self._is_met(now):
            self._proven = max(self._proven, self._taken)
        elif self._taken > self._proven:
            self._proven = passes
        if silence_s > 0:
            self._silent_until = max(self._silent_until, now + silence_s)
        self.gone(size, sent_at, now)

    def gone(self, size: int, sent_at: float, now: float) -> None:
        """It was not sent after all, or nobody knows what became of it."""
        step = int(sent_at / _STEP_S)
        if step in self._flying:  # else it was late already
            self._flying[step] -= size
            self._unanswered -= size
        if self._waiting and self.room(now):
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()

    def _take(self, size: int, now: float) -> None:
        self._forget(now)
        if self._steps and now - self._steps[-1][0] < _STEP_S:
            since, before = self._steps.pop()
            self._steps.append((since, before + size))
        else:
            self._steps.append((now, size))
        self._taken += size

    def _most(self, now: float) -> int:
        if self._is_met(now):
            return int(self._proven * WARNED)
        more = WARNED if now - self._silent_until < LAPSES_S else FREE
        return int(max(self._proven * more, self._proven + FIRST_BYTES))

    def _is_met(self, now: float) -> bool:
        return now - self._met_at < LAPSES_S

    def _pace(self, now: float) -> float:
        """Bytes a second, where silence was ever wanted."""
        if self._is_met(now):
            return max(self._proven * PACE, 1.0) / MEAN_S
        return max(self._proven * PROBING, FIRST_BYTES) / MEAN_S

    def _pay(self, now: float) -> None:
        """Bring up to date what is ahead of the pace."""
        paid = self._pace(now) * (now - self._owed_at)
        self._owed = max(self._owed - paid, 0.0)
        self._owed_at = now

    def _forget(self, now: float) -> None:
        while self._steps and self._steps[0][0] + KEPT_S <= now:
            self._taken -= self._steps.popleft()[1]
        late = int((now - LATE_S) / _STEP_S)
        while self._flying and (step := next(iter(self._flying))) < late:
            self._unanswered -= self._flying.pop(step)
