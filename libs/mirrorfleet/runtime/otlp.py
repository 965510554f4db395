"""Spans to a collector: OTLP over HTTP, through the OpenTelemetry SDK.

Imported only where traces are on: the SDK takes a third of a second and some megabytes. What it
logs is not passed on, because it logs each failed try; the last word of it is the error's text.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from mirrorfleet import __version__
from mirrorfleet.config.telemetry import TelemetrySettings
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.runtime import metric_names as names
from mirrorfleet.runtime.log import also_strike, logger
from mirrorfleet.runtime.spans import SendError, SpanRecord

TIMEOUT_S: Final = 5.0
"""For one delivery, tries again included; then its spans are given up."""
_KINDS: Final = {
    names.SpanKind.INTERNAL: SpanKind.INTERNAL,
    names.SpanKind.CLIENT: SpanKind.CLIENT,
    names.SpanKind.CONSUMER: SpanKind.CONSUMER,
}
_REDIRECTS: Final = range(300, 400)
_NOISY: Final = ("opentelemetry", "urllib3")

_log = logger(__name__)


class _LastWord(logging.Handler):
    """Keeps the newest message instead of writing it."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


class OtlpSender:
    """Sends spans of one process; called in a thread of its own."""

    def __init__(self, settings: TelemetrySettings, process: Mapping[str, str]) -> None:
        """`process` are the attributes of what sends (OpenTelemetry's resource).

        Raises: ConfigError of a header.
        """
        self._last_word = _LastWord()
        for name in _NOISY:
            noisy = logging.getLogger(name)
            noisy.handlers[:] = [self._last_word]
            noisy.propagate = False
            noisy.setLevel(logging.WARNING)
        self._settings = settings
        self._headers = settings.headers()
        self._session = requests.Session()
        self._session.hooks["response"].append(_refuse_redirect)
        self._exporter = self._make()
        if self._last_word.text:  # it has the value, which may be a credential
            _log.warning("a value of OTEL_EXPORTER_OTLP_* is not understood, and is not used")
        self._resource = Resource.create(dict(process))
        self._scope = InstrumentationScope("mirrorfleet", __version__)

    def __call__(self, spans: Sequence[SpanRecord]) -> None:
        """Deliver them. Raises: SendError."""
        self._renew()
        self._last_word.text = ""
        result = self._exporter.export([self._span(span) for span in spans])
        if result is not SpanExportResult.SUCCESS:
            raise SendError(self._last_word.text or "the collector did not take them")

    def _make(self) -> OTLPSpanExporter:
        headers = dict(self._headers) or None
        return OTLPSpanExporter(
            self._settings.endpoint, headers=headers, timeout=TIMEOUT_S, session=self._session
        )

    def _renew(self) -> None:
        """Take headers that were changed; while a file is written anew, the last ones serve."""
        try:
            found = self._settings.headers()
        except ConfigError:
            return
        if found != self._headers:
            also_strike(found.values())
            self._headers = found
            self._exporter = self._make()

    def _span(self, span: SpanRecord) -> ReadableSpan:
        subject = f"{span.kind.name} {span.subject}"
        parent = None if span.parent_id is None else _context(span.trace_id, span.parent_id)
        return ReadableSpan(
            subject,
            context=_context(span.trace_id, span.span_id),
            parent=parent,
            resource=self._resource,
            attributes=span.attributes,
            events=[Event(name, timestamp=at) for name, at in span.events],
            kind=_KINDS[span.kind.kind],
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


def _refuse_redirect(response: requests.Response, **_: object) -> None:
    """The exporter follows none, so that headers go nowhere else, and takes each for a delivery.

    Raises: SendError.
    """
    if response.status_code in _REDIRECTS:
        response.close()
        raise SendError(f"{response.status_code} {response.reason}: redirects are not followed")


def _context(trace_id: int, span_id: int) -> SpanContext:
    sampled = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=sampled)
