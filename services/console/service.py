"""The console: watches every cluster of the estate and shows it.

    start:  every cluster asked, every fleet followed       stop:  open pages are ended

Ready when it reads the topics of its own target; another cluster that is down is a word on the
pages, because that is when they are looked at.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI

from mirrorfleet.config.connect import cluster_settings
from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.mapping.fleet_watch import ClusterWatch, FleetWatch
from mirrorfleet.runtime.log import also_strike
from services.console import settings
from services.console.access import Gate
from services.console.board import Board
from services.console.routes import Pages, add_pages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mirrorfleet.runtime.entry import Context
    from mirrorfleet.runtime.lifecycle import Stop

CLIENT: Final = "mirrorfleet-console"


def build(context: Context) -> ConsoleService:
    """The service, configured and not connected."""
    return ConsoleService(context)


class ConsoleService:
    """One instance; it holds nothing that is not in topics, so any number may run."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settings = settings.parse(context.settings)
        self._token = settings.KeptToken(context.estate, self._settings)
        estate = context.estate
        self._clusters = {ClusterAlias(alias): self._watch(alias) for alias in estate.clusters}
        self._fleets = {
            alias: FleetWatch(
                self._clusters[alias],
                estate.fleet_of(alias),
                context.clock,
                self._health_of(alias),
                sources=self._clusters,
                request_s=self._settings.request_s,
                history_s=self._settings.history_s,
            )
            for alias in estate.targets()
        }
        board = Board(estate, self._clusters, self._fleets, context.clock, self._settings)
        self._closing = asyncio.Event()
        self._pages = Pages(board, estate.estate, self._settings, self._closing)

    async def serve(self, stop: Stop) -> None:
        """Watch until `stop`."""
        self._health_of(self._context.target)("not read yet")
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch_all(), name="watch")
                await stop.wait()
                watching.cancel()
        finally:
            self._closing.set()
            for watch in self._clusters.values():
                if watch.cluster is not None:
                    await watch.cluster.close()

    def status(self) -> Mapping[str, object]:
        """For `/status`."""
        return {
            "clusters": [watch.view(None).model_dump() for watch in self._clusters.values()],
            "fleets": [self._fleet_status(watch) for watch in self._fleets.values()],
            "streams": self._pages.streams,
            "read_only": self._settings.token is None,
        }

    def app(self) -> FastAPI:
        """Pages and API, behind the gate."""
        app = FastAPI(openapi_url=None)
        app.add_middleware(Gate, token=self._token)
        add_pages(app, self._pages)
        return app

    # -- parts

    def _watch(self, alias: str) -> ClusterWatch:
        context = self._context
        try:
            found = cluster_settings(context.estate, alias, CLIENT)
            also_strike(found.security.secrets())
        except MirrorfleetError as error:
            if alias == context.target:
                raise
            return ClusterWatch(ClusterAlias(alias), None, context.clock, str(error))
        quick_s = self._settings.request_s
        connect_s = min(found.connect_timeout_s, quick_s)
        quick = replace(found, request_timeout_s=quick_s, connect_timeout_s=connect_s)
        return ClusterWatch(ClusterAlias(alias), Cluster(quick), context.clock)

    def _health_of(self, alias: ClusterAlias) -> Callable[[str], None]:
        health, name = self._context.health, f"fleet {self._context.estate.fleet_of(alias)}"

        def on_change(trouble: str) -> None:
            if alias == self._context.target and trouble:
                health.hold(name, trouble)
            elif alias == self._context.target:
                health.release(name)

        return on_change

    async def _watch_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for alias, watch in self._clusters.items():
                group.create_task(watch.run(self._settings.ping_s), name=f"cluster:{alias}")
            for alias, fleet in self._fleets.items():
                group.create_task(fleet.run(), name=f"fleet:{alias}")

    def _fleet_status(self, watch: FleetWatch) -> dict[str, object]:
        fleet = watch.fleet()
        return {
            "fleet": fleet.name,
            "is_read": fleet.is_read,
            "trouble": fleet.trouble,
            "partitions": len(fleet.partitions),
            "reported": len(fleet.told.seen),
            "sampled": len(fleet.told.samples),
            "events": len(fleet.told.events),
            "skipped": {str(kind): count for kind, count in fleet.told.skipped.items()},
            "offset_map": watch.map_words or f"{watch.index.pieces} pieces",
        }
