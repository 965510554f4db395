"""What the fleet is seen by, in one table: every metric, every span, every attribute of a span.

Names of metrics end in their unit. Labels are bounded: a link, a slot, a topic of the estate, a
word from a fixed list; never an offset, a consumer group's member or an error text. Those may be
attributes of spans. Attributes beginning with `messaging.` are OpenTelemetry's (semantic
conventions 1.44, still in development), the others are ours.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    """Prometheus type."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One row of the table. `labels` are names, in the order in which values are given."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


LATENCY_S: Final = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
"""Live copying: p50 is near 20 ms, a WAN hop 50 to 300 ms."""

AGE_S: Final = (
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0,
    86400.0, 604800.0,
)  # fmt: skip
"""Age of data: from live to a week of backlog."""


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"mirrorfleet_{name}_total", Kind.COUNTER, text, labels)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"mirrorfleet_{name}", Kind.GAUGE, text, labels)


def _histogram(name: str, buckets: tuple[float, ...], text: str, *labels: str) -> Metric:
    return Metric(f"mirrorfleet_{name}", Kind.HISTOGRAM, text, labels, buckets)


# every service
BUILD: Final = _gauge("build_info", "Always 1.", "service", "version")
STATE: Final = _gauge("service_state", "1 for the state that the service is in.", "state")
READY: Final = _gauge("service_ready", "1 when the service does its job.")
LOOP_LAG: Final = _gauge("event_loop_lag_seconds", "Longest stall of the loop in the last second.")
LOOP_TASKS: Final = _gauge("event_loop_tasks", "Tasks of the loop: steady, or something leaks.")
SERIES_REFUSED: Final = _counter(
    "metric_series_refused",
    "Series folded into '(other)' or left out, because a metric had too many.",
    "name",
)

# mirror
RECORDS: Final = _counter("records", "Records committed on the target.", "link", "topic")
BYTES: Final = _counter("bytes", "Batch bytes committed on the target.", "link", "topic")
FETCHED_BYTES: Final = _counter("fetched_bytes", "Bytes read from the source.", "link")
DROPPED_RECORDS: Final = _counter("dropped_records", "Records left out by policy.", "link", "kind")
GAPS: Final = _counter("gaps", "Ranges that were lost and passed, as the ledger has them.", "link")
MAP_SHORT: Final = _counter(
    "offset_map_short", "Copies of which the offset map was found to lack something.", "link"
)
TRANSACTIONS: Final = _counter("transactions", "Transactions of slots.", "link", "outcome")
PROPAGATION: Final = _histogram(
    "propagation_seconds", LATENCY_S, "Fetch to acknowledgement of live batches.", "link"
)
BACKLOG_AGE: Final = _histogram(
    "backlog_age_seconds", AGE_S, "Age of records when they were committed.", "link"
)
STAGE: Final = _histogram(
    "stage_seconds", LATENCY_S, "Time that a batch spent in a stage.", "link", "stage"
)
COMMIT: Final = _histogram(
    "commit_seconds", LATENCY_S, "Last acknowledgement to end of transaction.", "link"
)
SINCE_PROGRESS: Final = _gauge(
    "seconds_since_progress", "Since a slot with work last committed; 0 when idle.", "link", "slot"
)
PARTITIONS: Final = _gauge("partitions", "Partitions by state.", "link", "state")
FAULTED: Final = _gauge("faulted_partitions", "Partitions that stand still.", "link", "kind")
RECORD_LAG: Final = _gauge(
    "record_lag", "Offsets to copy, of a topic; absent if one is unknown.", "link", "topic"
)
RECORD_LAG_UNKNOWN: Final = _gauge(
    "record_lag_unknown",
    "Partitions whose lag is not known: sums of record_lag over workers lack them.",
    "link",
    "topic",
)
RETENTION_HEADROOM: Final = _gauge(
    "retention_headroom_seconds", "Least time before retention.ms takes an uncopied record.", "link"
)
IN_FLIGHT: Final = _gauge("in_flight_bytes", "Bytes fetched and not yet acknowledged.")
SLOTS_OWNED: Final = _gauge("slots_owned", "Slots that this worker holds.", "link")
SLOT_LOSSES: Final = _counter("slot_losses", "Slots dropped, by cause.", "link", "cause")

