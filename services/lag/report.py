"""What `lag` tells over HTTP: `/status`, `/lag`, gauges. Only reads.

Series of Prometheus are bounded: by topic for everything, by partition only for the worst; of too
many topics the worst have series, and how many have none is counted. What is not known is absent,
so that a broken look never shows as a small number, and counted, so that no sum of instances does.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import FastAPI, Query

from mirrorfleet.lagging import topics
from mirrorfleet.runtime import metric_names as names
from mirrorfleet.runtime.metrics import MAX_SERIES

if TYPE_CHECKING:
    from mirrorfleet.core.errors import BrokerError
    from mirrorfleet.core.ids import Link, TopicPartition
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.lagging.board import Board
    from mirrorfleet.lagging.partition import PartitionLag, Standing
    from mirrorfleet.runtime.metric_names import Metric
    from mirrorfleet.runtime.metrics import Counter, Metrics

WORST: Final = 100
"""Partitions that have series of their own, and that `/status` shows."""
MOST_ROWS: Final = 10_000
_Samples = list[tuple[tuple[str, ...], float]]
_Of = Callable[[Sequence["PartitionLag"]], float | None]
"""A number of a topic; None where it is not known."""


@dataclass(slots=True)
class LinkView:
    """What is known of the looks at one source."""

    link: Link
    looked_at: float | None = None
    """Monotonic seconds of the last look that a broker answered."""
    trouble: str = ""
    refused: Mapping[TopicPartition, BrokerError] | None = None


def row(lag: PartitionLag, standing: Standing) -> dict[str, object]:
    """A partition for people."""
    entry, said = lag.entry, lag.progress
    return {
        "link": str(entry.link),
        "topic": entry.source_topic,
        "partition": entry.identity.partition,
        "verdict": str(standing.verdict),
        "rule": standing.rule,
        "lag_records": standing.lag_records,
        "time_lag_ms": standing.time_lag_ms,
        "eta_ms": lag.eta_ms,
        "headroom_ms": lag.headroom_ms,
        "state": None if said is None else said.state,
        "position": None if said is None else said.position,
        "source_end": lag.ends.end,
        "as_of_ms": standing.as_of_ms,
    }


def status(board: Board, views: Iterable[LinkView], clock: Clock) -> Mapping[str, object]:
    """Each link with its verdicts, and the worst partitions."""
    found = board.judged()
    now, now_ms = clock.monotonic(), clock.now_ms()
    return {
        "slots": sorted(board.slots),
        "partitions": len(board),
        "links": [
            {
                "link": str(view.link),
                "verdicts": _verdicts(found, view.link),
                "propagation_ms": board.propagation.get(view.link),
                "progress_heard_ms_ago": _ago(board.heard_ms(view.link), now_ms),
                "ends_seen_s_ago": None
                if view.looked_at is None
                else round(now - view.looked_at, 1),
                "trouble": view.trouble,
                "ends_refused": {str(tp): str(why) for tp, why in (view.refused or {}).items()},
            }
            for view in views
        ],
        "worst": [row(*each) for each in found[:WORST] if not each[1].verdict.fine],
    }


def _ago(at_ms: int | None, now_ms: int) -> int | None:
    return None if at_ms is None else max(0, now_ms - at_ms)


def _verdicts(found: Iterable[tuple[PartitionLag, Standing]], link: Link) -> dict[str, int]:
    tally = Tally(str(standing.verdict) for lag, standing in found if lag.entry.link == link)
    return dict(sorted(tally.items()))


def new_app(board: Board) -> FastAPI:
    """`GET /lag[?topic=orders][&limit=1000]`: partitions, the worst first."""
    app = FastAPI(openapi_url=None)

    @app.get("/lag")
    async def show_lag(
        topic: str | None = None, limit: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 1000
    ) -> list[dict[str, object]]:
        found = [each for each in board.judged() if topic in {None, each[0].entry.source_topic}]
        return [row(*each) for each in found[:limit]]

    return app


class Gauges:
    """Numbers that are computed when they are asked for."""

    def __init__(self, board: Board, views: Iterable[LinkView], clock: Clock) -> None:
        self._board, self._views, self._clock = board, views, clock

    def register(self, metrics: Metrics) -> None:
        """Have them asked at each scrape."""
        by_topic: dict[Metric, _Of] = {
            names.LAG_SECONDS: topics.longest_s,
            names.LAG_SECONDS_UNKNOWN: topics.time_unknown,
            names.LAG_RECORDS: topics.offsets,
            names.LAG_RECORDS_UNKNOWN: topics.offsets_unknown,
            names.LAG_ETA: topics.eta_s,
            names.LAG_HEADROOM: topics.headroom_s,
        }
        for metric, of in by_topic.items():
            refused = metrics.counter(names.SERIES_REFUSED, metric.name)
            metrics.on_scrape(metric, partial(self._topics, of, refused))
        metrics.on_scrape(names.LAG_PARTITION_SECONDS, self._worst_seconds)
        metrics.on_scrape(names.LAG_PARTITION_RECORDS, self._worst_records)
        metrics.on_scrape(names.LAG_VERDICTS, self._tally)
        metrics.on_scrape(names.LAG_PROPAGATION, self._propagation)
        metrics.on_scrape(names.LAG_HEARD, self._heard)
        metrics.on_scrape(names.LAG_ENDS, self._ends)

    def _topics(self, of: _Of, refused: Counter) -> _Samples:
        """Of the same topics whatever the number: rules hold two of one topic side by side."""
        told = topics.by_topic(self._board)
        shown = topics.worst(told, MAX_SERIES)
        # the same ones are refused at each scrape: what counts is how many, not how often
        refused.value = max(refused.value, len(told) - MAX_SERIES)
        values = ((key, of(told[key])) for key in shown)
        return [(key, value) for key, value in values if value is not None]

    def _worst(self) -> list[tuple[tuple[str, ...], Standing]]:
        return [
            (
                (str(lag.entry.link), lag.entry.source_topic, str(lag.entry.identity.partition)),
                standing,
            )
            for lag, standing in self._board.judged()[:WORST]
            if not standing.verdict.fine
        ]

    def _worst_seconds(self) -> _Samples:
        found = self._worst()
        return [(k, s.time_lag_ms / 1000) for k, s in found if s.time_lag_ms is not None]

    def _worst_records(self) -> _Samples:
        return [(k, float(s.lag_records)) for k, s in self._worst() if s.lag_records is not None]

    def _tally(self) -> _Samples:
        tally: Tally[tuple[str, ...]] = Tally()
        for lag in self._board:
            if lag.standing is not None and lag.entry.is_active:
                tally[str(lag.entry.link), str(lag.standing.verdict)] += 1
        return [(key, float(count)) for key, count in tally.items()]

    def _propagation(self) -> _Samples:
        return [((str(link),), ms / 1000) for link, ms in self._board.propagation.items()]

    def _heard(self) -> _Samples:
        now_ms = self._clock.now_ms()
        heard = [(str(view.link), self._board.heard_ms(view.link)) for view in self._views]
        return [((link,), (now_ms - ms) / 1000) for link, ms in heard if ms is not None]

    def _ends(self) -> _Samples:
        now = self._clock.monotonic()
        return [((str(v.link),), now - v.looked_at) for v in self._views if v.looked_at is not None]
