"""Memory as a budget in bytes: what is fetched and not yet acknowledged by the target.

    reserve(max_bytes) -> fetch answer -> lease of the frame -> last batch acknowledged -> free

A frame stays whole in memory until its last batch is done, so the lease frees it whole. Batches
that are put together are in memory twice meanwhile, once in their frames: an eighth is theirs.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


MERGE_SHARE: Final = 8
"""One in so many bytes is kept for merged batches; frames never take it."""


class MemoryBudget:
    """Counts bytes in flight; first come, first served."""

    __slots__ = ("_limit", "_used", "_waiting", "peak")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self.peak = 0

    @property
    def used(self) -> int:
        """Bytes reserved or held now."""
        return self._used

    @property
    def limit(self) -> int:
        """Bytes allowed; one frame may exceed it alone, or a large batch could never pass."""
        return self._limit

    def has_room(self, size: int) -> bool:
        """Whether `size` bytes more stay within the limit, the share of merged batches included."""
        return self._used + size <= self._limit

    def reserve(self, size: int, granted: Callable[[], None]) -> None:
        """Call `granted` once `size` bytes are free: now, or when others give theirs back."""
        self._waiting.append((size, granted))
        self._grant()

    def withdraw(self, granted: Callable[[], None]) -> bool:
        """Take back a reservation that was not granted yet; False when it was."""
        for entry in self._waiting:
            if entry[1] is granted:
                self._waiting.remove(entry)
                return True
        return False

    def resize(self, reserved: int, actual: int) -> None:
        """An answer came: the reservation becomes its real size."""
        self._change(actual - reserved)

    def release(self, size: int) -> None:
        """`size` bytes are free again."""
        self._change(-size)

    def _change(self, delta: int) -> None:
        self._used += delta
        self.peak = max(self.peak, self._used)
        if delta < 0:
            self._grant()

    def _grant(self) -> None:
        for_frames = self._limit - self._limit // MERGE_SHARE
        while self._waiting:
            size, granted = self._waiting[0]
            if self._used and self._used + size > for_frames:
                return
            self._waiting.popleft()
            self._used += size
            self.peak = max(self.peak, self._used)
            granted()


class FrameLease:
    """One fetch answer in memory; freed when each of its batches is done.

    `asked_at` is when it was asked for (monotonic seconds), 0.0 if that is not known.
    """

    __slots__ = ("_budget", "_pending", "_size", "asked_at")

    def __init__(self, budget: MemoryBudget, size: int, asked_at: float = 0.0) -> None:
        self._budget = budget
        self._size = size
        self.asked_at = asked_at
        self._pending = 1  # the walk itself, so that a frame without batches is freed as well

    def another(self, size: int) -> FrameLease:
        """For `size` bytes made from this frame, which need it no longer."""
        self._budget.resize(0, size)
        return FrameLease(self._budget, size, self.asked_at)

    def hold(self) -> None:
        """One more batch keeps this frame."""
        self._pending += 1

    def done(self) -> None:
        """A batch (or the walk) needs the frame no longer."""
        self._pending -= 1
        if not self._pending:
            self._budget.release(self._size)
