"""What `checkpoint` tells: `/status`, `/translate`, gauges. Only reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import FastAPI, Query
from fastapi.responses import JSONResponse

from mirrorfleet.core.errors import RefusedError
from mirrorfleet.core.ids import ClusterAlias, TopicPartition
from mirrorfleet.mapping.asking import MOST_OFFSET, Direction, translate
from mirrorfleet.mapping.live import checked_or_told
from mirrorfleet.runtime import metric_names as names

if TYPE_CHECKING:
    from mirrorfleet.core.ids import Link, SlotNumber
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.mapping.following import MapFollower
    from mirrorfleet.offsets.copies import Copies
    from mirrorfleet.runtime.metrics import Metrics
    from services.checkpoint.link import LinkGroups

SHOWN: Final = 200
"""Groups of a link in one `/status`."""
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_UNAVAILABLE: Final = 503
_Samples = list[tuple[tuple[str, ...], float]]


def status(links: Iterable[LinkGroups], known: MapFollower, clock: Clock) -> Mapping[str, object]:
    """Each link with its groups, and how large the map is."""
    return {
        "map": {
            "partitions": len(known.index),
            "pieces": known.index.pieces,
            "bytes": known.index.nbytes,
            "slots": known.slots,
            "slots_behind": sorted(known.behind),
        },
        "links": [_link(each, clock.monotonic()) for each in links],
    }


def _link(groups: LinkGroups, now: float) -> dict[str, object]:
    report = groups.report
    return {
        "link": str(report.link),
        "trouble": report.trouble,
        "looked_at_s_ago": None if report.looked_at is None else round(now - report.looked_at, 1),
        "groups": len(report.decisions),
        "homes": {str(home): count for home, count in report.homes().items()},
        "refused": dict(sorted(report.refused.items())[:SHOWN]),
        "shown": [
            {"group": group, "home": str(one.home), "why": one.why}
            for group, one in sorted(report.decisions.items())[:SHOWN]
        ],
    }


def shut_out(groups: LinkGroups) -> str:
    """What `/readyz` says of those whose offsets did not follow at the last look; "" of none."""
    found = sorted(groups.shut_out)
    named = ", ".join(found[:3]) + (" and others" if len(found) > 3 else "")
    return f"offsets do not follow for {named}: /status says why" if found else ""


def not_packed(failed: Mapping[SlotNumber, str]) -> str:
    """What `/readyz` says of slots that could not be packed, with their errors; "" of none."""
    if not failed:
        return ""
    slot, error = next(iter(failed.items()))
    return f"segments of {len(failed)} slots are not packed and stay; of slot {slot}: {error}"


def new_app(
    copies_of: Callable[[Link], Copies],
    sources: Mapping[Link, Cluster],
    is_loaded: Callable[[], bool],
    target: Cluster,
) -> FastAPI:
    """`GET /translate?source=east&topic=orders&partition=0&offset=42[&direction=to-source]`.

    404 for a link or partition that is not copied, 409 where another topic has the name of the copy
    or of the source's now, 422 for a question that is not one, 503 before the map has been read.
    `unchecked` is in the answer where a cluster does not say whether it has its topic still.
    """
    known = {link.source: link for link in sources}
    app = FastAPI(openapi_url=None)

    @app.get("/translate")
    async def translate_offset(
        source: str,
        topic: str,
        partition: Annotated[int, Query(ge=0)],
        offset: Annotated[int, Query(ge=0, le=MOST_OFFSET)],
        direction: Direction = Direction.TO_TARGET,
    ) -> JSONResponse:
        link = known.get(ClusterAlias(source))
        if link is None:
            text = f"no link copies from {source!r}; known: {', '.join(sorted(known))}"
            return _error(text, _NOT_FOUND)
        if not is_loaded():
            return _error("the offset map is still being read; see /readyz", _UNAVAILABLE)
        try:
            found = translate(copies_of(link), TopicPartition(topic, partition), offset, direction)
        except RefusedError as error:
            return _error(str(error), _NOT_FOUND)
        try:
            return JSONResponse((await checked_or_told(sources[link], target, found)).row())
        except RefusedError as error:
            return _error(str(error), _CONFLICT)

    return app


def _error(text: str, code: int) -> JSONResponse:
    return JSONResponse({"error": text}, status_code=code)


def register_gauges(
    metrics: Metrics, clock: Clock, links: Iterable[LinkGroups], known: MapFollower
) -> None:
    """Numbers that are computed when they are asked for."""

    def homes() -> _Samples:
        return [
            ((str(each.report.link), str(home)), float(count))
            for each in links
            for home, count in each.report.homes().items()
        ]

    def ages() -> _Samples:
        now = clock.monotonic()
        return [
            ((str(each.report.link),), now - each.report.looked_at)
            for each in links
            if each.report.looked_at is not None
        ]

    def refused() -> _Samples:
        return [((str(each.report.link),), float(len(each.shut_out))) for each in links]

    metrics.on_scrape(names.GROUPS, homes)
    metrics.on_scrape(names.GROUPS_REFUSED, refused)
    metrics.on_scrape(names.CHECKPOINT_AGE, ages)

    def map_age() -> _Samples:
        at = known.complete_at
        return [] if at is None else [((), clock.monotonic() - at)]

    metrics.on_scrape(names.MAP_AGE, map_age)
    metrics.on_scrape(names.MAP_PIECES, lambda: [((), float(known.index.pieces))])
    metrics.on_scrape(names.MAP_BYTES, lambda: [((), float(known.index.nbytes))])
