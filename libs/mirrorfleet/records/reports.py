"""`__mirrorfleet.F.reports`: what the Spark jobs found out; compacted, the last of each key.

    key    ["slo", link, topic]             value   {"v": 1, "kind": "slo", ...}
    key    ["integrity", link, topic]       value   {"v": 1, "kind": "integrity", ...}

The window of a report is in its fields and not in its key: each hour has another one, and
compaction would keep them all. Keys of an older build had it. The jobs' folders have the history.

JSON. The fields of a value are the columns of the job's frame (`spark.schemas`: SLO, TOTALS). An
audit's are sums over the partitions, and say of what: `time_ms` when it began, `first` and `end` as
asked for (`end` null: all), how many `partitions` are copied and how many were `compared`, and
`settled`: whether what is behind the map's end was compared, too. An older build's are sums only.

An unknown version or a broken record is Skipped and counted by the reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mirrorfleet.core.errors import CorruptBatchError, UnknownVersionError
from mirrorfleet.records.jsonvalue import Fields, parse_json, to_json
from mirrorfleet.records.packing import Skipped

VERSION: Final = 1


class ReportKind(StrEnum):
    """The kinds that this build writes; a reader takes any word."""

    SLO = "slo"
    INTEGRITY = "integrity"


@dataclass(frozen=True, slots=True)
class Report:
    """One report. `about` is what makes its key, `fields` everything in it."""

    kind: str
    about: tuple[str | int, ...]
    fields: Mapping[str, object]


def of_topic(kind: ReportKind, row: Mapping[str, object]) -> Report:
    """What a row of a job's frame says of its link and topic, in place of what was said before."""
    return Report(kind, (str(row["link"]), str(row["topic"])), row)


def encode(report: Report) -> tuple[bytes, bytes]:
    """Key and value."""
    value = {"v": VERSION, "kind": report.kind, **report.fields}
    return to_json([report.kind, *report.about]), to_json(value)


def decode(key: bytes | None, value: bytes | None) -> Report | Skipped:
    """The report; what cannot be read is Skipped, never raised."""
    about = decode_key(key)
    if about is None or value is None:
        return Skipped("report: no key or no value")
    try:
        fields = Fields.parse(value, "report")
        fields.check_version(VERSION)
    except (UnknownVersionError, CorruptBatchError) as error:
        return Skipped(str(error))
    rest = {str(n): v for n, v in fields.values.items() if n not in {"v", "kind"}}
    return Report(*about, rest)


def decode_key(key: bytes | None) -> tuple[str, tuple[str | int, ...]] | None:
    """Kind and what it is about; None when it cannot be read."""
    try:
        found = None if key is None else parse_json(key, "report key")
    except CorruptBatchError:
        return None
    match found:
        case [str(kind), *parts]:
            about = tuple(part for part in parts if isinstance(part, str | int))
            return (kind, about) if len(about) == len(parts) else None
    return None
