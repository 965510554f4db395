"""Settings of ours as options of aiokafka's clients, and its errors as ours."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

from aiokafka import errors as theirs
from aiokafka.abc import AbstractTokenProvider
from aiokafka.client import AIOKafkaClient

from mirrorfleet.config.cluster_settings import ClusterSettings, Mechanism
from mirrorfleet.core.error_codes import ErrorCode, error_code
from mirrorfleet.core.errors import (
    AuthenticationError,
    BrokerError,
    ConnectionLostError,
    MirrorfleetError,
    UnsupportedError,
)
from mirrorfleet.kafka.tls import make_context
from mirrorfleet.kafka.tokens import TokenProvider, token_provider

_MS: Final = 1000


def client_options(settings: ClusterSettings) -> dict[str, object]:
    """Options that every aiokafka client of this cluster takes.

    Raises: ConfigError when a secret or certificate file cannot be read.
    """
    security = settings.security
    options: dict[str, object] = {
        "bootstrap_servers": list(settings.bootstrap),
        "client_id": settings.client_id,
        "request_timeout_ms": int(settings.request_timeout_s * _MS),
        "security_protocol": security.protocol.value,
    }
    if security.protocol.tls:
        options["ssl_context"] = make_context(security)
    if security.protocol.sasl and security.mechanism is not None:
        options["sasl_mechanism"] = security.mechanism.value
        if security.mechanism is Mechanism.OAUTHBEARER:
            options["sasl_oauth_token_provider"] = _Tokens(token_provider(security))
        else:
            options["sasl_plain_username"] = security.username
            options["sasl_plain_password"] = security.read_password()
    return options


def read_secret_again(client: object, settings: ClusterSettings) -> None:
    """Have an aiokafka client read the password for each connection; its own keeps the first."""
    security = settings.security
    mechanism = security.mechanism
    if security.protocol.sasl and mechanism not in (None, Mechanism.OAUTHBEARER):
        client.__class__ = _Rereading
        cast("_Rereading", client).reads = security.read_password


class _Rereading(AIOKafkaClient):  # type: ignore[misc] # aiokafka has no types
    """Where aiokafka looks for the password when it connects."""

    reads: Callable[[], str | None]
    last: str | None = None

    @property
    def _sasl_plain_password(self) -> str | None:
        with suppress(MirrorfleetError):  # a file that is being replaced: the one before, once more
            self.last = self.reads()
        return self.last


class _Tokens(AbstractTokenProvider):  # type: ignore[misc] # aiokafka has no types
    """Our token provider in aiokafka's form."""

    def __init__(self, provider: TokenProvider) -> None:
        self._provider = provider

    async def token(self) -> str:
        """A token that is valid now."""
        return await self._provider.token()


def translate(error: Exception, where: str) -> MirrorfleetError:
    """An error of aiokafka as one of ours."""
    if isinstance(error, theirs.AuthenticationFailedError):
        return AuthenticationError(f"{where}: {error}.")
    if isinstance(error, theirs.BrokerResponseError):
        number = error.errno if isinstance(error.errno, int) else -1
        code = error_code(number)
        if code is not ErrorCode.NONE:
            return BrokerError(code, where, detail=str(error))
    if isinstance(error, theirs.IncompatibleBrokerVersion | theirs.UnsupportedVersionError):
        return UnsupportedError(f"{where}: {error}.")
    return ConnectionLostError(f"{where}: {str(error) or type(error).__name__}.")
