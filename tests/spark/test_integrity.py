from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from pyspark.sql import DataFrame, SparkSession

from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.records.segments import Run
from spark import schemas
from spark.transforms import integrity
from tests.spark.auditing import HELD, Audited, Record, record, topic
from tests.spark.frames import frame, plan, run


@pytest.fixture(scope="module")
def audited(session: SparkSession) -> Audited:
    return Audited(session)


TEN = topic(*range(10))


def test_an_exact_copy_has_no_findings(audited: Audited) -> None:
    audit = audited.audit(TEN, topic(*range(10), start=100), [run(0, 100, 10)])

    assert audit.findings.collect() == []
    assert [tuple(row) for row in audit.totals.collect()] == [(0, 10, 10, 10, 0, 0, 0, 0, 0, 0)]


def test_two_empty_sides_have_no_findings_and_no_totals(audited: Audited) -> None:
    audit = audited.audit([], [], [])

    assert audit.findings.collect() == []
    assert audit.totals.collect() == []


def test_markers_and_holes_are_not_missing(audited: Audited) -> None:
    source = [record(n, n) for n in (0, 1, 4, 5, 7)]
    target = [record(place, n) for place, n in ((10, 0), (11, 1), (12, 4), (13, 5), (15, 7))]
    holes = ((SourceOffset(2), 2), (SourceOffset(6), 1))
    holed = Run(SourceOffset(0), SourceOffset(7), TargetOffset(10), holes)

    assert audited.found(source, target, [holed, run(7, 15, 1)]) == []


def test_each_run_counts_once_however_many_topics_hold_it(audited: Audited) -> None:
    audit = audited.audit(TEN, TEN, [run(0, 0, 10), run(0, 0, 10), run(0, 0, 4)])

    assert audit.totals.collect()[0].matched == 10
    assert audit.findings.collect() == []


def swapped(one: int, other: int) -> list[int]:
    numbers = list(range(10))
    numbers[one], numbers[other] = numbers[other], numbers[one]
    return numbers


NAMES = ("partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers")


def changed(offset: int, **fields: object) -> list[tuple[object, ...]]:
    rows: list[dict[str, object]] = [dict(zip(NAMES, row, strict=True)) for row in TEN]
    rows[offset] |= fields
    return [tuple(row[name] for name in NAMES) for row in rows]


FAULTS: list[tuple[Sequence[tuple[object, ...]], tuple[object, ...]]] = [
    ([row for row in TEN if row[1] != 3], ("missing", 3, 3, None, None, "belongs at target 3")),
    (changed(4, value=b"v5"), ("altered", 4, 4, 4, 4, "value")),
    (changed(4, value=None), ("altered", 4, 4, 4, 4, "value")),
    (changed(4, key=b""), ("altered", 4, 4, 4, 4, "key")),
    (changed(4, timestamp_ms=1_005), ("altered", 4, 4, 4, 4, "timestamp")),
    (changed(4, headers=[("b", None), ("a", b"1")]), ("altered", 4, 4, 4, 4, "header order")),
    (changed(4, headers=[("a", b"1"), ("b", b"")]), ("altered", 4, 4, 4, 4, "headers")),
    (changed(4, headers=None), ("altered", 4, 4, 4, 4, "headers")),
]


def test_a_planted_fault_is_found_at_its_offset_and_nothing_else(audited: Audited) -> None:
    """Each in a partition of its own."""
    numbers = range(len(FAULTS))

    audit = audited.audit(
        [(n, *row[1:]) for n in numbers for row in TEN],
        [(n, *row[1:]) for n in numbers for row in FAULTS[n][0]],
        [run(0, 0, 10)],
        [(n, *HELD[0][1:]) for n in numbers],
    )

    found = {row.partition: row for row in audit.findings.drop("records").collect()}
    assert {n: (row[0], *row[2:]) for n, row in found.items()} == {n: FAULTS[n][1] for n in numbers}
    assert audit.findings.count() == len(FAULTS)


def test_a_swap_is_found_as_both_records(audited: Audited) -> None:
    assert audited.found(TEN, topic(*swapped(3, 6)), [run(0, 0, 10)]) == [
        ("out_of_order", 3, 3, 6, 6, "belongs at target 3"),
        ("out_of_order", 6, 6, 3, 3, "belongs at target 6"),
    ]


def test_a_record_that_was_appended_again_is_extra_and_named(audited: Audited) -> None:
    target = topic(0, 1, 2, 3, 2, 4, 5, 6, 7, 8, 9)

    assert audited.found(TEN, target, [run(0, 0, 4), run(4, 5, 6)]) == [
        ("extra", None, None, 4, 4, "repeats source 2"),
    ]


def test_a_record_of_somebody_else_is_extra(audited: Audited) -> None:
    target = topic(0, 1, 77, 2, 3, 4, 5, 6, 7, 8, 9)

    assert audited.found(TEN, target, [run(0, 0, 2), run(2, 3, 8)]) == [
        ("extra", None, None, 2, 2, ""),
    ]


