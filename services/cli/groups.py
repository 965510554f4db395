"""Commands about consumer groups and offsets: where they are in the other region, over and back."""

from __future__ import annotations

from typing import Annotated

import typer

from mirrorfleet.operating.options import (
    ESTATE,
    Drain,
    EstateOption,
    FromOption,
    IntoOption,
    OutputOption,
    TopicArgument,
    YesOption,
)
from mirrorfleet.operating.terminal import Output
from mirrorfleet.operating.usage import Consent, Where, command_group

moving = typer.Typer()


@moving.command()
def groups(
    target: IntoOption,
    source: FromOption = None,
    group: Annotated[str | None, typer.Option(help="Only this group.")] = None,
    estate: EstateOption = ESTATE,
    output: OutputOption = Output.TABLE,
) -> int:
    """Show each group's offsets on both sides, and what they are in the other region."""
    from mirrorfleet.operating import offsets as command  # noqa: PLC0415 - loaded when used

    return command.run_groups(Where(estate, target, source), group, output)


@moving.command()
def failover(
    target: IntoOption,
    groups: Annotated[
        list[str] | None, typer.Argument(help="Groups; all that the rules take by default.")
    ] = None,
    source: FromOption = None,
    within: Annotated[
        float, typer.Option(min=0, max=86_400, help="Seconds to wait for it; 0: look once.")
    ] = 60,
    drain: Annotated[
        Drain, typer.Option(help="Wait for what a group has read, or for all that its topics have.")
    ] = Drain.READ,
    estate: EstateOption = ESTATE,
    output: OutputOption = Output.TABLE,
) -> int:
    """Wait until stopped groups can go on at the target, at the exact record. Exit 2 if not."""
    from mirrorfleet.operating import moving as command  # noqa: PLC0415 - loaded when used

    wish = command.Wish(tuple(groups or ()), within, drain)
    return command.run_failover(Where(estate, target, source), wish, output)


@moving.command()
def failback(
    target: IntoOption,
    groups: Annotated[
        list[str] | None, typer.Argument(help="Groups; all that the rules take by default.")
    ] = None,
    source: FromOption = None,
    yes: YesOption = False,  # noqa: FBT002 - typer's way to say a switch
    estate: EstateOption = ESTATE,
    output: OutputOption = Output.TABLE,
) -> int:
    """Set stopped groups of the target to go on at home, behind what they have read there."""
    from mirrorfleet.operating import moving as command  # noqa: PLC0415 - loaded when used

    consent = Consent.GIVEN if yes else Consent.ASK
    return command.run_failback(Where(estate, target, source), groups or (), consent, output)


offsets = command_group("Offsets of both sides.")
moving.add_typer(offsets, name="offsets")


@offsets.command()
def translate(
    topic: TopicArgument,
    offset: Annotated[int, typer.Argument(min=0, max=2**63 - 1, help="The next offset to read.")],
    target: IntoOption,
    source: FromOption = None,
    back: Annotated[bool, typer.Option("--back", help="From target to source.")] = False,  # noqa: FBT002 - typer's way to say a switch
    estate: EstateOption = ESTATE,
    output: OutputOption = Output.TABLE,
) -> int:
    """Translate an offset exactly: the first copied record that is not below it."""
    from mirrorfleet.operating import offsets as command  # noqa: PLC0415 - loaded when used

    way = command.Direction.TO_SOURCE if back else command.Direction.TO_TARGET
    where = Where(estate, target, source)
    return command.run_translate(where, topic, offset, way, output)
