"""Where OAUTHBEARER tokens come from: a file, an OIDC endpoint, or made here without signature.

A provider is asked for each authentication, so a renewed token is used from then on. Tokens
never show in errors or logs. A source that is away for a moment is an error that a retry helps:
the connections that are authenticated already go on meanwhile.
"""

from __future__ import annotations

import asyncio
import base64
import http
import http.client
import json
import ssl
import time
import urllib.parse
from typing import Final, Protocol

from mirrorfleet.config.cluster_settings import Security, read_secret_file
from mirrorfleet.core.errors import (
    AuthenticationError,
    ConfigError,
    ConnectionLostError,
    DeadlineError,
)
from mirrorfleet.kafka.kept_token import KeptToken, lifetime_s
from mirrorfleet.kafka.threads import begun

_HTTP_TIMEOUT_S: Final = 10.0
_PATIENCE_S: Final = 0.5
"""How long a newer token is waited for while the one before would do."""
_TOO_MANY: Final = http.HTTPStatus.TOO_MANY_REQUESTS
_SERVER_ERROR: Final = http.HTTPStatus.INTERNAL_SERVER_ERROR
_AWAY: Final = "Check that token_url is right and that its server runs."
_UNSECURED_LIFETIME_S: Final = 3600


class TokenProvider(Protocol):
    """The port: gives a bearer token that is valid now."""

    async def token(self, beyond_s: float = 0.0) -> str:
        """A token; to renew a session of which `beyond_s` is left, one that lasts longer.

        Raises: ConnectionLostError, DeadlineError (its source is away), AuthenticationError,
        ConfigError.
        """
        ...

    async def newest(self) -> str:
        """A new one, for who is not told of a refusal; while none is given, the one before for as
        long as it lasts. Raises: as `token`.
        """
        ...

    def refused(self, token: str) -> None:
        """A broker refused this token: it is not given out again if the source has another."""
        ...


