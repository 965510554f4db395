"""Arguments and options that several commands have, each with the same words."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from mirrorfleet.operating.terminal import Output

ESTATE: Final = Path("estate.yaml")
"""The file where none is named."""

FromOption = Annotated[str | None, typer.Option("--from", help="Alias of the link's source.")]
TopicArgument = Annotated[str, typer.Argument(help="TOPIC or TOPIC-PARTITION.")]
IntoOption = Annotated[str, typer.Option("--target", help="Alias of the link's target.")]
EstateOption = Annotated[
    Path, typer.Option("--estate", envvar="MIRRORFLEET_ESTATE", help="The estate file.")
]
TargetOption = Annotated[
    str | None, typer.Option("--target", help="Alias of the fleet's target cluster.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="table or json.")]


class Drain(StrEnum):
    """What must have been copied before a group goes over."""

    READ = "read"
    """What it has read."""
    ALL = "all"
    """All that its topics have at the source."""
