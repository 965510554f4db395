"""What the local pair raises."""

from __future__ import annotations

from mirrorfleet.core.errors import MirrorfleetError


class LocalError(MirrorfleetError):
    """Raised when the local pair cannot do what was asked; says what, where, why and what next."""
