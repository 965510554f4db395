"""`inspect`: the headers of stored batches, or the decoded records of a control topic.

Record contents are users' data: they are shown only when asked for, shortened, with a warning.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from mirrorfleet.config.load import load_estate
from mirrorfleet.config.model import Estate
from mirrorfleet.config.places import cluster_of_topic
from mirrorfleet.kafka.browsing import Show, Stored, Wanted, stored_rows
from mirrorfleet.operating.connecting import open_cluster
from mirrorfleet.operating.stored_shown import show_stored
from mirrorfleet.operating.terminal import Output, say_note
from mirrorfleet.records.readable import decoder_of
from mirrorfleet.records.topics import without_partition

__all__ = ["Show", "Wanted", "run"]

_WARNING: Final = (
    "warning: record contents may be personal or secret data; keep this output off tickets and chat"
)


def run(estate_file: Path, cluster: str | None, wanted: Wanted, output: Output) -> int:
    """Prints what is stored."""
    estate = load_estate(estate_file)
    alias = cluster_of_topic(estate, wanted.topic, cluster)
    if wanted.show is Show.RECORDS and decoder_of(without_partition(wanted.topic)) is None:
        say_note(_WARNING)
    return show_stored(asyncio.run(_stored(estate, alias, wanted)), output)


async def _stored(estate: Estate, alias: str, wanted: Wanted) -> Stored:
    async with open_cluster(estate, alias) as cluster:
        return await stored_rows(cluster, wanted)