class FileTokens:
    """The content of a file, read for each authentication: whoever renews it writes it anew."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def token(self, beyond_s: float = 0.0) -> str:  # noqa: ARG002 - as it is
        """The file's token.

        Raises: ConfigError when it cannot be read; ConnectionLostError when it is empty, as it is
        for a moment when it is written in place.
        """
        found = read_secret_file(self._path).strip()
        if not found:
            raise ConnectionLostError(
                f"token file {self._path} is empty.", hint="Check what writes security.token_file."
            )
        return found

    async def newest(self) -> str:
        """As it is now. Raises: as `token`."""
        return await self.token()

    def refused(self, token: str) -> None:
        """Nothing to do: none is kept."""


class ClientCredentialsTokens:
    """Tokens of an OIDC provider by client credentials (RFC 6749 section 4.4).

    All connections share one, and one request for a newer one, which outlives who began it. While
    the provider is away, the token before is used as long as it lasts.
    """

    def __init__(self, security: Security, url: str) -> None:
        self._security = security
        self._url = url
        self._kept: KeptToken | None = None
        self._asking: asyncio.Task[str] | None = None

    async def token(self, beyond_s: float = 0.0) -> str:
        """The token that is kept, or a new one from the endpoint. Raises: as the port says."""
        kept = self._kept
        if kept is not None and kept.is_fresh(asyncio.get_running_loop().time(), beyond_s):
            return kept.value
        return await self._newer(beyond_s)

    async def newest(self) -> str:
        """One from the endpoint, or the one before. Raises: as the port says."""
        return await self._newer(0.0)

    async def _newer(self, beyond_s: float) -> str:
        asking = self._asking or self._ask()
        would_do = self._lasting(beyond_s) is not None
        await asyncio.wait((asking,), timeout=_PATIENCE_S if would_do else None)
        if not asking.done() or asking.cancelled() or asking.exception() is not None:
            before = self._lasting(beyond_s)
            if before is not None:
                return before
        return await asyncio.shield(asking)

    def refused(self, token: str) -> None:
        """The next login gets a new one."""
        if self._kept is not None and self._kept.value == token:
            self._kept = None

    def _lasting(self, beyond_s: float) -> str | None:
        now = asyncio.get_running_loop().time()
        return self._kept.value if self._kept and self._kept.lasts(now, beyond_s) else None

    def _ask(self) -> asyncio.Task[str]:
        self._asking = asyncio.create_task(self._new(), name=f"token:{self._url}")
        self._asking.add_done_callback(self._asked)
        return self._asking

    def _asked(self, asking: asyncio.Task[str]) -> None:
        self._asking = None
        if not asking.cancelled():
            asking.exception()  # if nobody waits for it any more there must be no log line

    async def _new(self) -> str:
        since = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(_HTTP_TIMEOUT_S):
                found, lasts_s = await asyncio.wrap_future(begun(self._fetch, "token"))
        except TimeoutError:
            raise self._late() from None
        self._kept = KeptToken(found, since, since + lasts_s)
        return found

    def _fetch(self) -> tuple[str, float]:
        """A new token, and how long it lasts."""
        fields = {"grant_type": "client_credentials"}
        if self._security.token_scope:
            fields["scope"] = self._security.token_scope
        client, secret = self._security.token_client_id, self._secret()
        if client is None or secret is None:
            raise ConfigError(
                "token_url needs token_client_id and token_client_secret.", path="security"
            )
        pair = f"{urllib.parse.quote(client)}:{urllib.parse.quote(secret)}"
        headers = {
            "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        try:
            return self._post(urllib.parse.urlencode(fields), headers)
        except TimeoutError:
            raise self._late() from None
        except (ValueError, KeyError, TypeError, http.client.InvalidURL) as error:
            # a certificate that does not fit is a ValueError too
            raise self._refused(f"{type(error).__name__}: {error}") from None
        except (OSError, http.client.HTTPException) as error:
            raise self._away(f"{type(error).__name__}: {error}") from None

    def _secret(self) -> str | None:
        try:
            return self._security.read_client_secret()
        except ConfigError as error:  # it was there at the start: it is being renewed
            raise ConnectionLostError(self._no_token(str(error)), hint=error.hint) from error

    def _post(self, body: str, headers: dict[str, str]) -> tuple[str, float]:
        """One POST without redirects; the `access_token` of its JSON answer, and its life."""
        connection = self._connect()
        path = urllib.parse.urlsplit(self._url)._replace(scheme="", netloc="", fragment="")
        try:
            connection.request("POST", path.geturl() or "/", body, headers)
            with connection.getresponse() as answer:
                if answer.status >= _SERVER_ERROR or answer.status == _TOO_MANY:
                    raise self._away(f"status {answer.status}")
                if answer.status != http.HTTPStatus.OK:
                    raise self._refused(f"status {answer.status}")
                said: dict[str, object] = json.load(answer)
                token = str(said["access_token"])
                return token, lifetime_s(said, token, time.time())
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        url = urllib.parse.urlsplit(self._url)
        host = url.hostname or ""
        if url.scheme == "https":
            return http.client.HTTPSConnection(
                host, url.port, timeout=_HTTP_TIMEOUT_S, context=self._context()
            )
        if url.scheme == "http":
            return http.client.HTTPConnection(host, url.port, timeout=_HTTP_TIMEOUT_S)
        raise ConfigError(f"token_url {self._url} is not http or https.", path="security.token_url")

    def _context(self) -> ssl.SSLContext:
        context, ca_file = ssl.create_default_context(), self._security.ca_file
        if ca_file is not None:
            try:
                context.load_verify_locations(ca_file)
            except OSError as error:
                raise ConfigError(
                    f"security.ca_file ({ca_file}): {error.strerror or error}.",
                    path="security.ca_file",
                ) from error
        return context

    def _refused(self, why: str) -> AuthenticationError:
        hint = "Check token_url, token_client_id and the client's secret."
        return AuthenticationError(self._no_token(why), hint=hint)

    def _away(self, why: str) -> ConnectionLostError:
        return ConnectionLostError(self._no_token(why), hint=_AWAY)

    def _late(self) -> DeadlineError:
        return DeadlineError(self._no_token(f"no answer within {_HTTP_TIMEOUT_S:g} s"), hint=_AWAY)

    def _no_token(self, why: str) -> str:
        client = self._security.token_client_id
        return f"token endpoint {self._url}: no token for client {client}: {why}."


class UnsecuredTokens:
    """Tokens without signature (RFC 7515 appendix A.5), for brokers set up for tests only."""

    def __init__(self, principal: str, lifetime_s: int = _UNSECURED_LIFETIME_S) -> None:
        self._principal = principal
        self._lifetime_s = lifetime_s

    async def token(self, beyond_s: float = 0.0) -> str:  # noqa: ARG002 - each is new
        """A token that says who we are, and proves nothing."""
        now = int(time.time())  # rounded down: a broker refuses a token of the future
        claims = {"sub": self._principal, "iat": now, "exp": now + self._lifetime_s}
        return f"{_part({'alg': 'none'})}.{_part(claims)}."

    async def newest(self) -> str:
        """Each is new."""
        return await self.token()

    def refused(self, token: str) -> None:
        """Nothing to do: none is kept."""


def token_provider(security: Security) -> TokenProvider:
    """The provider that the settings name. Raises: ConfigError when they name none."""
    if security.token_file is not None:
        return FileTokens(security.token_file)
    if security.token_url is not None:
        return ClientCredentialsTokens(security, security.token_url)
    if security.username is not None:
        return UnsecuredTokens(security.username)
    raise ConfigError(
        "OAUTHBEARER needs token_file, or token_url with client credentials.",
        path="security",
        hint="For a test broker that takes unsecured tokens, set username.",
    )


def _part(claims: dict[str, object]) -> str:
    raw = json.dumps(claims).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
