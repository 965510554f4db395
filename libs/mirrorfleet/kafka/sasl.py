"""SASL on a connection: handshake, the mechanism's messages, and again before the session ends.

Kafka carries SASL in SaslHandshake and SaslAuthenticate requests (KIP-43, KIP-152); the last
answer says how long the session lasts (KIP-368). A refusal names the broker, the mechanism and the
principal, and never the secret.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Final, TypeVar

from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.static.protocol import Entity

from mirrorfleet.config.cluster_settings import Mechanism, Security
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import AuthenticationError, ConfigError, MirrorfleetError
from mirrorfleet.core.ports import Dice
from mirrorfleet.kafka.backoff import SystemDice
from mirrorfleet.kafka.call import reader_of
from mirrorfleet.kafka.codec import Request, code_of, count_ms, encode
from mirrorfleet.kafka.connection import Connection, Renewal
from mirrorfleet.kafka.scram import ScramError, ScramExchange
from mirrorfleet.kafka.tokens import TokenProvider, token_provider

R = TypeVar("R", bound=Entity)

_NONCE_BYTES: Final = 24
_RENEW_AT: Final = (0.85, 0.95)
"""Parts of a session's lifetime between which it is renewed, as by the Java client: drawn, or all
connections of a process would come to the source of tokens at once."""
_IN_TIME_S: Final = 10.0
"""Before its end at least, if it lives twice as long: what is in flight is answered first, and a
broker looks at the clock when it takes a request up (SocketServer.processCompletedReceives)."""
_NOT_BEFORE_S: Final = 1.5
"""A broker refuses a renewal within a second (SaslServerAuthenticator)."""
_PATIENCE_S: Final = 1.0
"""How long a renewal waits for the secret while the session lasts: requests are held back."""
_AGAIN_S: Final = 5.0
"""After this a renewal without a secret is tried again."""
_LAST_S: Final = 1.0
"""Before the session's end there is one more try, which waits: a broker takes a renewal also after
the end, and nothing else."""


def renewed_after(lifetime_s: float, part: float) -> float:
    """When in its life a session is renewed, in seconds; `part` of it at the latest."""
    latest_s = lifetime_s * part
    in_time_s = lifetime_s - min(_IN_TIME_S, lifetime_s / 2)
    return min(latest_s, max(in_time_s, _NOT_BEFORE_S))


class SaslClient:
    """Authenticates connections as the settings say."""

    def __init__(
        self, security: Security, tokens: TokenProvider | None = None, dice: Dice | None = None
    ) -> None:
        """Raises: ConfigError when the mechanism or what it needs is missing."""
        if security.mechanism is None:
            raise ConfigError(
                f"protocol {security.protocol} needs a mechanism.", path="security.mechanism"
            )
        self._security = security
        self._mechanism = security.mechanism
        self._tokens = tokens
        self._dice: Dice = dice or SystemDice()
        if self._mechanism is Mechanism.OAUTHBEARER:
            self._tokens = tokens or token_provider(security)
        elif security.username is None:
            raise ConfigError(f"{self._mechanism} needs a username.", path="security.username")

    async def authenticate(self, connection: Connection, deadline_s: float) -> None:
        """Authenticate a new connection, and arrange for its renewal.

        Raises: AuthenticationError, ConnectionLostError, DeadlineError, ConfigError.
        """
        connection.renewal = await self._login(connection, await self._secret(), deadline_s)

    async def _renew(
        self, connection: Connection, ends: float, deadline_s: float
    ) -> Renewal | None:
        """Authenticate again. Without a secret the session that there is goes on, as long as it
        lasts: the broker was not told yet that another begins.
        """
        loop = asyncio.get_running_loop()
        last = ends - _LAST_S
        spare_s = last - loop.time()
        try:
            async with asyncio.timeout(min(spare_s, _PATIENCE_S) if spare_s > 0 else None):
                secret = await self._secret(max(ends - loop.time(), 0.0))
        except (MirrorfleetError, TimeoutError):
            if spare_s <= 0:
                raise
            again_s = _AGAIN_S * self._dice.uniform(0.8, 1.2)
            return self._renewal(min(loop.time() + again_s, last), ends, deadline_s)
        return await self._login(connection, secret, deadline_s)

    def _renewal(self, due: float, ends: float, deadline_s: float) -> Renewal:
        return Renewal(due, lambda again: self._renew(again, ends, deadline_s))

    async def _secret(self, beyond_s: float = 0.0) -> str:
        """The token or password, as it is now. Raises: as a TokenProvider."""
        if self._mechanism is Mechanism.OAUTHBEARER and self._tokens is not None:
            return await self._tokens.token(beyond_s)
        return self._security.read_password()

    async def _login(
        self, connection: Connection, secret: str, deadline_s: float
    ) -> Renewal | None:
        exchange = _Exchange(connection, self._security.principal, self._mechanism, deadline_s)
        await exchange.handshake()
        match self._mechanism:
            case Mechanism.PLAIN:
                await exchange.send(self._plain(secret))
            case Mechanism.OAUTHBEARER:
                await self._bearer_or_drop(exchange, secret)
            case Mechanism.SCRAM_SHA_256 | Mechanism.SCRAM_SHA_512:
                await self._scram(exchange, secret)
        if exchange.lifetime_ms <= 0:
            return None
        now, lifetime_s = asyncio.get_running_loop().time(), exchange.lifetime_ms / 1000
        due = now + renewed_after(lifetime_s, self._dice.uniform(*_RENEW_AT))
        return self._renewal(due, now + lifetime_s, deadline_s)

    def _plain(self, password: str) -> bytes:
        """RFC 4616, without an authorization identity."""
        return f"\0{self._security.username}\0{password}".encode()

    async def _scram(self, exchange: _Exchange, password: str) -> None:
        scram = ScramExchange(
            self._mechanism.value,
            self._security.username or "",
            password,
            secrets.token_urlsafe(_NONCE_BYTES),
        )
        try:
            challenge = await exchange.send(scram.first())
            scram.check(await exchange.send(scram.final(challenge)))
        except ScramError as error:
            raise exchange.refused(str(error)) from None

    async def _bearer_or_drop(self, exchange: _Exchange, token: str) -> None:
        """Have a token that is refused not be used again."""
        try:
            await self._bearer(exchange, token)
        except AuthenticationError:
            if self._tokens is not None:
                self._tokens.refused(token)
            raise

    @staticmethod
    async def _bearer(exchange: _Exchange, token: str) -> None:
        """RFC 7628. A refused token is answered with JSON, which wants one more message from us;
        the broker's error then comes as the answer to that.
        """
        answer = await exchange.send(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
        if answer:
            await exchange.send(b"\x01")
            raise exchange.refused(answer.decode(errors="replace"))


class _Exchange:
    """The requests of one authentication."""

    def __init__(
        self, connection: Connection, who: str, mechanism: Mechanism, deadline_s: float
    ) -> None:
        self._connection = connection
        self._who = who
        self._mechanism = mechanism
        self._deadline_s = deadline_s
        self.lifetime_ms = 0

    async def handshake(self) -> None:
        """Agree on the mechanism. Raises: AuthenticationError."""
        request = SaslHandshakeRequest(mechanism=self._mechanism.value)
        answer = await self._ask(request, SaslHandshakeResponse)
        code = code_of(answer.error_code)
        if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(answer.mechanisms) or "none"
            raise self.refused("the broker does not offer this mechanism", f"It offers: {offered}.")
        if code is not ErrorCode.NONE:
            raise self.refused(
                code.name, "The listener may not use SASL: check security.protocol and the port."
            )

    async def send(self, message: bytes) -> bytes:
        """One message of the mechanism; gives the server's. Raises: AuthenticationError."""
        request = SaslAuthenticateRequest(auth_bytes=message)
        answer = await self._ask(request, SaslAuthenticateResponse)
        code = code_of(answer.error_code)
        if code is not ErrorCode.NONE:
            raise self.refused(answer.error_message or code.name)
        self.lifetime_ms = count_ms(answer.session_lifetime)
        return answer.auth_bytes

    def refused(self, why: str, hint: str = "") -> AuthenticationError:
        """The error for a refusal."""
        secret = "token" if self._mechanism is Mechanism.OAUTHBEARER else "username and password"
        return AuthenticationError(
            f"{self._connection.peer}: SASL {self._mechanism} as {self._who} failed:"
            f" {why.rstrip('.')}.",
            hint=hint or f"Check the {secret}, and that the broker knows this user.",
        )

    async def _ask(self, request: Request, expect: type[R]) -> R:
        return await self._connection.request_ahead(
            int(request.__api_key__),
            int(request.__version__),
            (encode(request),),
            reader_of(expect),
            flexible=request.__flexible__,
            deadline_s=self._deadline_s,
        )
