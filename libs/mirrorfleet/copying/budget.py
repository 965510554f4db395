"""Memory as a budget in bytes: what is fetched and not yet acknowledged by the target.

    reserve(max_bytes) -> fetch answer -> lease of the frame -> last batch acknowledged -> free

A frame stays whole in memory until its last batch is done, so the lease frees it whole. Batches
that are put together are in memory twice meanwhile, once in their frames: an eighth is theirs. What
is known of a batch takes memory beside its bytes, and of small ones most of it: it is counted with
its frame, and each lane reserves by what a byte of its last answer came to (`Weight`).

Each fetch lane has an account of its own, and far away each partition. Memory that becomes free
goes to the account that holds least, and none gets more than `SHARE` times what is free then (the
dynamic threshold of Choudhury and Hahne, made for the shared buffers of switches):

    one account has a backlog   2/3 of the memory are its, 1/3 is free
    n accounts have one         2/(2n+1) each, 1/(2n+1) is free for whoever has nothing yet

So a backlog, or a target in trouble, keeps nobody waiting behind it, however slowly it drains.

Each lane of the live tail has a long poll under way, which mostly brings nothing and has its memory
for half a second. So it asks for a part of what is free (`Account.enough`), and n of them leave

    256/(384+n) of the memory to one backlog: of 49 MB 31 beside 16 polls, 16 beside 400
    1/(384+n) to each poll: 125 KB of it beside 16, 64 KB beside 400

All that is asked for is reserved, as all may be answered in the same moment. But a broker sends its
next batch whole, however little was asked for. The limit may be exceeded by what is missing for one
batch in each answer (400 of 64 KB with a batch of 100 KB: by 14 MB); nobody is given anything until
that is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MERGE_SHARE: Final = 8
"""One in so many bytes is kept for merged batches; frames never take it."""
SHARE: Final = 2
"""An account may hold so many times what is left."""
POLL_SHARE: Final = 128
"""One in so many bytes of what is left is enough for a poll."""


class MemoryBudget:
    """Counts bytes in flight: all of them here, and what each account holds."""

    __slots__ = ("_for_frames", "_granting", "_waiting", "beside", "limit", "peak", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """Bytes allowed; one frame may exceed it alone, or a large batch could never pass."""
        self.used = 0
        """Bytes reserved or held now."""
        self.beside = 0
        """Of these, what is known of frames: putting batches together makes it less."""
        self.peak = 0
        self._for_frames = limit - limit // MERGE_SHARE
        self._waiting: list[tuple[Account, int, Callable[[], None]]] = []
        self._granting = False

    @property
    def for_one(self) -> int:
        """Bytes that the only account with a backlog may have."""
        return self._for_frames * SHARE // (SHARE + 1)

    def account(self) -> Account:
        """A new holder."""
        return Account(self)

    @property
    def is_short(self) -> bool:
        """Whether somebody waits for memory."""
        return bool(self._waiting)

    def has_room(self, size: int) -> bool:
        """Whether `size` bytes more stay within the limit, the share of merged batches included."""
        return self.used - self.beside + size <= self.limit

    def wait(self, account: Account, size: int, granted: Callable[[], None]) -> None:
        """Let an account have `size` bytes when its turn has come."""
        self._waiting.append((account, size, granted))
        self.grant()

    def withdraw(self, granted: Callable[[], None]) -> bool:
        """Take back a wait that was not granted yet; False when it was."""
        for entry in self._waiting:
            if entry[2] is granted:
                self._waiting.remove(entry)
                return True
        return False

    def room_for(self, account: Account) -> int:
        """Bytes that the account may have now beside what it holds."""
        free = self.free
        return min(free, SHARE * free - account.held) if account.held else free

    @property
    def free(self) -> int:
        """Bytes that frames may still take; below 0 when more came than was asked for."""
        return self._for_frames - self.used

    def change(self, delta: int) -> None:
        """Some account holds `delta` bytes more, or less."""
        self.used += delta
        self.peak = max(self.peak, self.used)
        if delta < 0:
            self.grant()

    def grant(self) -> None:
        """Give what is free to those who wait: who holds least is next, and is not overtaken.

        Who does not want it any more gives it back at once, in the midst of this: what it had is
        the next one's in the same loop, or hundreds of them would call each other too deep.
        """
        if self._granting:
            return
        self._granting = True
        try:
            self._grant_all()
        finally:
            self._granting = False

    def _grant_all(self) -> None:
        while self._waiting:
            entry = min(self._waiting, key=_holds)
            account, size, granted = entry
            if self.used and size > self.room_for(account):
                return
            self._waiting.remove(entry)
            account.resize(0, size)
            granted()


class Account:
    """What one holder has of the budget."""

    __slots__ = ("budget", "held")

    def __init__(self, budget: MemoryBudget) -> None:
        self.budget = budget
        self.held = 0

    def reserve(self, size: int, granted: Callable[[], None]) -> None:
        """Call `granted` once `size` bytes are free: now, or when others give theirs back."""
        self.budget.wait(self, size, granted)

    def within(self, size: int, least: int) -> int:
        """As much of `size` as may be had now, but `least` at least, for which one waits."""
        return max(least, min(size, self.budget.room_for(self)))

    def enough(self, size: int, expected: int) -> int:
        """As much of `size` as a poll asks for that hardly brings more than `expected` bytes."""
        return min(size, max(expected, self.budget.free // POLL_SHARE))

    def resize(self, reserved: int, actual: int) -> None:
        """An answer came: the reservation becomes its real size."""
        self.held += actual - reserved
        self.budget.change(actual - reserved)

    def release(self, size: int) -> None:
        """`size` bytes are free again."""
        self.held -= size
        self.budget.change(-size)


def _holds(entry: tuple[Account, int, Callable[[], None]]) -> int:
    return entry[0].held


class Weight:
    """What each byte of a lane's answers takes in memory, by the last one."""

    __slots__ = ("by",)

    def __init__(self) -> None:
        self.by = 1.0

    def of(self, size: int) -> int:
        """The memory for an answer of `size` bytes."""
        return int(size * self.by)

    def within(self, memory: int) -> int:
        """The bytes of an answer that takes so much."""
        return int(memory / self.by)

    def weighed(self, got: int, took: int) -> None:
        """An answer of `got` bytes took so much; one that brought nothing to keep tells nothing."""
        if got and took:
            self.by = max(1.0, took / got)


