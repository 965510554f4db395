"""Making a connection that is ready for use: TCP, TLS, ApiVersions, SASL.

Every failure says which address it was and what to do next.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from typing import Final, Protocol

from kio.schema.api_versions.v0.request import ApiVersionsRequest as ApiVersionsRequestV0
from kio.schema.api_versions.v0.response import ApiVersionsResponse as ApiVersionsResponseV0
from kio.schema.api_versions.v3.request import ApiVersionsRequest as ApiVersionsRequestV3
from kio.schema.api_versions.v3.response import ApiVersionsResponse as ApiVersionsResponseV3
from kio.schema.api_versions.v4.request import ApiVersionsRequest as ApiVersionsRequestV4
from kio.schema.api_versions.v4.response import ApiVersionsResponse as ApiVersionsResponseV4

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import (
    ConnectionLostError,
    DeadlineError,
    NoMemoryError,
    UnsupportedError,
)
from mirrorfleet.core.ports import Dice
from mirrorfleet.kafka.call import call
from mirrorfleet.kafka.codec import Request, code_of, decode, encode
from mirrorfleet.kafka.connection import API_VERSIONS, Connection
from mirrorfleet.kafka.dialing import dial
from mirrorfleet.kafka.frames import Frame
from mirrorfleet.kafka.sasl import SaslClient
from mirrorfleet.kafka.tls import TlsContexts, explain_tls
from mirrorfleet.kafka.tokens import TokenProvider
from mirrorfleet.kafka.versions import ApiVersions, VersionRange

SOFTWARE_NAME: Final = "mirrorfleet"
SOFTWARE_VERSION: Final = "0.1.0"

_Answer = ApiVersionsResponseV0 | ApiVersionsResponseV3 | ApiVersionsResponseV4


class Connector(Protocol):
    """The transport port: makes a connection ready for requests, or raises an error of ours."""

    async def open(self, host: str, port: int) -> Connection:
        """A new connection to a broker, negotiated and authenticated."""
        ...


class TcpConnector:
    """Connections over TCP, with TLS and SASL as the settings say."""

    def __init__(
        self,
        settings: ClusterSettings,
        tokens: TokenProvider | None = None,
        dice: Dice | None = None,
    ) -> None:
        """`tokens` replaces the token source of the settings. Raises: ConfigError."""
        self._settings = settings
        security = settings.security
        self._sasl = SaslClient(security, tokens, dice) if security.protocol.sasl else None
        self._tls = TlsContexts(security) if security.protocol.tls else None

    async def open(self, host: str, port: int) -> Connection:
        """A connection that is negotiated and authenticated.

        Raises: ConnectionLostError, DeadlineError, AuthenticationError, UnsupportedError,
        ConfigError (a certificate or secret file that cannot be read).
        """
        timeout = self._settings.connect_timeout_s
        try:
            async with asyncio.timeout(timeout):
                connection = await self._connect(host, port)
                try:
                    await self._prepare(connection)
                except BaseException:
                    connection.close()
                    raise
        except TimeoutError:
            raise DeadlineError(
                f"{host}:{port} ({self._settings.alias}): no connection within {timeout} s.",
                hint="Check the address, the network and the firewall.",
            ) from None
        return connection

    async def _prepare(self, connection: Connection) -> None:
        timeout = self._settings.connect_timeout_s
        connection.versions = await negotiate(connection, timeout)
        if self._sasl is not None:
            await self._sasl.authenticate(connection, timeout)

    async def _connect(self, host: str, port: int) -> Connection:
        """TCP, and TLS when configured."""
        peer = f"{host}:{port}"
        context = None if self._tls is None else self._tls.current(time.monotonic())
        loop = asyncio.get_running_loop()
        try:
            # Made first: without memory for it, no socket is left behind.
            connection = Connection(f"{peer} ({self._settings.alias})", self._settings.client_id)
            dialed = await dial(host, port, self._settings.connect_timeout_s)
            try:
                transport, _ = await loop.create_connection(
                    lambda: connection,
                    sock=dialed,
                    ssl=context,
                    server_hostname=host if context is not None else None,
                )
            except BaseException:
                dialed.close()
                raise
        except ssl.SSLError as error:
            raise explain_tls(peer, error, self._settings.security) from error
        except socket.gaierror as error:
            raise ConnectionLostError(
                f"{peer} ({self._settings.alias}): the name does not resolve ({error.strerror}).",
                hint="Check the address in `bootstrap` and the brokers' advertised.listeners.",
            ) from error
        except MemoryError as error:
            raise NoMemoryError(f"a connection to {peer} ({self._settings.alias})") from error
        except OSError as error:
            raise self._unreachable(peer, error) from error
        raw = transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return connection

    def _unreachable(self, peer: str, error: OSError) -> ConnectionLostError:
        where = f"{peer} ({self._settings.alias})"
        if isinstance(error, ConnectionResetError | ConnectionAbortedError):
            return ConnectionLostError(
                f"{where}: closed in the TLS handshake.",
                hint="Check that this listener speaks TLS: security.protocol, or the port.",
            )
        reason = os.strerror(error.errno) if error.errno else str(error)
        return ConnectionLostError(
            f"{where}: cannot connect: {reason}.",
            hint="Check that the broker runs and that the address and port are right.",
        )


async def time_again(connection: Connection, deadline_s: float) -> None:
    """Time two more answers: the first one of a busy broker says little of the way to it."""
    for _ in range(2):
        await negotiate(connection, deadline_s)


async def negotiate(connection: Connection, deadline_s: float) -> ApiVersions:
    """Ask a broker what it speaks: v4, then what its refusal names (KIP-511); each answer is timed.

    A broker that does not know our version answers UNSUPPORTED_VERSION in v0's form.
    """
    newest = ApiVersionsRequestV4(
        client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
    )
    answer = await _try_version(connection, newest, ApiVersionsResponseV4, deadline_s)
    if answer is None:
        older = ApiVersionsRequestV3(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        answer = await _try_version(connection, older, ApiVersionsResponseV3, deadline_s)
    if answer is None:
        answer = await call(connection, ApiVersionsRequestV0(), ApiVersionsResponseV0, deadline_s)
    code = code_of(answer.error_code)
    if code is not ErrorCode.NONE:
        raise UnsupportedError(f"{connection.peer} refused ApiVersions: {code.name}.")
    return _read_versions(connection.peer, answer)


async def _try_version(
    connection: Connection,
    request: Request,
    expect: type[ApiVersionsResponseV4 | ApiVersionsResponseV3],
    deadline_s: float,
) -> _Answer | None:
    """The answer, or None when the broker does not know this version of ApiVersions."""

    def read(frame: Frame, start: int) -> _Answer | None:
        if int.from_bytes(frame[start : start + 2], "big") == ErrorCode.UNSUPPORTED_VERSION:
            return None
        return decode(expect, frame, start)

    loop = asyncio.get_running_loop()
    began = loop.time()
    answer = await connection.request(
        API_VERSIONS,
        int(request.__version__),
        (encode(request),),
        read,
        flexible=True,
        deadline_s=deadline_s,
    )
    took_s = loop.time() - began
    connection.rtt_s = min(connection.rtt_s or took_s, took_s)
    return answer


def _read_versions(peer: str, answer: _Answer) -> ApiVersions:
    apis = {
        int(api.api_key): VersionRange(api.min_version, api.max_version) for api in answer.api_keys
    }
    if isinstance(answer, ApiVersionsResponseV0):
        return ApiVersions(peer, apis)
    return ApiVersions(
        peer,
        apis,
        supported={
            feature.name: VersionRange(feature.min_version, feature.max_version)
            for feature in answer.supported_features
        },
        finalized={
            feature.name: int(feature.max_version_level) for feature in answer.finalized_features
        },
    )
