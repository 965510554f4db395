"""`python -m services.local up|down|status|broker`: the region pair on this machine."""

from __future__ import annotations

import signal
import sys
from enum import StrEnum
from typing import Annotated

import typer

from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.operating.terminal import Output, print_json, say_error
from services.local import pair, properties
from services.local.broker import LocalError
from services.local.region import DEFAULT_KAFKA, Region, RegionSpec, Tuning
from services.local.security import Authorizer, Kind, RegionSecurity

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
Name = Annotated[str, typer.Option(help="Name of the pair; state is in .local/NAME.")]


class Action(StrEnum):
    """What may be done to one broker."""

    START = "start"
    STOP = "stop"
    KILL = "kill"


Format = Annotated[Output, typer.Option("--output", "-o", help="How to print it.")]


def show(regions: list[Region], output: Output) -> None:
    """One line a broker, or the same as JSON."""
    rows = [
        {
            "region": region.name,
            "broker": broker.node_id,
            "bootstrap": f"127.0.0.1:{broker.port}",
            "state": "running" if broker.pid else "down",
            "pid": broker.pid,
            "kafka": region.spec.kafka,
            "security": str(region.spec.security.kind),
            "log": str(broker.log),
        }
        for region in regions
        for broker in region.brokers
    ]
    if output is Output.JSON:
        print_json(rows)
        return
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))


@app.command()
def up(  # noqa: PLR0913 - one parameter an option of the command
    *,
    name: Name = "pair",
    ports: Annotated[str, typer.Option(help="auto, or PORT,PORT for east and west.")] = "",
    brokers: Annotated[int, typer.Option(min=1, max=9, help="Brokers a side.")] = 1,
    kafka: Annotated[str, typer.Option(help="Kafka version of both sides.")] = DEFAULT_KAFKA,
    kafka_east: Annotated[str, typer.Option(help="Kafka version of east.")] = "",
    kafka_west: Annotated[str, typer.Option(help="Kafka version of west.")] = "",
    security: Annotated[Kind, typer.Option(help="How clients connect.")] = Kind.PLAINTEXT,
    authorizer: Annotated[Authorizer, typer.Option(help="Check ACLs?")] = Authorizer.NONE,
    tuning: Annotated[Tuning, typer.Option(help="What Java is good at.")] = Tuning.QUICK,
    heap_mb: Annotated[int, typer.Option(min=128, help="Java heap of a broker.")] = 512,
    foreground: Annotated[bool, typer.Option(help="Stay; Ctrl-C takes it down.")] = False,
    output: Format = Output.TABLE,
) -> None:
    """Bring both regions up, or find them up."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that `up` tidies what it began
    versions = {"east": kafka_east or kafka, "west": kafka_west or kafka}
    specs = [
        RegionSpec(
            name=side,
            brokers=brokers,
            kafka=version,
            security=RegionSecurity(kind=security, authorizer=authorizer),
            tuning=tuning,
            heap_mb=heap_mb,
        )
        for side, version in versions.items()
    ]
    regions = pair.up(name, specs, ports)
    try:
        show(regions, output)
        if foreground:
            signal.pause()
        for region in regions:
            for broker in region.brokers:
                broker.release()
    except (KeyboardInterrupt, SystemExit):
        pair.down(name)


@app.command()
def down(*, name: Name = "pair") -> None:
    """Stop both regions and remove what they wrote."""
    stopped = pair.down(name)
    print(f"{name}: {'stopped ' + ', '.join(r.name for r in stopped) if stopped else 'not up'}")


@app.command()
def status(*, name: Name = "pair", output: Format = Output.TABLE) -> None:
    """Each broker; exit code 2 when one is down, or there is no pair."""
    regions = pair.find(name)
    show(regions, output)
    if not regions and output is Output.TABLE:
        print(f"{name}: not up")
    if not regions or not all(broker.pid for r in regions for broker in r.brokers):
        raise typer.Exit(2)


@app.command()
def broker(action: Action, region: str, node_id: int = 1, *, name: Name = "pair") -> None:
    """Start, stop or kill one broker, as tests of failures do."""
    found = [r for r in pair.find(name) if r.name == region and 0 < node_id <= len(r.brokers)]
    if not found:
        raise LocalError(f"{name} has no broker {node_id} in a region {region}.")
    one = found[0].broker(node_id)
    if action is Action.START:
        one.restart()
        one.release()
    else:
        (one.stop if action is Action.STOP else one.kill)()


@app.command()
def environment() -> None:
    """The broker settings of one-broker regions as a container's environment file."""
    print("# Written by `make broker-env`; the table is in services/local/properties.py.")
    for key, value in properties.environment(properties.common(brokers=1)).items():
        print(f"{key}={value}")


def main() -> None:
    """Run a command; our errors and the system's become one line and exit code 1."""
    try:
        app()
    except (MirrorfleetError, OSError) as error:
        say_error(str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
