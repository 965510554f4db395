"""The commands, their arguments and help. What they do is in a module each, loaded when used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mirrorfleet.operating.options import (
    ESTATE,
    EstateOption,
    FromOption,
    IntoOption,
    OutputOption,
    TargetOption,
    TopicArgument,
    YesOption,
)
from mirrorfleet.operating.terminal import Output
from mirrorfleet.operating.usage import Consent, Where, command_group
from services.cli.groups import moving

app = command_group("Keep Kafka clusters in step across regions, exactly once.")
app.add_typer(moving)

_PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True}
# A command's module is imported by the command: `--help` must not wait for the Kafka client.


@app.command()
def validate(
    estate: EstateOption = ESTATE,
    target: TargetOption = None,
    live: Annotated[bool, typer.Option("--live", help="Connect to the clusters, too.")] = False,  # noqa: FBT002 - typer's way to say a switch
    output: OutputOption = Output.TABLE,
) -> int:
    """Check the estate file; with --live also the clusters. Writes nothing."""
    from services.cli import validate as command  # noqa: PLC0415 - loaded when used

    return command.run(estate, target, output, command.Depth.LIVE if live else command.Depth.FILE)


@app.command()
def acls(
    target: Annotated[str, typer.Option("--target", help="Alias of the fleet's target cluster.")],
    estate: EstateOption = ESTATE,
    service: Annotated[
        list[str] | None, typer.Option("--service", help="Only for this service; repeatable.")
    ] = None,
    principal: Annotated[
        str | None, typer.Option(help="User:NAME; by default the estate's user of each cluster.")
    ] = None,
    host: Annotated[str, typer.Option(help="Host that may connect.")] = "*",
    output: OutputOption = Output.TABLE,
) -> int:
    """Print the access that a fleet needs, ready to paste: on each cluster, and no more."""
    from services.cli import acls as command  # noqa: PLC0415 - loaded when used

    asked = command.Asked(target, tuple(service or ()), principal, host)
    return command.run(estate, asked, output)


@app.command(context_settings=_PASS_THROUGH)
def run(
    context: typer.Context,
    service: Annotated[str, typer.Argument(help="mirror, sync, ...")],
    target: Annotated[str, typer.Option("--target", help="Alias of the fleet's target cluster.")],
    estate: EstateOption = ESTATE,
) -> int:
    """Run one service of a fleet in the foreground. Further options go to the service."""
    from services.cli import run as command  # noqa: PLC0415 - loaded when used

    return command.run_service(service, target, estate, context.args)


@app.command(context_settings=_PASS_THROUGH, add_help_option=False)
def local(context: typer.Context) -> int:
    """Two real Kafka regions on this machine: up, down, status."""
    from services.cli import run as command  # noqa: PLC0415 - loaded when used

    return command.run_local(context.args)


@app.command()
def status(
    estate: EstateOption = ESTATE,
    target: TargetOption = None,
    output: OutputOption = Output.TABLE,
) -> int:
    """Show where each partition stands. Exit 2 when one is faulted, stalled or without an owner."""
    from services.cli import status as command  # noqa: PLC0415 - loaded when used

    return command.run(estate, target, output)


@app.command()
def top(
    target: IntoOption,
    every: Annotated[float, typer.Option(min=1, max=3_600, help="Seconds between looks.")] = 2,
    most: Annotated[int, typer.Option(min=1, help="Topics of a frame.")] = 30,
    estate: EstateOption = ESTATE,
    output: OutputOption = Output.TABLE,
) -> int:
    """Show the busiest topics again and again; one frame as JSON, or where nobody watches."""
    from mirrorfleet.operating import top as command  # noqa: PLC0415 - loaded when used

    return command.run(estate, target, every, most, output)


@app.command()
def explain(
    topic: TopicArgument, estate: EstateOption = ESTATE, output: OutputOption = Output.TABLE
) -> int:
    """Say what a topic is to each link: copied where to, a copy of what, or why it is neither."""
    from mirrorfleet.operating import explaining as command  # noqa: PLC0415 - loaded when used

    return command.run(estate, topic, output)


@app.command()
def doctor(
    workers: Annotated[list[str], typer.Argument(help="http://HOST:PORT of each worker.")],
    output: OutputOption = Output.TABLE,
) -> int:
    """Say what limits each slot now: core, target, window, round trip, memory, source."""
    from mirrorfleet.operating import doctor as command  # noqa: PLC0415 - loaded when used

    return command.run(workers, output)


@app.command()
def fence(
    link: Annotated[str, typer.Argument(help="SOURCE->TARGET, in quotes.")],
    reason: Annotated[str, typer.Option(help="Why; workers and `status` tell it.")] = "",
    lift: Annotated[bool, typer.Option("--lift", help="Let it copy again.")] = False,  # noqa: FBT002 - typer's way to say a switch
    estate: EstateOption = ESTATE,
    output: OutputOption = Output.TABLE,
) -> int:
    """Stop a link now, also workers out of reach: its slots stand until the fence is lifted."""
    from services.cli import fence as command  # noqa: PLC0415 - loaded when used

    why = reason or "no reason was given"
    return command.run(estate, link, None if lift else why, output)


@app.command()
def pause(
    topic: TopicArgument,
    target: IntoOption,
    source: FromOption = None,
    estate: EstateOption = ESTATE,
    output: OutputOption = Output.TABLE,
) -> int:
    """Let a topic, or one partition of it, stand until it is resumed; nothing is forgotten."""
    from services.cli import pausing as command  # noqa: PLC0415 - loaded when used

    where = Where(estate, target, source)
    return command.run(where, topic, command.PAUSED, output)


@app.command()
def resume(
    topic: TopicArgument,
    target: IntoOption,
    source: FromOption = None,
    estate: EstateOption = ESTATE,
    output: OutputOption = Output.TABLE,
) -> int:
    """Let what was paused go on where it stopped."""
    from services.cli import pausing as command  # noqa: PLC0415 - loaded when used

    where = Where(estate, target, source)
    return command.run(where, topic, command.ACTIVE, output)


@app.command()
def throttle(
    topic: TopicArgument,
    limit: Annotated[str, typer.Argument(help="Bytes a second, as 5MB; `off`: as its rule says.")],
    target: IntoOption,
    source: FromOption = None,
    estate: EstateOption = ESTATE,
    output: OutputOption = Output.TABLE,
) -> int:
    """Read so much a second of each partition of a topic, or of one, whatever its rule says."""
    from services.cli import pausing as command  # noqa: PLC0415 - loaded when used

    return command.run_throttle(Where(estate, target, source), topic, limit, output)


@app.command(name="inspect")
def inspect_topic(
    topic: TopicArgument,
    estate: EstateOption = ESTATE,
    cluster: Annotated[str | None, typer.Option(help="Alias of the cluster.")] = None,
    start: Annotated[
        int | None, typer.Option("--from", help="First offset; by default the last batches.")
    ] = None,
    limit: Annotated[
        int,
        typer.Option(min=1, max=1_000_000, help="Batches or control records of each partition."),
    ] = 20,
    records: Annotated[bool, typer.Option("--records", help="Show record contents.")] = False,  # noqa: FBT002 - typer's way to say a switch
    output: OutputOption = Output.TABLE,
) -> int:
    """Show batch headers of a topic, or the decoded records of a control topic."""
    from mirrorfleet.operating import inspecting as command  # noqa: PLC0415 - loaded when used

    shown = command.Show.RECORDS if records else command.Show.HEADERS
    return command.run(estate, cluster, command.Wanted(topic, start, limit, shown), output)


@app.command()
def verify(
    topic: TopicArgument,
    target: IntoOption,
    source: FromOption = None,
    first: Annotated[
        int | None, typer.Option(min=0, help="First offset; by default the last ones.")
    ] = None,
    offsets: Annotated[
        int, typer.Option(min=1, help="So many offsets of each partition.")
    ] = 100_000,
    estate: EstateOption = ESTATE,
    output: OutputOption = Output.TABLE,
) -> int:
    """Read a copied topic on both sides and compare each record. Exit 2 where they differ."""
    from mirrorfleet.operating import verifying as command  # noqa: PLC0415 - loaded when used

    wanted = command.Wanted(topic, first, offsets)
    return command.run(Where(estate, target, source), wanted, output)


@app.command()
def plan(
    estate: EstateOption = ESTATE,
    target: TargetOption = None,
    output: OutputOption = Output.TABLE,
) -> int:
    """Name each change before it happens. Writes nothing; exit 2 when there are any."""
    from services.cli import plan as command  # noqa: PLC0415 - loaded when used

    return command.run_plan(estate, target, output)


@app.command()
def apply(
    estate: EstateOption = ESTATE,
    target: TargetOption = None,
    yes: YesOption = False,  # noqa: FBT002 - typer's way to say a switch
    output: OutputOption = Output.TABLE,
) -> int:
    """Show the plan, ask, make exactly these changes, and report each. Then restart `sync`."""
    from services.cli import plan as command  # noqa: PLC0415 - loaded when used

    consent = Consent.GIVEN if yes else Consent.ASK
    return command.run_apply(estate, target, consent, output)


@app.command(name="format")
def format_level(
    target: Annotated[str, typer.Option("--target", help="Alias of the fleet's target cluster.")],
    wanted: Annotated[
        int | None, typer.Option("--raise-to", help="Write this level from now on; for good.")
    ] = None,
    estate: EstateOption = ESTATE,
    output: OutputOption = Output.TABLE,
) -> int:
    """Show which format a fleet writes and who knows it; raise it after a rolling upgrade."""
    from services.cli import format as command  # noqa: PLC0415 - loaded when used

    return command.run(estate, target, wanted, output)


@app.command()
def resolve(
    topic: Annotated[str, typer.Argument(help="TOPIC-PARTITION of the source.")],
    target: IntoOption,
    source: FromOption = None,
    accept_gap: Annotated[
        str | None, typer.Option(help="FIRST..END: go on though these offsets are lost.")
    ] = None,
    seek: Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="Go on at OFFSET.")] = None,
    skip: Annotated[bool, typer.Option("--skip", help="Leave one record out.")] = False,  # noqa: FBT002 - typer's way to say a switch
    estate: EstateOption = ESTATE,
) -> int:
    """Let a partition that stands still go on, and have the ledger tell what that costs."""
    from mirrorfleet.operating.resolving import wish_of  # noqa: PLC0415 - loaded when used
    from services.cli import resolve as command  # noqa: PLC0415 - loaded when used

    where = Where(estate, target, source)
    return command.run(where, topic, wish_of(accept_gap, seek, skip=skip))


@app.command()
def size(  # noqa: PLR0913 - each is a figure of its own
    records: Annotated[float, typer.Option(min=1, help="Records a second to be copied.")],
    partitions: Annotated[int, typer.Option(min=1, help="Partitions they are spread over.")],
    record_bytes: Annotated[float, typer.Option(min=1, help="Of one as stored.")] = 1_000,
    batch: Annotated[float, typer.Option(min=0, help="Records of a batch; 0: full.")] = 0,
    rtt: Annotated[float, typer.Option(min=0, help="Round trip to the source, ms.")] = 0,
    window: Annotated[
        int | None, typer.Option(min=1, help="Bytes a connection may have under way.")
    ] = None,
    brokers: Annotated[int, typer.Option(min=1, help="Of the source.")] = 3,
    gbit: Annotated[float | None, typer.Option(min=0.001, help="Of the network.")] = None,
    lag: Annotated[float, typer.Option(min=0.001, help="Seconds that a copy may take.")] = 60,
    hops: Annotated[int, typer.Option(min=1, help="Links in a row.")] = 1,
    headroom: Annotated[float, typer.Option(min=1, help="For what waits after an outage.")] = 1.5,
    calibration: Annotated[
        Path | None, typer.Option(help="What `make bench BENCH=--calibrate` has written.")
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="On both sides.")] = False,  # noqa: FBT002 - typer's way to say a switch
    output: OutputOption = Output.TABLE,
) -> int:
    """Say how many workers, slots and connections a rate takes, and what saturates first."""
    from mirrorfleet.operating import sizing as command  # noqa: PLC0415 - loaded when used

    shape = command.Shape(partitions, record_bytes, batch)
    way = command.Way(rtt, window, brokers, gbit, hops)
    wanted = command.Wanted(records, shape, way, lag, headroom, tls)
    return command.run(wanted, calibration, output)


importing = command_group("Take over what another tool is configured with.")
app.add_typer(importing, name="import")


@importing.command(name="mm2")
def import_mm2(
    file: Annotated[Path, typer.Argument(help="What connect-mirror-maker.sh runs with.")],
    name: Annotated[str, typer.Option(help="Name of the estate.")] = "mm2",
) -> int:
    """Print the estate of a MirrorMaker 2; what is left to do, or not as it was, goes to stderr."""
    from mirrorfleet.operating import importing as command  # noqa: PLC0415 - loaded when used

    return command.run(file, name)


positions = command_group("Where each partition stands, as a file.")
app.add_typer(positions, name="positions")


@positions.command(name="export")
def export_positions(target: IntoOption, estate: EstateOption = ESTATE) -> int:
    """Print the position of every partition that a fleet copies, a line of JSON each.

    Exit 1 when none has one, 2 when some have none: they are named on stderr.
    """
    from services.cli import positions as command  # noqa: PLC0415 - loaded when used

    return command.run_export(estate, target)


@positions.command(name="import")
def import_positions(
    file: Annotated[Path, typer.Argument(help="What `positions export` has printed.")],
    target: IntoOption,
    estate: EstateOption = ESTATE,
) -> int:
    """Put positions back that are gone: none that is there, none that is older than its copy."""
    from services.cli import positions as command  # noqa: PLC0415 - loaded when used

    return command.run_import(estate, target, file)
