"""An OTLP receiver of the tests: takes traces over HTTP, or refuses, or lets wait.

    with collector() as otlp:
        ... endpoint: otlp.url ...
        otlp.spans()

Decodes what arrives with OpenTelemetry's own protobuf classes.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

HANG_S = 30.0
Value = str | int | float | bool


class Mood(StrEnum):
    """How it answers."""

    TAKING = "200"
    FAILING = "500"
    MOVED = "308"
    HANGING = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenSpan:
    """A span as it arrived; times in nanoseconds since 1970."""

    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value]
    events: Mapping[str, int]
    error: str
    process: Mapping[str, Value]

    @property
    def stage(self) -> str:
        """The first word of the name."""
        return self.name.partition(" ")[0]

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.end_ns - self.start_ns) / 1e9


class Collector:
    """What has arrived, and how the next request is answered."""

    def __init__(self) -> None:
        self.mood = Mood.TAKING
        self.requests = 0
        self.headers: dict[str, str] = {}
        self.release = threading.Event()
        self.url = ""
        self._spans: list[SeenSpan] = []

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> int:
        """Answer one request with a status."""
        self.requests += 1
        self.headers = dict(headers)
        if self.mood is Mood.HANGING:
            self.release.wait(HANG_S)
        if self.mood is Mood.MOVED:
            return 308
        if self.mood is not Mood.TAKING:
            return 500
        if path != "/v1/traces":
            return 404
        request = ExportTraceServiceRequest.FromString(body)
        self._spans += list(_spans(request))
        return 200

    def spans(self) -> list[SeenSpan]:
        """All spans so far."""
        return list(self._spans)

    def traces(self) -> dict[str, list[SeenSpan]]:
        """The same by trace, each in the order of its begins; parents before their first child."""
        found: dict[str, list[SeenSpan]] = defaultdict(list)
        for span in self.spans():
            found[span.trace_id].append(span)
        for spans in found.values():
            spans.sort(key=lambda span: (span.start_ns, -span.end_ns))
        return dict(found)


@contextmanager
def collector(port: int = 0) -> Iterator[Collector]:
    """A receiver on 127.0.0.1; gone afterwards."""
    made = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            status = made.take(self.path, dict(self.headers), body)
            try:
                self.send_response(status)
                if status == 308:
                    self.send_header("location", f"{made.url}/moved")
                self.end_headers()
            except OSError:
                return  # it waited no longer

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, name="collector", daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.release.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


def _spans(request: ExportTraceServiceRequest) -> Iterator[SeenSpan]:
    for resource in request.resource_spans:
        process = _attributes(resource.resource.attributes)
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield _seen(span, process)


def _seen(span: Span, process: Mapping[str, Value]) -> SeenSpan:
    return SeenSpan(
        name=span.name,
        kind=span.kind,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes=_attributes(span.attributes),
        events={event.name: event.time_unix_nano for event in span.events},
        error=span.status.message,
        process=process,
    )


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Value]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Value:
    found: Value = getattr(value, value.WhichOneof("value") or "string_value")
    return found
