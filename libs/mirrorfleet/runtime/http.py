"""The HTTP side of a service: `/healthz` `/readyz` `/metrics` `/status`, in the service's own loop.

Read-only and bound to localhost, where it answers to no other name: a page whose name was turned
to 127.0.0.1 after it was loaded (DNS rebinding) would read along in an operator's browser. A port
asked for by name and taken is an error; otherwise the next free one is used, so that several
workers of a host take consecutive ports.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import uvicorn
from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware

from mirrorfleet.core.errors import ConfigError
from mirrorfleet.runtime.metrics import Exposition

if TYPE_CHECKING:
    from mirrorfleet.runtime.health import Health
    from mirrorfleet.runtime.metrics import Metrics

HOST: Final = "127.0.0.1"
ANY_NAME: Final = ("*",)
_PORTS_TRIED: Final = 100
_LAST_PORT: Final = 65_535
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
_UNAVAILABLE: Final = 503


@runtime_checkable
class Routed(Protocol):
    """A service with questions of its own to answer over HTTP."""

    def add_routes(self, app: FastAPI) -> None:
        """Add them; they only read."""
        ...


def build_app(
    *,
    health: Health,
    metrics: Metrics,
    status: Callable[[], Mapping[str, object]],
    names: Sequence[str] = ANY_NAME,
) -> FastAPI:
    """The application; `status` is asked at each request and must be JSON-ready.

    A request to a host that is not among `names` is answered with 400.
    """
    app = FastAPI(title="mirrorfleet", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(names), www_redirect=False)
    exposition = Exposition(metrics)

    @app.get("/healthz")
    async def healthz() -> Response:
        return JSONResponse({"alive": True})

    @app.get("/readyz")
    async def readyz() -> Response:
        reasons = health.reasons()
        body = {"ready": not reasons, "reasons": reasons, "notes": health.notes()}
        return JSONResponse(body, status_code=_UNAVAILABLE if reasons else 200)

    @app.get("/metrics")
    async def scrape() -> Response:
        return Response(exposition.text(), media_type=_PROMETHEUS)

    @app.get("/status")
    async def show_status() -> Response:
        return JSONResponse(dict(status()))

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


def names_of(listener: socket.socket) -> Sequence[str]:
    """What a listener may be called: where others reach it, only they know its name."""
    address = listener.getsockname()[0]
    return ("localhost", address) if ip_address(address).is_loopback else ANY_NAME


class HttpServer(uvicorn.Server):
    """uvicorn inside our loop: signals are the supervisor's, sockets are bound before."""

    def __init__(self, app: FastAPI, listener: socket.socket) -> None:
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
