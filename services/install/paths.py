"""Where installed things are, all of it under `.local/` of the project and ignored by git.

.local/jre/               a Java runtime, when PATH has none that fits
.local/kafka/<version>/   the jars of one Kafka version, and archives of their classes
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mirrorfleet.core.errors import MirrorfleetError

PROJECT: Final = Path(__file__).resolve().parents[2]
HOME: Final = PROJECT / ".local"
REQUIREMENTS: Final = PROJECT / "requirements"


class InstallError(MirrorfleetError):
    """Raised when something cannot be had; says what, where, why and what next."""