# sync
SYNC_TOPICS: Final = _gauge("sync_topics", "Source topics by state.", "link", "state")
SYNC_FAULTS: Final = _gauge("sync_topic_faults", "Topics held back, by reason.", "link", "reason")
SYNC_PENDING: Final = _gauge("sync_pending_changes", "Changes found and not applied.", "link")
SYNC_DRIFT: Final = _gauge("sync_drift", "Changes that wait for `mirrorfleet apply`.", "link")
SYNC_CHANGES: Final = _counter("sync_changes", "Changes applied.", "link", "kind")
SYNC_CYCLE: Final = _histogram("sync_cycle_seconds", LATENCY_S, "One look at a link.", "link")
SYNC_AGE: Final = _gauge("seconds_since_sync", "Since a link was last looked at in full.", "link")
CATALOG_ENTRIES: Final = _gauge("catalog_entries", "Partitions in the catalog.", "link")

# heartbeat
HEARTBEATS: Final = _counter("heartbeats", "Heartbeats written.", "link")
HEARTBEAT_AGE: Final = _gauge(
    "seconds_since_heartbeat", "Since a heartbeat of a link was last acknowledged.", "link"
)

# checkpoint
GROUPS: Final = _gauge("groups", "Consumer groups of a link, by home.", "link", "home")
GROUPS_REFUSED: Final = _gauge(
    "groups_refused", "Groups and topics whose offsets did not follow at the last look.", "link"
)
GROUP_COMMITS: Final = _counter(
    "group_commits", "Groups given offsets on the target.", "link", "outcome"
)
CHECKPOINTS: Final = _counter("checkpoints", "Checkpoints written.", "link")
CHECKPOINT_AGE: Final = _gauge(
    "seconds_since_checkpoint", "Since the groups of a link were last looked at in full.", "link"
)
MAP_PIECES: Final = _gauge("offset_map_pieces", "Pieces of the offset map in memory.")
MAP_BYTES: Final = _gauge("offset_map_bytes", "Bytes of the offset map in memory.")
MAP_AGE: Final = _gauge(
    "seconds_since_offset_map_complete", "Since all that was copied was in the offset map."
)
PACKED: Final = _counter("packed_segments", "Segments packed into the archive and freed.", "slot")
PACK_FAILURES: Final = _counter("pack_failures", "Passes over a slot that ended in an error.")

# lag
LAG_SECONDS: Final = _gauge(
    "lag_seconds", "Longest time lag of a topic's partitions; absent if unknown.", "link", "topic"
)
LAG_SECONDS_UNKNOWN: Final = _gauge(
    "lag_seconds_unknown", "Partitions whose time lag is not known.", "link", "topic"
)
LAG_RECORDS: Final = _gauge(
    "lag_records", "Offsets to copy, of a topic; absent if one is unknown.", "link", "topic"
)
LAG_RECORDS_UNKNOWN: Final = _gauge(
    "lag_records_unknown",
    "Partitions whose record lag is not known: sums of lag_records over instances lack them.",
    "link",
    "topic",
)
LAG_ETA: Final = _gauge(
    "lag_eta_seconds",
    "Until a topic is caught up, at present rates; absent if never.",
    "link",
    "topic",
)
LAG_HEADROOM: Final = _gauge(
    "lag_headroom_seconds", "Least time before retention takes uncopied records.", "link", "topic"
)
LAG_PARTITION_SECONDS: Final = _gauge(
    "partition_lag_seconds", "Time lag of the worst partitions.", "link", "topic", "partition"
)
LAG_PARTITION_RECORDS: Final = _gauge(
    "partition_lag_records", "Record lag of the worst partitions.", "link", "topic", "partition"
)
LAG_VERDICTS: Final = _gauge("lag_partitions", "Partitions by verdict.", "link", "verdict")
LAG_PROPAGATION: Final = _gauge(
    "heartbeat_propagation_seconds", "What the last heartbeat took, by two hosts' clocks.", "link"
)
LAG_HEARD: Final = _gauge(
    "seconds_since_progress_heard", "Since a worker of a link spoke: above 10, lag is old.", "link"
)
LAG_ENDS: Final = _gauge(
    "seconds_since_source_ends", "Since a source's ends were seen: above 15, lag is old.", "link"
)
LAG_SKIPPED: Final = _counter(
    "lag_records_skipped", "Snapshots and samples that could not be read.", "kind"
)
LAG_CHANGES: Final = _counter("lag_verdict_changes", "Verdicts that changed.", "link", "verdict")
LAG_UNWRITTEN: Final = _counter("lag_samples_lost", "Samples that could not be written.")

