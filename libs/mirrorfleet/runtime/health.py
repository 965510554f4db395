"""Readiness: a service is ready when it serves and nothing holds it back.

`/healthz` says that the event loop turns; `/readyz` says that the service does its job. What
holds it back is named, so that the answer to "why not" is in the answer to "ready?".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorfleet.runtime.lifecycle import Failed, Lifecycle, Serving

if TYPE_CHECKING:
    from collections.abc import Mapping


class Health:
    """What holds a service back, by name."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._holds: dict[str, str] = {}

    def hold(self, name: str, reason: str) -> None:
        """Not ready, because of `reason`, until `release(name)`."""
        self._holds[name] = reason

    def release(self, name: str) -> None:
        """`name` no longer holds the service back."""
        self._holds.pop(name, None)

    @property
    def ready(self) -> bool:
        """Whether the service does its job now."""
        return not self.reasons()

    def reasons(self) -> Mapping[str, str]:
        """Why the service is not ready; empty when it is."""
        state = self._lifecycle.state
        if isinstance(state, Serving):
            return dict(self._holds)
        cause = f": {state.cause}" if isinstance(state, Failed) else ""
        return {"lifecycle": f"{self._lifecycle.name}{cause}", **self._holds}
