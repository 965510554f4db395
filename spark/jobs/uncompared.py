"""What the audit refuses of partitions of which one side or the catalog knows nothing."""

from __future__ import annotations

from collections.abc import Mapping

from spark.broker import Range
from spark.jobs.running import NotIntactError


def and_more(others: int) -> str:
    """What is added where other partitions are as the one that is named."""
    return f" So it is with {others} more of its partitions." if others else ""


def refuse_uncopied(topic: str, link: str, uncopied: Mapping[int, Range]) -> None:
    """A topic that grew where its copy could not has records that no line of the map is about.

    Raises: NotIntactError.
    """
    found = {number: each for number, each in uncopied.items() if each.end > each.start}
    if not found:
        return
    first, more = min(found), and_more(len(found) - 1)
    raise NotIntactError(
        f"{topic}-{first}: the source has offsets {found[first].start}..{found[first].end - 1}, and"
        f" nothing copies them over {link}: the catalog has no entry of this partition.{more}",
        hint="`mirrorfleet plan` says why the copy has fewer partitions, and so does /status of"
        " sync; one that is new has its entry after the next look of sync.",
    )


def refuse_gone(topic: str, link: str, gone: Mapping[int, int]) -> None:
    """`gone`: how many records the map has of each partition that the target lacks.

    Raises: NotIntactError.
    """
    if not gone:
        return
    first, more = min(gone), and_more(len(gone) - 1)
    raise NotIntactError(
        f"{topic}-{first}: {gone[first]} records were copied over {link}, and the target has no"
        f" such partition: they are gone there.{more}",
        hint="The target's topic was deleted or made again with fewer partitions: `mirrorfleet"
        " status` says what the mirror makes of it.",
    )