# telemetry
SPANS: Final = _counter("spans", "Spans, by what became of them.", "outcome")
TRACES: Final = _counter("traces", "Traced batches, by where the trace began.", "link", "origin")
UPSTREAM: Final = _counter(
    "trace_upstream_failures",
    "Times that the sampled batches of the hop before could not be read; then nothing is joined.",
    "link",
    "cause",
)
ANNOUNCED: Final = _counter(
    "trace_announcements", "Writes of sampled batches for the next hop.", "outcome"
)


class SpanKind(StrEnum):
    """OpenTelemetry's word for the role of a span."""

    INTERNAL = "internal"
    CLIENT = "client"
    CONSUMER = "consumer"


class Span(NamedTuple):
    """One row of the table of spans; shown as `name topic`."""

    name: str
    kind: SpanKind
    help: str


# a batch on its way over one link: `copy` is the parent of the four stages, which follow each other
COPY: Final = Span("copy", SpanKind.CONSUMER, "One hop: asked for on the source to committed.")
FETCH: Final = Span("fetch", SpanKind.CLIENT, "Asked for, and there to be had, to its arrival.")
QUEUE: Final = Span("queue", SpanKind.INTERNAL, "Arrived to sent.")
PRODUCE: Final = Span("produce", SpanKind.CLIENT, "Sent to acknowledged by the target.")
COMMITTING: Final = Span(
    "commit", SpanKind.CLIENT, "Acknowledged to visible: the rest of the transaction, EndTxn."
)
CLOSING: Final = "closing"
"""Event in `commit`: all data of the transaction was acknowledged, positions follow."""

# attributes
SYSTEM: Final = "messaging.system"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
DESTINATION_PARTITION: Final = "messaging.destination.partition.id"
OFFSET: Final = "messaging.kafka.offset"
MESSAGES: Final = "messaging.batch.message_count"
ERROR_TYPE: Final = "error.type"
LINK: Final = "mirrorfleet.link"
SLOT: Final = "mirrorfleet.slot"
HOP: Final = "mirrorfleet.hop"
"""1 where the trace begins, 2 for the next fleet of a chain."""
PACE: Final = "mirrorfleet.pace"
SOURCE_TOPIC: Final = "mirrorfleet.source.topic"
SOURCE_CLUSTER: Final = "mirrorfleet.source.cluster_id"
SOURCE_FIRST: Final = "mirrorfleet.source.first_offset"
SOURCE_NEXT: Final = "mirrorfleet.source.next_offset"
TARGET_TOPIC: Final = "mirrorfleet.target.topic"
TARGET_FIRST: Final = "mirrorfleet.target.first_offset"
TARGET_NEXT: Final = "mirrorfleet.target.next_offset"
BATCH_BYTES: Final = "mirrorfleet.batch_bytes"
RECORD_TIME: Final = "mirrorfleet.record_time_ms"
"""Timestamp of the batch's newest record."""

OPERATION_TYPES: Final = {FETCH: "receive", PRODUCE: "send", COMMITTING: "settle", COPY: "process"}
"""OpenTelemetry's list of what a span does to messages; waiting is none of it."""
