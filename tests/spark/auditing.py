"""Records of both sides, and the audit of them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from mirrorfleet.records.segments import Run
from spark import schemas
from spark.transforms import coding, integrity
from tests.spark.frames import frame, identity

Headers = list[tuple[str, bytes | None]] | None
Record = tuple[int, int, int, int, bytes | None, bytes | None, Headers]
HELD = [(0, 0, 1000, 0, 1000)]
FULL: tuple[int | bool | None, ...] = (0, 0, 1000, 0, 1000, None, None, False, False)
"""With where both sides stood before the map was read, and which side begins with the map."""


def record(offset: int, number: int) -> Record:
    """Record `number`, wherever it stands."""
    headers: Headers = [("a", b"1"), ("b", None)]
    return (0, offset, 1_000 + number, 0, b"k%d" % number, b"v%d" % number, headers)


def topic(*numbers: int, start: int = 0) -> list[Record]:
    """These records, one after the other from offset `start`."""
    return [record(start + place, number) for place, number in enumerate(numbers)]


class Audited:
    """Both sides and a map, compared."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    def mapped(self, runs: Sequence[Run], partitions: int = 1) -> DataFrame:
        """The map of some partitions, which all have these runs."""
        rows = [
            (
                coding.identity_bytes(identity(number)),
                one.source_start,
                one.source_end,
                one.target_start,
                one.target_end,
                list(one.holes),
                list(one.payloads),
            )
            for one in runs
            for number in range(partitions)
        ]
        known = frame(self.session, [(0, None, *row) for row in rows], schemas.SEGMENT_RUNS)
        return integrity.positions(known)

    def audit(
        self,
        source: Sequence[object],
        target: Sequence[object],
        runs: Sequence[Run],
        held: Sequence[tuple[int | bool | None, ...]] = HELD,
        compared: Sequence[str] = integrity.FIELDS,
        ledger: Sequence[object] = (),
        **cleaned: bool,
    ) -> integrity.Audit:
        """`cleaned`: which sides are compacted, as `integrity.compare` takes it."""
        one, other = (
            integrity.digests(frame(self.session, side, schemas.RECORDS), compared)
            for side in (source, target)
        )
        rows = [row if len(row) == len(FULL) else (*row, *FULL[len(row) :]) for row in held]
        limits = frame(self.session, rows, schemas.HELD)
        known = frame(self.session, ledger, schemas.LEDGER)
        mapped = self.mapped(runs, len(held))
        return integrity.compare(one, other, mapped, limits, known, **cleaned)

    def found(
        self,
        source: Sequence[object],
        target: Sequence[object],
        runs: Sequence[Run],
        ledger: Sequence[object] = (),
        held: Sequence[tuple[int | bool | None, ...]] = HELD,
        **cleaned: bool,
    ) -> list[tuple[object, ...]]:
        """(kind, first and last source offset, first and last target offset, detail) by order."""
        audit = self.audit(source, target, runs, held, integrity.FIELDS, ledger, **cleaned)
        rows = audit.findings.drop("partition", "records")
        return sorted((tuple(row) for row in rows.collect()), key=repr)
