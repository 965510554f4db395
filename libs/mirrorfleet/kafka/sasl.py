"""SASL: stub."""

from __future__ import annotations

from mirrorfleet.config.cluster_settings import Security
from mirrorfleet.core.errors import UnsupportedError
from mirrorfleet.kafka.connection import Connection


class SaslClient:
    """Authenticates connections."""

    def __init__(self, security: Security) -> None:
        self._security = security

    async def authenticate(self, connection: Connection, host: str, deadline_s: float) -> None:
        """Authenticate `connection`."""
        raise UnsupportedError("SASL comes in the next commit.")