def test_a_record_that_the_map_leaves_out_is_missing(audited: Audited) -> None:
    target = topic(0, 1, 2, 4, 5, 6, 7, 8, 9)

    assert audited.found(TEN, target, [run(0, 0, 3), run(4, 3, 6)]) == [
        ("missing", 3, 3, None, None, "the map has no place for it"),
    ]


def gap(first: int, end: int, partition: int = 0) -> object:
    return ("east->west", "orders", partition, first, end, None, "gap")


def dropped(first: int, end: int, records: int) -> object:
    return ("east->west", "orders", 0, first, end, records, "records-dropped")


def test_what_the_gap_ledger_names_is_explained_and_not_missing(audited: Audited) -> None:
    target = topic(0, 1, 2, 5, 7, 8, 9)
    runs = [run(0, 0, 3), run(5, 3, 1), run(7, 4, 3)]

    assert audited.found(TEN, target, runs, [gap(2, 5), gap(2, 5), gap(6, 7, partition=1)]) == [
        ("explained", 3, 4, None, None, "in the gap ledger"),
        ("missing", 6, 6, None, None, "the map has no place for it"),
    ]


def test_a_gap_within_a_gap_does_not_end_it(audited: Audited) -> None:
    target = topic(0, 1, 2, 4, 5, 8, 9)
    runs = [run(0, 0, 3), run(4, 3, 2), run(8, 5, 2)]

    assert audited.found(TEN, target, runs, [gap(0, 7), gap(1, 2)]) == [
        ("explained", 3, 3, None, None, "in the gap ledger"),
        ("explained", 6, 6, None, None, "in the gap ledger"),
        ("missing", 7, 7, None, None, "the map has no place for it"),
    ]


def test_a_range_of_drops_explains_as_many_records_as_were_dropped(audited: Audited) -> None:
    target = topic(0, 1, 2, 3, 5, 6, 8, 9)
    runs = [run(0, 0, 4), run(5, 4, 2), run(8, 6, 2)]

    assert audited.found(TEN, target, runs, [dropped(0, 10, 1)]) == [
        ("explained", 4, 4, None, None, "in the gap ledger"),
        ("missing", 7, 7, None, None, "more than the 1 that the gap ledger tells of in 0..9"),
    ]


def test_drops_of_ranges_that_overlap_are_added_up_and_their_ends_were_dropped(
    audited: Audited,
) -> None:
    target, runs = topic(2, 3, 6, 7), [run(2, 0, 2), run(6, 2, 2)]
    ledger = [dropped(0, 9, 2), dropped(1, 10, 2), gap(5, 6)]

    assert audited.found(TEN, target, runs, ledger, settled(10, 4)) == [
        ("explained", 0, 1, None, None, "in the gap ledger"),
        ("explained", 5, 5, None, None, "in the gap ledger"),
        ("explained", 8, 9, None, None, "in the gap ledger"),
        ("missing", 4, 4, None, None, "more than the 4 that the gap ledger tells of in 0..9"),
    ]


def test_the_gap_ledger_does_not_explain_what_the_map_says_was_copied(audited: Audited) -> None:
    target = [row for row in TEN if row[1] != 3]

    assert audited.found(TEN, target, [run(0, 0, 10)], [gap(0, 10)]) == [
        ("missing", 3, 3, None, None, "belongs at target 3")
    ]


def test_a_copy_that_moved_up_is_displaced_from_there_and_one_record_is_missing(
    audited: Audited,
) -> None:
    target = topic(0, 1, 2, 4, 5, 6, 77, 8, 9)

    assert audited.found(TEN, target, [run(0, 0, 10)]) == [
        ("altered", 7, 7, 6, 6, "key, value, timestamp"),
        ("displaced", 4, 6, 3, 5, "belongs at target 4"),
        ("displaced", 8, 9, 7, 8, "belongs at target 8"),
        ("missing", 3, 3, None, None, "belongs at target 3"),
    ]


def test_neighbours_that_are_missing_are_one_finding(audited: Audited) -> None:
    (row,) = audited.audit(TEN, TEN[:2] + TEN[6:], [run(0, 0, 10)]).findings.collect()

    assert (row.kind, row.source_first, row.source_last, row.records) == ("missing", 2, 5, 4)


def test_only_what_was_asked_for_and_what_both_sides_still_hold_is_compared(
    audited: Audited,
) -> None:
    source = TEN[1:]
    target = topic(*range(10), start=100)[3:]
    totals = audited.audit(source, target, [run(0, 100, 10)], [(0, 1, 8, 103, 110)]).totals

    assert [tuple(row)[:4] for row in totals.collect()] == [(0, 5, 5, 5)]