class FrameLease:
    """One fetch answer in memory; freed when each of its batches is done.

    `asked_at` is when it was asked for (monotonic seconds), 0.0 if that is not known. `spare` is
    what the account has reserved beyond the frame itself: what comes of it takes that first.
    """

    __slots__ = ("_account", "_beside", "_made", "_pending", "_size", "_spare", "asked_at")

    def __init__(
        self, account: Account, size: int, asked_at: float = 0.0, *, spare: int = 0
    ) -> None:
        self._account = account
        self._size, self._spare = size, spare
        self._beside = self._made = 0
        self.asked_at = asked_at
        self._pending = 1  # the walk itself, so that a frame without batches is freed as well

    @property
    def took(self) -> int:
        """Bytes for what has come of it: the frame where batches need it, and what was made."""
        return self._made + (self._size + self._beside if self._beside else 0)

    def another(self, size: int, beside: int) -> FrameLease:
        """For `size` bytes made from this frame, which need it no longer; `beside`: as `hold`."""
        self._made += size + beside
        self._take(size + beside)
        made = FrameLease(self._account, size, self.asked_at)
        made._know(beside)
        return made

    def hold(self, batches: int = 1, beside: int = 0) -> None:
        """So many more batches need the frame; what is known of them takes `beside` bytes."""
        self._pending += batches
        self._take(beside)
        self._know(beside)

    def settled(self) -> None:
        """All has come of it that comes: what is spare is free."""
        self._account.release(self._spare)
        self._spare = 0

    def _take(self, size: int) -> None:
        spare = min(size, self._spare)
        self._spare -= spare
        self._account.resize(spare, size)

    def _know(self, beside: int) -> None:
        self._beside += beside
        self._account.budget.beside += beside

    def done(self) -> None:
        """A batch (or the walk) needs the frame no longer."""
        self._pending -= 1
        if not self._pending:
            self._account.budget.beside -= self._beside
            self._account.release(self._size + self._beside + self._spare)
            self._spare = 0
