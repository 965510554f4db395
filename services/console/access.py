"""Who may do what: reading is free, anything else needs the token. Headers that bind browsers.

A page may load its own style and script and nothing else, whatever a topic or group is called.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_READS: Final = frozenset({"GET", "HEAD"})
_SCHEME: Final = "bearer"
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Refusal(NamedTuple):
    """Why a request goes no further."""

    status: int
    error: str
    hint: str


def refusal(method: str, authorization: str | None, token: str | None) -> Refusal | None:
    """Why a request is refused; None when it may go on. `authorization` is that header."""
    if method in _READS:
        return None
    if token is None:
        hint = "Set services.console.token: {env: NAME} in the estate file, and restart it."
        return Refusal(403, "this console is read-only: it has no token.", hint)
    if authorization is None:
        return Refusal(401, f"{method} needs a token.", "Send: Authorization: Bearer TOKEN")
    scheme, _, sent = authorization.partition(" ")
    # compared in the same time whatever is wrong about it
    is_right = hmac.compare_digest(sent.strip().encode(), token.encode())
    if scheme.lower() != _SCHEME or not is_right:
        return Refusal(403, "the token is wrong.", "Send: Authorization: Bearer TOKEN")
    return None


class Gate:
    """ASGI middleware around everything that the console serves."""

    def __init__(self, app: ASGIApp, token: Callable[[], str | None]) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or hand on and add the headers to the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        method = scope["method"]
        token = None if method in _READS else self._token()
        why = refusal(method, Headers(scope=scope).get("authorization"), token)
        if why is None:
            await self._app(scope, receive, send_with_headers)
            return
        extra = {"WWW-Authenticate": "Bearer"} if why.status == 401 else None
        body = {"error": why.error, "hint": why.hint}
        await JSONResponse(body, why.status, extra)(scope, receive, send_with_headers)
