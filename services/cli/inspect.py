"""`inspect`: the headers of stored batches, or the decoded records of a control topic.

Record contents are users' data: they are shown only when asked for, shortened, with a warning.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mirrorfleet.config.load import load_estate
from mirrorfleet.config.model import Estate
from mirrorfleet.config.places import cluster_of_topic
from mirrorfleet.kafka.browsing import Show, Stored, Wanted, stored_rows
from mirrorfleet.operating.connecting import open_cluster
from mirrorfleet.operating.terminal import (
    EXIT_ERROR,
    EXIT_OK,
    Output,
    print_json,
    print_table,
    say_error,
    say_note,
)
from mirrorfleet.records.readable import decoder_of
from mirrorfleet.records.topics import without_partition

__all__ = ["Asked", "Show", "run"]

_WARNING: Final = (
    "warning: record contents may be personal or secret data; keep this output off tickets and chat"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The command's arguments; `start` None means the last ones."""

    topic: str
    cluster: str | None
    start: int | None
    limit: int
    show: Show


def run(estate_file: Path, asked: Asked, output: Output) -> int:
    """Prints what is stored."""
    estate = load_estate(estate_file)
    alias = cluster_of_topic(estate, asked.topic, asked.cluster)
    if asked.show is Show.RECORDS and decoder_of(without_partition(asked.topic)) is None:
        say_note(_WARNING)
    found = asyncio.run(_stored(estate, alias, asked))
    if output is Output.JSON:
        print_json(found.rows)
    elif found.rows:
        print_table(list(found.rows[0]), found.rows)
    elif not (found.held or found.unread):
        say_note("nothing is stored there")
    return _explained(found)


def _explained(found: Stored) -> int:
    """Says what is there and is not shown; the exit code."""
    for number, (first, end) in found.held.items():
        where = f"{found.topic}-{number}: offsets {first} to {end - 1}"
        say_note(f"{where} are not shown: transactions that are still open hold them back")
    for number, error in found.unread.items():
        say_error(f"{found.topic}-{number}: {error}")
    return EXIT_ERROR if found.unread else EXIT_OK


async def _stored(estate: Estate, alias: str, asked: Asked) -> Stored:
    async with open_cluster(estate, alias) as cluster:
        wanted = Wanted(asked.topic, asked.start, asked.limit, asked.show)
        return await stored_rows(cluster, wanted)
