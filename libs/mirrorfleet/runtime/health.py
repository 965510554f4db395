"""Readiness: a service is ready when it serves and nothing holds it back.

`/healthz` says that the event loop turns; `/readyz` says that the service does its job. What
holds it back is named, so that the answer to "why not" is in the answer to "ready?".
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from mirrorfleet.runtime.lifecycle import Failed, Lifecycle, Serving

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Role(StrEnum):
    """What this process is among those of the same service and fleet."""

    ACTIVE = "active"
    STANDBY = "standby"
    """Ready to take over, and idle until then."""


class Holds:
    """What holds a service back, and what is worth knowing of it, by name."""

    def __init__(self) -> None:
        self._holds: dict[str, str] = {}
        self._notes: dict[str, str] = {}

    def hold(self, name: str, reason: str) -> None:
        """Not ready, because of `reason`, until `release(name)`."""
        self._holds[name] = reason

    def release(self, name: str) -> None:
        """`name` no longer holds the service back."""
        self._holds.pop(name, None)

    def note(self, name: str, text: str) -> None:
        """Say something that does not make the service unready; "" takes it back."""
        if text:
            self._notes[name] = text
        else:
            self._notes.pop(name, None)

    def held(self) -> Mapping[str, str]:
        """Why not ready."""
        return dict(self._holds)

    def notes(self) -> Mapping[str, str]:
        """What is worth knowing although the service does its job."""
        return dict(self._notes)

    def clear(self) -> None:
        """Nothing of it is true any more."""
        self._holds.clear()
        self._notes.clear()


class Health(Holds):
    """All that holds a service back, and its role."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        super().__init__()
        self._lifecycle = lifecycle
        self._watched: dict[str, Callable[[], str]] = {}
        self.role = Role.ACTIVE
        self.active = Holds()
        """What the active part says: over with it, unlike what a standby has to say as well."""

    def notes(self) -> Mapping[str, str]:
        """What is worth knowing although the service does its job."""
        return {**super().notes(), **self.active.notes()}

    def watch(self, name: str, trouble: Callable[[], str]) -> None:
        """From now on, not ready while `trouble()` says something; asked with each question."""
        self._watched[name] = trouble

    @property
    def ready(self) -> bool:
        """Whether the service does its job now."""
        return not self.reasons()

    def reasons(self) -> Mapping[str, str]:
        """Why the service is not ready; empty when it is."""
        state = self._lifecycle.state
        seen = {name: trouble() for name, trouble in self._watched.items()}
        told = {name: text for name, text in seen.items() if text}
        holds = {**self.held(), **self.active.held(), **told}
        if isinstance(state, Serving):
            return holds
        cause = f": {state.cause}" if isinstance(state, Failed) else ""
        return {"lifecycle": f"{self._lifecycle.name}{cause}", **holds}
