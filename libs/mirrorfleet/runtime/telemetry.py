"""Traces of a process: off without an address to send them to, and then nothing is done at all.

`Telemetry.offer` takes finished spans and returns at once. Trouble with the collector is a counter
(`mirrorfleet_spans_total`) and a log line, never an error of the service.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from mirrorfleet import __version__
from mirrorfleet.config.telemetry import TelemetrySettings, telemetry_settings
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.runtime.metric_names import SPANS
from mirrorfleet.runtime.spans import SpanQueue, SpanRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorfleet.config.model import Estate
    from mirrorfleet.runtime.metrics import Metrics
    from mirrorfleet.runtime.spans import Send

_log = logger(__name__)


class Telemetry:
    """Where a service hands its spans; `OFF` is one that takes none."""

    def __init__(self, queue: SpanQueue | None, traces_per_second: float) -> None:
        self._queue = queue
        self.traces_per_second = traces_per_second

    @property
    def on(self) -> bool:
        """Whether spans go anywhere."""
        return self._queue is not None

    def offer(self, spans: Sequence[SpanRecord]) -> None:
        """Send these spans some time, if the collector takes them."""
        if self._queue is not None:
            self._queue.offer(spans)

    async def close(self, seconds: float) -> None:
        """Send what waits, for at most `seconds`."""
        if self._queue is not None:
            await asyncio.to_thread(self._queue.close, seconds)


OFF = Telemetry(None, 0.0)


def start_telemetry(
    estate: Estate, metrics: Metrics, *, service: str, fleet: str, owner: str
) -> Telemetry:
    """The telemetry of a process, as the estate or the OTEL_ variables have it.

    Raises: ConfigError, see `telemetry_settings`.
    """
    settings = telemetry_settings(estate)
    if settings is None:
        return OFF
    queue = SpanQueue(_sender(settings, service, fleet, owner), settings.endpoint)
    metrics.on_scrape(SPANS, queue.outcomes)
    _log.info("traces are on", extra=fields(service=service))
    return Telemetry(queue, settings.traces_per_second)


def _sender(settings: TelemetrySettings, service: str, fleet: str, owner: str) -> Send:
    from mirrorfleet.runtime.otlp import OtlpSender  # noqa: PLC0415 - costs only who asks for it

    process = {
        "service.instance.id": owner,
        "service.namespace": "mirrorfleet",
        "service.version": __version__,
        "mirrorfleet.fleet": fleet,
    }
    if not os.environ.get("OTEL_SERVICE_NAME"):
        process["service.name"] = f"mirrorfleet-{service}"
    return OtlpSender(settings, process)
