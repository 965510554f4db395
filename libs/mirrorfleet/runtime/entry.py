"""What every `python -m services.X` does: read the estate, listen, run the service, exit.

    raise SystemExit(run(Program(name="sync", build=build, http_port=8130)))

The order: arguments, estate, log, HTTP port, `build` (which must not connect), event loop. Until
the loop runs nothing has been written anywhere. Exit 0 when the service ended cleanly, 1 with a
message (what, where, why, what next) when it did not.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mirrorfleet import __version__
from mirrorfleet.config.connect import cluster_settings
from mirrorfleet.config.load import load_estate
from mirrorfleet.config.telemetry import header_secrets, telemetry_settings
from mirrorfleet.core.errors import ConfigError, MirrorfleetError
from mirrorfleet.core.ids import ClusterAlias, FleetName
from mirrorfleet.runtime import memory, metric_names, stall
from mirrorfleet.runtime.clock import SystemClock, SystemDice
from mirrorfleet.runtime.health import Health
from mirrorfleet.runtime.http import (
    HOST,
    Front,
    HttpServer,
    Routed,
    bind,
    build_app,
    host_name,
    names_of,
)
from mirrorfleet.runtime.lifecycle import (
    EXIT_ERROR,
    Failed,
    Lifecycle,
    Service,
    State,
    Stop,
    supervise,
)
from mirrorfleet.runtime.log import configure, fields, logger
from mirrorfleet.runtime.metrics import Metrics
from mirrorfleet.runtime.telemetry import OFF, Telemetry, start_telemetry

if TYPE_CHECKING:
    from mirrorfleet.config.model import Estate
    from mirrorfleet.core.ports import Clock, Dice

DRAIN_S: Final = 8.0
"""SIGTERM to exit takes at most 10 s; two are left for the connections and the process."""

LAST_SPANS_S: Final = 1.0
"""For the spans that wait when a service ends."""

_STATES: Final = tuple(each.__name__.lower() for each in State.__args__)
_log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """All that a service is built from."""

    estate: Estate
    target: ClusterAlias
    fleet: FleetName
    settings: Mapping[str, object]
    """The service's own subtree of the estate file, not validated."""
    owner: str
    """Name of this process, unique among all that ever ran."""
    url: str
    """Where its HTTP side listens."""
    clock: Clock
    dice: Dice
    metrics: Metrics
    health: Health
    telemetry: Telemetry = OFF
    """Where spans of sampled work go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A service as a program. `build` must not connect; `http_port` is the first one tried."""

    name: str
    build: Callable[[Context], Service]
    http_port: int
    drain_s: float = DRAIN_S


def run(program: Program, argv: Sequence[str] | None = None) -> int:
    """Run `program` with the command line; the exit code."""
    arguments = _parser(program).parse_args(argv)
    try:
        estate = load_estate(Path(arguments.estate), os.environ)
        target = _target(estate, arguments.target)
        configure(level=arguments.log_level, secrets=_secrets(estate, target))
        listener = bind(arguments.http_port, first=program.http_port, host=arguments.http_host)
    except MirrorfleetError as error:
        return _say(program, str(error))
    lifecycle = Lifecycle()
    front = Front(listener, names_of(listener, arguments.http_name))
    with listener:
        try:
            context = _context(program, estate, target, listener, lifecycle)
            service = program.build(context)
        except MirrorfleetError as error:
            return _say(program, str(error))
        memory.prepare()
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            code = runner.run(_serve(program, context, service, front, lifecycle))
    if isinstance(lifecycle.state, Failed):
        _say(program, lifecycle.state.cause)
    return code


def _parser(program: Program) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m services.{program.name}")
    parser.add_argument("--estate", required=True, help="the estate file")
    parser.add_argument("--target", required=True, help="alias of the fleet's target cluster")
    parser.add_argument(
        "--http-port", type=int, help=f"default: the first free one from {program.http_port}"
    )
    parser.add_argument(
        "--http-host",
        default=HOST,
        help="listen there; 0.0.0.0 is for containers, everyone who reaches it may read",
    )
    parser.add_argument(
        "--http-name",
        action="append",
        default=[],
        type=host_name,
        metavar="NAME",
        help="one more name to answer to, repeatable; with one, or on localhost, to no other name "
        "than these and localhost. Addresses are always answered to",
    )
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning"))
    return parser


