"""Whether memory is missing for a moment or for good.

A connection for which there is no memory is made again: what others hold is free soon. Where that
does not help, the heap is full of what stays or the process was given too little. Its slots would
stand still, while it says to the workers' group that all is well. So it ends: others have its slots
within seconds, and who is started in its place begins with an empty heap.
"""

from __future__ import annotations

from typing import Final

from mirrorfleet.core.errors import MirrorfleetError, NoMemoryError, StarvedError

STARVED_S: Final = 10.0
"""As long as the partitions of a worker that died may stand still."""


class Starving:
    """The failures of one lane in a row. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._since: float | None = None

    def failed(self, error: MirrorfleetError, now: float, *, answered: bool) -> None:
        """A connection was lost or not made; `answered`: it had brought something before.

        Raises: StarvedError when for long nothing came, and memory was what was missing.
        """
        if not isinstance(error, NoMemoryError):
            self._since = None
        elif answered or self._since is None:
            self._since = now
        elif now - self._since > STARVED_S:
            raise StarvedError(
                f"memory was missing for {now - self._since:.0f} s. {error}"
            ) from error