def test_what_is_not_copied_yet_is_not_missing(audited: Audited) -> None:
    assert audited.found(TEN, TEN[:6], [run(0, 0, 6)]) == []


def settled(source: int | None, target: int | None) -> list[tuple[int | bool | None, ...]]:
    return [(*HELD[0], source, target, False, False)]


def test_what_was_appended_again_behind_the_end_of_the_map_is_extra(audited: Audited) -> None:
    target = [*TEN, *topic(8, 9, start=11)]  # 10 and 13 are markers

    assert audited.found(TEN, target, [run(0, 0, 10)], held=settled(10, 14)) == [
        ("extra", None, None, 11, 12, "repeats source 8"),
    ]


def test_what_the_target_took_after_it_was_looked_at_is_not_extra(audited: Audited) -> None:
    assert audited.found(TEN, TEN, [run(0, 0, 6)], held=settled(None, 5)) == []


def test_what_the_position_passed_without_a_word_of_the_map_is_missing(audited: Audited) -> None:
    source = [*TEN, *topic(10, 11, 12, start=10)]

    assert audited.found(source, TEN, [run(0, 0, 10)], [gap(10, 11)], settled(12, 11)) == [
        ("explained", 10, 10, None, None, "in the gap ledger"),
        ("missing", 11, 11, None, None, "the map has no place for it"),
    ]


def test_a_partition_that_the_map_does_not_know_is_compared_up_to_where_it_stands(
    audited: Audited,
) -> None:
    assert audited.found(TEN[:2], [record(5, 77)], [], held=settled(1, 6)) == [
        ("extra", None, None, 5, 5, ""),
        ("missing", 0, 0, None, None, "the map has no place for it"),
    ]


def test_what_both_sides_and_the_map_have_is_counted_where_nothing_is_compared_too(
    audited: Audited,
) -> None:
    one, other = (
        integrity.digests(frame(audited.session, side, schemas.RECORDS)) for side in (TEN, TEN[:6])
    )
    rows = [(0, 2, 8, 1, 5, None, None, False, True), (1, 0, 9, 0, 9, None, None, False, True)]
    limits = frame(audited.session, rows, schemas.HELD)

    found = integrity.readable(one, other, audited.mapped([run(0, 0, 3)]), limits)

    counted = [tuple(row) for row in found.orderBy("partition").collect()]
    assert counted == [(0, 6, 4, 3), (1, 0, 0, 0)]


def from_map(*, source: bool) -> list[tuple[int | bool | None, ...]]:
    return [(*HELD[0], 10, 20, source, True)]


def test_the_copies_of_a_former_incarnation_are_not_extra(audited: Audited) -> None:
    target = [*topic(70, 71, 72), *topic(1, 2, 3, 4, 5, 6, 7, 8, 9, start=4)]

    assert audited.found(TEN, target, [run(1, 4, 9)], held=from_map(source=False)) == [
        ("missing", 0, 0, None, None, "the map has no place for it"),
    ]


def test_records_before_a_late_start_are_not_missing(audited: Audited) -> None:
    runs = [run(4, 0, 6)]

    assert audited.found(TEN, TEN[4:], [], held=from_map(source=True)) == []
    assert audited.found(TEN, topic(*range(4, 10)), runs, held=from_map(source=True)) == []


def test_a_target_that_stamps_its_own_time_is_compared_without_time(audited: Audited) -> None:
    stamped = [(*row[:2], 9_999, 1, *row[4:]) for row in TEN]

    audit = audited.audit(TEN, stamped, [run(0, 0, 10)], compared=("key", "value", "headers"))

    assert audit.findings.collect() == []


def test_a_map_that_sends_an_offset_to_two_places_is_told(audited: Audited) -> None:
    mapped = audited.mapped([run(0, 0, 4), run(3, 9, 2)])

    rows = [tuple(row) for row in integrity.contradictions(mapped).collect()]

    assert rows == [(0, 3, [3, 9])]


def test_fields_that_border_differently_have_different_digests(audited: Audited) -> None:
    rows: list[Record] = [
        (0, 0, 1, 0, b"ab", b"c", None),
        (0, 1, 1, 0, b"a", b"bc", None),
        (0, 2, 1, 0, None, b"null", None),
        (0, 3, 1, 0, b"null", None, None),
        (0, 4, 1, 0, b"", None, None),
    ]

    digests = integrity.digests(frame(audited.session, rows, schemas.RECORDS)).collect()

    assert len({bytes(row.digest) for row in digests}) == 5


@pytest.mark.parametrize("side", [lambda audit: audit.findings, lambda audit: audit.totals])
def test_no_plan_runs_python_a_row_at_a_time(
    audited: Audited, side: Callable[[integrity.Audit], DataFrame]
) -> None:
    text = plan(side(audited.audit(TEN, TEN, [run(0, 0, 10)])))

    assert "MapInArrow" in text
    assert "BatchEvalPython" not in text
