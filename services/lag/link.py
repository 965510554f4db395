"""One link as `lag` watches it: the ends of its source, and its heartbeats on the target."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from mirrorfleet.config.connect import cluster_settings
from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.mapping.catalog import open_source
from mirrorfleet.records import heartbeat
from mirrorfleet.records.overview import duration
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.watching.beats import follow_beats
from mirrorfleet.watching.ends import EndsWatch
from services.lag.report import LinkView

if TYPE_CHECKING:
    from mirrorfleet.core.ids import Link, TopicPartition
    from mirrorfleet.lagging.board import Board
    from mirrorfleet.lagging.partition import PartitionLag
    from mirrorfleet.mapping.catalog import CatalogView
    from mirrorfleet.runtime.entry import Context
    from services.lag.settings import LagSettings

CLIENT: Final = "mirrorfleet-lag"
_TROUBLE_S: Final = 1.0
BEAT_S: Final = 10.0
"""A propagation time older than this says nothing of now."""

_log = logger(__name__)


class LinkWatch:
    """Feeds the board with one link, and says what it cannot see."""

    def __init__(
        self, context: Context, link: Link, target: Cluster, board: Board, tuning: LagSettings
    ) -> None:
        self._context, self._board, self._tuning = context, board, tuning
        self._target = target
        self._partitions: dict[TopicPartition, PartitionLag] = {}
        self._beat_at: float | None = None
        self.view = LinkView(link)
        self._source = Cluster(cluster_settings(context.estate, link.source, CLIENT))
        self._ends = EndsWatch(self._source, context.clock, self._end_seen)
        self.view.refused = self._ends.refused

    async def close(self) -> None:
        """Close the connections to the source."""
        await self._source.close()

    async def run(self, catalog: CatalogView) -> None:
        """Look for ever; an alias that means another cluster now is trouble of this link alone."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_at_ends(catalog), name="ends")
            group.create_task(self._look_at_refused(), name="refused ends")
            settings, clock = self._target.settings, self._context.clock
            topic_of = partial(self._copied_heartbeats, catalog)
            beats = follow_beats(settings, topic_of, clock, self._beat_seen)
            group.create_task(beats, name="heartbeats")

    def check(self) -> None:
        """Say on `/readyz` what is not seen; forget a propagation time that is old."""
        link, health = self.view.link, self._context.health
        now_ms, now = self._context.clock.now_ms(), self._context.clock.monotonic()
        silent = self._silence(now_ms)
        if silent:
            health.hold(f"progress {link}", silent)
        else:
            health.release(f"progress {link}")
        seen = self.view.looked_at
        if seen is None or now - seen > self._tuning.unseen_s:
            age = "yet" if seen is None else f"for {duration(round((now - seen) * 1000))}"
            text = f"the source's ends have not been seen {age}: {self.view.trouble}"
            health.hold(f"source ends {link}", text)
        else:
            health.release(f"source ends {link}")
        if self._beat_at is None or now - self._beat_at > BEAT_S:
            self._board.propagation.pop(link, None)

    def _silence(self, now_ms: int) -> str:
        link = self.view.link
        lacks = self._board.hearing.lacks
        if all(lag.entry.link != link or lacks(lag.entry.slot) for lag in self._board):
            return ""  # nothing of it is ours to watch, or it is we who do not hear
        heard = self._board.heard_ms(link)
        if heard is None:
            return (
                f"no worker has reported yet. Next: mirrorfleet run mirror --target {link.target}"
            )
        silent = now_ms - heard
        limit = self._board.limits.silent_ms
        return f"workers have been silent for {duration(silent)}" if silent > limit else ""

    # -- ends

    async def _look_at_ends(self, catalog: CatalogView) -> None:
        clock = self._context.clock
        opened = False
        while True:
            begun = clock.monotonic()
            try:
                if not opened:
                    await self._open(catalog)
                    opened = True
                self._partitions = self._board.by_source(self.view.link)
                answered = await self._ends.look(self._partitions)
            except MirrorfleetError as error:
                self._trouble(str(error))
                await asyncio.sleep(_TROUBLE_S)
                continue
            if answered or not self._partitions:
                self.view.looked_at, self.view.trouble = clock.monotonic(), ""
            elif self._ends.refused:
                self._trouble(str(next(iter(self._ends.refused.values()))))
            await asyncio.sleep(max(0.05, self._tuning.ends_s - (clock.monotonic() - begun)))

    async def _open(self, catalog: CatalogView) -> None:
        """Raises: RefusedError when the alias means another cluster; as `Cluster.open`."""
        await open_source(self._source, catalog, self._context.fleet)

    async def _look_at_refused(self) -> None:
        while True:
            await asyncio.sleep(max(_TROUBLE_S, self._tuning.ends_s))
            try:
                if await self._ends.look_at_refused():
                    self.view.looked_at = self._context.clock.monotonic()
            except MirrorfleetError as error:
                self._trouble(str(error))

    def _end_seen(self, tp: TopicPartition, end: int, at_ms: int) -> None:
        lag = self._partitions.get(tp)
        if lag is not None:
            lag.end_seen(end, at_ms)

    def _trouble(self, text: str) -> None:
        if text != self.view.trouble:
            _log.warning("no source ends", extra=fields(link=str(self.view.link), error=text))
        self.view.trouble = text

    # -- heartbeats

    def _beat_seen(self, came: float, took_ms: int) -> None:
        self._beat_at = came
        if took_ms < 0:  # its host's clock is ahead by more than it took: nobody knows how long
            self._board.propagation.pop(self.view.link, None)
        else:
            self._board.propagation[self.view.link] = took_ms

    def _copied_heartbeats(self, catalog: CatalogView) -> str | None:
        """Of any slot: another instance may watch theirs, and what they take is the link's."""
        for entry in catalog.of_link(self.view.link):
            if entry.source_topic == heartbeat.TOPIC:
                return entry.target_topic
        return None
