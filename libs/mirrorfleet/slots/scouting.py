"""Looking at new partitions before a slot copies them, while it goes on with the others.

A partition that was made a moment ago is in the metadata before its broker leads it, on either
side. Asking for its start would make its neighbours wait, and a first batch that is refused aborts
the transaction of them all.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.kafka.offsets import LATEST, list_offsets
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.slots import healing, starting
from mirrorfleet.wire.k01_fetch import Isolation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.slots.runner import SlotRunner

AGAIN_S: Final = 0.5
"""Between two looks at what was refused."""

_log = logger(__name__)


class Found(NamedTuple):
    """New partitions that were looked at, and where they begin."""

    entries: Sequence[CatalogPartition]
    starts: starting.Starts


class Scout:
    """One look at a time for one slot; it ends with the tasks of the slot."""

    def __init__(self, runner: SlotRunner) -> None:
        self._runner = runner
        self._task: asyncio.Task[None] | None = None
        self._found: Found | None = None
        self._of_take = 0.0

    def found(self, new: Sequence[CatalogPartition]) -> Found | None:
        """What was found out about these partitions, once; a look at the others begins."""
        found, self._found = self._found, None
        if self._of_take != self._runner.taken_at:
            found, self._of_take = None, self._runner.taken_at  # of an earlier take: it may be old
        left = {entry.identity: entry for entry in new}
        looked_at = () if found is None else found.entries
        # what the catalog changed meanwhile is looked at again
        seen = [left.pop(e.identity) for e in looked_at if left.get(e.identity) == e]
        tasks = self._runner.tasks
        if left and tasks is not None and (self._task is None or self._task.done()):
            look = self._look(list(left.values()))
            self._task = tasks.create_task(look, name=f"scout:{self._runner.number}")
        return None if found is None or not seen else Found(seen, found.starts)

    async def _look(self, new: list[CatalogPartition]) -> None:
        """Ask both sides; both answer only when they lead the partitions, or give up."""
        runner = self._runner
        try:
            unknown = [entry for entry in new if entry.identity not in runner.slot.known]
            starts = await starting.resolve_starts(runner, unknown)
            at = [entry.target for entry in new]
            await list_offsets(
                runner.target,
                dict.fromkeys(at, LATEST),
                isolation=Isolation.READ_UNCOMMITTED,
                deadline_s=starting.START_DEADLINE_S,
            )
            runner.sources.need_partitions((e.source_topic, e.identity.partition) for e in new)
            runner.targets.need_partitions(at)
            self._found = Found(new, starts)
        except MirrorfleetError as error:
            text = fields(slot=runner.number, count=len(new), error=str(error))
            _log.info("new partitions cannot be looked at yet", extra=text)
            self._hold(new, error)
        if self._found is None or self._found.starts.refused:
            await asyncio.sleep(AGAIN_S)
        runner.look_at_entries()

    def _hold(self, new: Sequence[CatalogPartition], error: MirrorfleetError) -> None:
        """They stand, and it is told why; once the source tells who leads them, a look follows."""
        runner = self._runner
        runner.trouble = str(error)
        runner.sources.need_partitions((e.source_topic, e.identity.partition) for e in new)
        for entry in new:
            if entry.identity not in runner.slot.known:
                healing.hold(runner, entry, None)
