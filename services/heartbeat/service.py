"""The heartbeat service: MM2's heartbeats of every link into the fleet's target.

It keeps no state and needs no other service. A cluster that does not take heartbeats holds the
readiness back, with the reason, and is tried again; the others go on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mirrorfleet.config.connect import cluster_settings
from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.runtime import metric_names as names
from mirrorfleet.runtime.lifecycle import describe, is_ours
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.runtime.reaching import reached
from mirrorfleet.standby.leading import leadership
from services.heartbeat.beats import Beats
from services.heartbeat.settings import Place, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mirrorfleet.core.ids import ClusterAlias, Link
    from mirrorfleet.runtime.entry import Context
    from mirrorfleet.runtime.lifecycle import Stop

CLIENT: Final = "mirrorfleet-heartbeat"
_log = logger(__name__)


def build(context: Context) -> HeartbeatService:
    """The service, configured and not connected."""
    return HeartbeatService(context)


class HeartbeatService:
    """One instance; one that slept writes the same once more, which harms nobody."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settings = parse(context.settings)
        places: dict[ClusterAlias, list[Link]] = {}
        for entry in context.estate.links_into(context.target):
            on_source = self._settings.place is Place.SOURCE
            places.setdefault(entry.source if on_source else entry.target, []).append(entry.link)
        self._places = [
            Beats(
                cluster_settings(context.estate, alias, CLIENT),
                links,
                self._settings.write_s,
                context.clock,
            )
            for alias, links in places.items()
        ]
        context.metrics.on_scrape(names.HEARTBEATS, self._counts)
        context.metrics.on_scrape(names.HEARTBEAT_AGE, self._ages)

    async def serve(self, stop: Stop) -> None:
        """Write heartbeats until `stop`; one that is under way is ended."""
        context = self._context
        target = Cluster(cluster_settings(context.estate, context.target, CLIENT))
        # at once, so that we are not ready before: a target that is silent refuses only late
        leading = leadership(context, target, "heartbeat")
        try:
            if await reached(context, stop, target.open):
                await leading.run(self._beat, stop, self._forget)
        finally:
            for place in self._places:
                await place.close()
            await target.close()

    async def _beat(self) -> None:
        for place in self._places:
            self._context.health.active.hold(_hold(place), "no heartbeat yet")
        async with asyncio.TaskGroup() as group:
            for place in self._places:
                group.create_task(self._keep_beating(place), name=_hold(place))

    def _forget(self) -> None:
        for place in self._places:
            place.last, place.trouble = None, ""

    def status(self) -> Mapping[str, object]:
        """For `/status`."""
        now = self._context.clock.monotonic()
        return {
            "place": self._settings.place.value,
            "period_s": self._settings.period_s,
            "links": [
                {
                    "link": str(link),
                    "cluster": place.name,
                    "written": place.written,
                    "last_s_ago": None if place.last is None else round(now - place.last, 1),
                    "trouble": place.trouble,
                }
                for place in self._places
                for link in place.links
            ],
        }

    async def _keep_beating(self, place: Beats) -> None:
        """For ever, at a steady pace: what a heartbeat took is not added to the pause."""
        clock, health = self._context.clock, self._context.health.active
        due = clock.monotonic()
        while True:
            try:
                await place.beat()
            except (MirrorfleetError, ExceptionGroup) as error:
                if not is_ours(error):
                    raise
                place.trouble = describe(error)
                health.hold(_hold(place), place.trouble)
                _log.warning("no heartbeat", extra=fields(error=place.trouble))
            else:
                place.trouble = ""
                health.release(_hold(place))
            due = max(due + self._settings.period_s, clock.monotonic())
            await asyncio.sleep(due - clock.monotonic())

    def _counts(self) -> list[tuple[tuple[str, ...], float]]:
        return [
            ((str(link),), float(place.written)) for place in self._places for link in place.links
        ]

    def _ages(self) -> list[tuple[tuple[str, ...], float]]:
        now = self._context.clock.monotonic()
        return [
            ((str(link),), now - place.last)
            for place in self._places
            if place.last is not None
            for link in place.links
        ]


def _hold(place: Beats) -> str:
    return f"heartbeats on {place.name}"
