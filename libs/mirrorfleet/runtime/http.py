"""The HTTP side of a service: `/healthz` `/readyz` `/metrics` `/status`, in the service's own loop.

Read-only and bound to localhost, where it answers to no other name: a page whose name was turned
to 127.0.0.1 after it was loaded (DNS rebinding) would read along in an operator's browser. In a
container it listens to all, and `--http-name` says what it is called. An address is always
answered to, as only a name can be turned: Prometheus asks DNS first and comes with addresses.

Most services only have these four, and take Starlette for them: FastAPI is for those that have
questions with parameters of their own, and takes 6 MB more.

A port asked for by number and taken is an error; otherwise the next free one is used, so that
several workers of a host take consecutive ports.
"""

from __future__ import annotations

import argparse
import errno
import re
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response

from mirrorfleet.core.errors import ConfigError
from mirrorfleet.runtime.metrics import Exposition

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from mirrorfleet.runtime.health import Health
    from mirrorfleet.runtime.metrics import Metrics

HOST: Final = "127.0.0.1"
LOCALHOST: Final = "localhost"
_PORTS_TRIED: Final = 100
_LAST_PORT: Final = 65_535
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
_UNAVAILABLE: Final = 503
_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")
_ASKED: Final = re.compile(r"(?:\[(?P<ipv6>[^][@/]+)\]|(?P<name>[^][@/:]+))(?::[0-9]*)?")
_STRANGER: Final = "This service has another name. --http-name NAME gives it one more.\n"


@runtime_checkable
class Routed(Protocol):
    """A service with questions of its own to answer over HTTP."""

    def app(self) -> Starlette:
        """The application that answers them; it only reads."""
        ...


def build_app(
    *,
    health: Health,
    metrics: Metrics,
    status: Callable[[], Mapping[str, object]],
    names: Collection[str] | None = None,
    app: Starlette | None = None,
) -> Starlette:
    """Add the four to `app`; `status` is asked at each request and must be JSON-ready.

    A request to a name that is not among `names` is answered with 400; None: to any.
    """
    app = app or Starlette()
    if names is not None:
        app.add_middleware(Named, names=names)
    exposition = Exposition(metrics)

    async def healthz(_: Request) -> Response:
        return JSONResponse({"alive": True})

    async def readyz(_: Request) -> Response:
        reasons = health.reasons()
        body = {"ready": not reasons, "reasons": reasons, "notes": health.notes()}
        return JSONResponse(body, status_code=_UNAVAILABLE if reasons else 200)

    async def scrape(_: Request) -> Response:
        return Response(exposition.text(), media_type=_PROMETHEUS)

    async def show_status(_: Request) -> Response:
        return JSONResponse(dict(status()))

    app.add_route("/healthz", healthz)
    app.add_route("/readyz", readyz)
    app.add_route("/metrics", scrape)
    app.add_route("/status", show_status)
    return app


def bind(asked: int | None, *, first: int = 0, host: str = HOST) -> socket.socket:
    """A listening socket: port `asked`, or the first free one from `first` (0: any free port).

    Raises:
        ConfigError: the asked port is none, taken or not ours to use, or no port is free.
    """
    if asked is not None and not 0 <= asked <= _LAST_PORT:
        raise ConfigError(f"HTTP port {asked} is not from 0 to {_LAST_PORT}.", path="--http-port")
    if asked is not None or first == 0:
        return _bind_exactly(asked or 0, host)
    for port in range(first, first + _PORTS_TRIED):
        try:
            return _listen(host, port)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise _refused(host, port, error) from error
    raise ConfigError(
        f"no free port on {host} between {first} and {first + _PORTS_TRIED - 1}",
        hint="Give one with --http-port N (0 takes any).",
    )


class Front(NamedTuple):
    """The HTTP side before the loop runs: where it listens, and what it is called (None: any)."""

    listener: socket.socket
    names: Collection[str] | None


def names_of(listener: socket.socket, given: Collection[str] = ()) -> Collection[str] | None:
    """What a listener is called: localhost and the names given to it, if any are, or if only this
    machine reaches it; else None, as only those who reach it know.
    """
    is_ours = ip_address(listener.getsockname()[0]).is_loopback
    return {LOCALHOST, *given} if is_ours or given else None


def host_name(text: str) -> str:
    """A name as it is given on the command line, in lower case.

    Raises:
        argparse.ArgumentTypeError: it is none; names have no port, and no pattern stands for some.
    """
    name = text.lower()
    if not _NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no name of a host; without scheme and port, like console.example.org"
        )
    return name


def is_called(host: str, names: Collection[str]) -> bool:
    """Whether the `Host` of a request is one of `names` or an address, with or without a port."""
    asked = _ASKED.fullmatch(host)
    if asked is None:
        return False
    if asked["name"] is not None and asked["name"].lower() in names:
        return True
    try:
        ip_address(asked["ipv6"] or asked["name"])
    except ValueError:
        return False
    return True


class Named:
    """ASGI middleware: requests to names of others are answered with 400."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or hand on."""
        is_asked = scope["type"] == "http"
        if is_asked and not is_called(Headers(scope=scope).get("host", ""), self._names):
            await PlainTextResponse(_STRANGER, 400)(scope, receive, send)
            return
        await self._app(scope, receive, send)


class HttpServer(uvicorn.Server):
    """uvicorn inside our loop: signals are the supervisor's, sockets are bound before."""

    def __init__(self, app: Starlette, listener: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=1,
                ws="none",
            )
        )
        self._listener = listener

    async def run_until_closed(self) -> None:
        """Answer requests until `close`."""
        await self.serve(sockets=[self._listener])

    def close(self) -> None:
        """Finish open requests, at most one second of them, and end `run_until_closed`."""
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signal handlers alone."""
        yield


def _bind_exactly(port: int, host: str) -> socket.socket:
    try:
        return _listen(host, port)
    except OSError as error:
        raise _refused(host, port, error) from error


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _refused(host: str, port: int, error: OSError) -> ConfigError:
    taken = error.errno == errno.EADDRINUSE
    why = "is taken by another process" if taken else f"cannot be used: {error.strerror}"
    return ConfigError(
        f"HTTP port {host}:{port} {why}.",
        path="--http-port",
        hint="Leave --http-port out to take the next free one, or give another.",
    )