def _target(estate: Estate, asked: str) -> ClusterAlias:
    target = ClusterAlias(asked)
    if target not in estate.clusters:
        raise ConfigError(
            f"--target {asked} is no cluster of this estate.",
            path="--target",
            hint=f"It has: {', '.join(sorted(estate.clusters))}.",
        )
    if not estate.links_into(target):
        raise ConfigError(
            f"no link ends at {asked}, so its fleet has nothing to do.",
            path="links",
            hint=f"Add a link with `to: {asked}`, or run the fleet of another cluster.",
        )
    return target


def _secrets(estate: Estate, target: ClusterAlias) -> tuple[str, ...]:
    aliases = {target, *(link.source for link in estate.links_into(target))}
    found: list[str] = []
    for alias in sorted(aliases):
        found += cluster_settings(estate, alias, "mirrorfleet").security.secrets()
    traces = telemetry_settings(estate)
    found += () if traces is None else traces.headers().values()
    found += header_secrets(estate.environment)
    return tuple(secret for secret in found if secret)


def place() -> str:
    """Where our pid means us, short: this boot of the machine and this namespace of pids.

    Two containers with the host's name (`hostNetwork`) are both pid 1, each in a namespace of its
    own. Empty where the kernel does not tell, which is where there are no such containers.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
    return hashlib.sha256(f"{boot} {namespace}".encode()).hexdigest()[:6]


def _context(
    program: Program,
    estate: Estate,
    target: ClusterAlias,
    listener: socket.socket,
    lifecycle: Lifecycle,
) -> Context:
    dice = SystemDice()
    host, port = listener.getsockname()[:2]
    nonce = int(dice.uniform(0, 2**32))
    owner = f"{program.name}:{socket.gethostname()}:{os.getpid()}:{place()}-{nonce:08x}"
    fleet, metrics = estate.fleet_of(target), Metrics()
    return Context(
        estate=estate,
        target=target,
        fleet=fleet,
        settings=estate.services.get(program.name, {}),
        owner=owner,
        url=f"http://{host}:{port}",
        clock=SystemClock(),
        dice=dice,
        metrics=metrics,
        health=Health(lifecycle),
        telemetry=start_telemetry(estate, metrics, service=program.name, fleet=fleet, owner=owner),
    )


async def _serve(
    program: Program,
    context: Context,
    service: Service,
    front: Front,
    lifecycle: Lifecycle,
) -> int:
    def status() -> Mapping[str, object]:
        return {**_head(program, context, lifecycle), **service.status()}

    _common_metrics(program, context, lifecycle)
    own = service.app() if isinstance(service, Routed) else None
    app = build_app(
        health=context.health, metrics=context.metrics, status=status, names=front.names, app=own
    )
    server = HttpServer(app, front.listener)
    stop = Stop(context.clock, program.drain_s)
    code = EXIT_ERROR
    async with asyncio.TaskGroup() as group:
        group.create_task(server.run_until_closed(), name="http")
        watches = [
            group.create_task(stall.watch(context.metrics), name="stall"),
            group.create_task(memory.watch(), name="memory"),
        ]
        told = fields(service=program.name, fleet=context.fleet, url=context.url)
        _log.info("started", extra=told)
        code = await supervise(
            service,
            drain_s=program.drain_s,
            clock=context.clock,
            lifecycle=lifecycle,
            stop=stop,
        )
        for watch in watches:
            watch.cancel()
        await context.telemetry.close(LAST_SPANS_S)
        server.close()
    _log.info("ended", extra=fields(service=program.name, state=lifecycle.name))
    return code


def _head(program: Program, context: Context, lifecycle: Lifecycle) -> dict[str, object]:
    return {
        "service": program.name,
        "version": __version__,
        "fleet": context.fleet,
        "target": context.target,
        "owner": context.owner,
        "state": lifecycle.name,
        "role": context.health.role,
        "ready": context.health.ready,
        "reasons": dict(context.health.reasons()),
    }


def _common_metrics(program: Program, context: Context, lifecycle: Lifecycle) -> None:
    metrics = context.metrics
    metrics.gauge(metric_names.BUILD, program.name, __version__).set(1)
    metrics.on_scrape(metric_names.READY, lambda: [((), float(context.health.ready))])
    metrics.on_scrape(
        metric_names.STATE,
        lambda: [((name,), float(name == lifecycle.name)) for name in _STATES],
    )


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - optional: plain asyncio works too
    except ImportError:
        return None
    return uvloop.new_event_loop


def _say(program: Program, message: str) -> int:
    sys.stderr.write(f"error: mirrorfleet {program.name}: {message}\n")
    return EXIT_ERROR
