"""The table of causes, rules and requests: what is done, about which offsets, and what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.copying.faults import Fault, FaultReason, Span, standing_in
from mirrorfleet.copying.remedies import Remedy, Step, by_policy, by_request, passed_over
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.records.commands import Action
from tests.unit.copying.making import asked, span

LOST = span(100, 150)
R = FaultReason


def fault(reason: FaultReason, lost: Span | None = LOST) -> Fault:
    return Fault(reason, SourceOffset(100), "why", lost)


@pytest.mark.parametrize(
    ("reason", "record_gap", "recopy"),
    [
        (R.RETENTION_OVERTOOK, (Remedy.GO_ON, 150), None),
        (R.SOURCE_TRUNCATED, (Remedy.BEGIN_ANEW, 100), (Remedy.BEGIN_ANEW, 100)),
        (R.SOURCE_RECREATED, None, None),  # by sync, which knows the new topic
        (R.TARGET_RECREATED, None, (Remedy.BEGIN_ANEW, 100)),
        (R.TARGET_TRUNCATED, None, (Remedy.BEGIN_ANEW, 100)),
        (R.SOURCE_CORRUPT, None, None),
        (R.SOURCE_DENIED, None, None),
        (R.TARGET_MISSING, None, None),
    ],
)
def test_a_rule_says_where_a_loss_goes_on_and_fail_never_does(
    reason: FaultReason, record_gap: tuple[Remedy, int] | None, recopy: tuple[Remedy, int] | None
) -> None:
    steps = [by_policy(fault(reason), policy) for policy in ("fail", "record-gap", "recopy")]

    assert [None if each is None else (each.remedy, each.to) for each in steps] == [
        None,
        record_gap,
        recopy,
    ]
    assert {each.span for each in steps if each is not None} <= {LOST}


@pytest.mark.parametrize("reason", [R.RECORD_TOO_LARGE, R.TIMESTAMP_REFUSED, R.KEY_MISSING])
def test_a_record_that_is_not_taken_is_left_out_alone(reason: FaultReason) -> None:
    found = [by_policy(fault(reason, None), word) for word in ("fail", "record-gap", "recopy")]

    assert found == [None, Step(Remedy.LEAVE_OUT, span(100, 101), SourceOffset(101)), None]


def test_what_the_target_lost_waits_until_it_is_known() -> None:
    unknown = fault(R.TARGET_TRUNCATED, None)

    assert by_policy(unknown, "recopy") is None
    assert by_request(unknown, SourceOffset(100), asked(Action.SEEK, 100, 0)) == (
        "what is missing is still being looked for: target-truncated at source offset 100: why"
    )


@pytest.mark.parametrize(
    ("reason", "remedy", "to"),
    [
        (R.RETENTION_OVERTOOK, Remedy.GO_ON, 150),
        (R.SOURCE_TRUNCATED, Remedy.BEGIN_ANEW, 100),
        (R.SOURCE_RECREATED, Remedy.BEGIN_ANEW, None),
        (R.TARGET_RECREATED, Remedy.BEGIN_ANEW, 150),
        (R.TARGET_TRUNCATED, Remedy.BEGIN_ANEW, 150),
    ],
)
def test_exactly_the_gap_that_stands_there_can_be_accepted(
    reason: FaultReason, remedy: Remedy, to: int | None
) -> None:
    stands_at = SourceOffset(100)

    found = by_request(fault(reason), stands_at, asked(Action.ACCEPT_GAP, 100, 150))
    refused = by_request(fault(reason), stands_at, asked(Action.ACCEPT_GAP, 100, 151))

    where = None if to is None else SourceOffset(to)
    assert found == Step(remedy, LOST, where, "one")
    assert refused == (
        f"what it stands at is 100..150, not 100..151: {reason} at source offset 100: why"
    )


@pytest.mark.parametrize(
    ("to", "wanted"), [(60, span(60, 100)), (100, span(100, 100)), (170, span(100, 170))]
)
def test_where_nobody_can_tell_what_the_target_lost_an_operator_says_where_to_go_on(
    to: int, wanted: Span
) -> None:
    unknowable = replace(fault(R.TARGET_TRUNCATED, None), comparable=False)
    stands_at = SourceOffset(100)

    seek = by_request(unknowable, stands_at, asked(Action.SEEK, 100, to))
    accept = by_request(unknowable, stands_at, asked(Action.ACCEPT_GAP, 100, 101))

    assert by_policy(unknowable, "recopy") is None
    assert seek == Step(Remedy.BEGIN_ANEW, wanted, SourceOffset(to), "one")
    assert accept == (
        "nobody knows what is missing, only --seek says where to go on:"
        " target-truncated at source offset 100: why"
    )


@pytest.mark.parametrize("reason", [R.RETENTION_OVERTOOK, R.SOURCE_RECREATED, R.TARGET_TRUNCATED])
def test_nobody_goes_on_behind_the_end_of_the_source(reason: FaultReason) -> None:
    stands_at, end = SourceOffset(100), SourceOffset(600)

    found = [
        by_request(fault(reason), stands_at, asked(Action.SEEK, 100, to), end) for to in (600, 601)
    ]

    assert isinstance(found[0], Step)
    assert found[1] == f"the source ends at 600, before 601: {reason} at source offset 100: why"


def test_one_record_is_skipped_and_nothing_else_is() -> None:
    skip = asked(Action.SKIP, 100, 101)

    assert by_request(fault(R.RECORD_REFUSED, None), SourceOffset(90), skip) == Step(
        Remedy.LEAVE_OUT, span(100, 101), SourceOffset(101), "one"
    )
    assert by_request(fault(R.RETENTION_OVERTOOK), SourceOffset(100), skip) == (
        "no single record is in the way: retention-overtook at source offset 100: why"
    )


@pytest.mark.parametrize(
    ("reason", "first", "end", "wanted"),
    [
        (
            R.RETENTION_OVERTOOK,
            100,
            170,
            Step(Remedy.GO_ON, span(100, 170), SourceOffset(170), "one"),
        ),
        (
            R.RETENTION_OVERTOOK,
            100,
            60,
            Step(Remedy.BEGIN_ANEW, span(60, 100), SourceOffset(60), "one", "rewound"),
        ),
        (R.SOURCE_RECREATED, 100, 3, Step(Remedy.BEGIN_ANEW, LOST, SourceOffset(3), "one")),
        (
            R.SOURCE_TRUNCATED,
            100,
            170,
            Step(Remedy.BEGIN_ANEW, span(100, 170), SourceOffset(170), "one"),
        ),
        (
            R.SOURCE_TRUNCATED,
            100,
            60,
            Step(Remedy.BEGIN_ANEW, span(60, 150), SourceOffset(60), "one", "rewound"),
        ),
        (  # what is between is missing for good
            R.TARGET_TRUNCATED,
            100,
            130,
            Step(Remedy.BEGIN_ANEW, span(100, 130), SourceOffset(130), "one"),
        ),
        (  # all of it is copied again, and more
            R.TARGET_RECREATED,
            100,
            60,
            Step(Remedy.BEGIN_ANEW, span(60, 150), SourceOffset(60), "one"),
        ),
    ],
)
def test_a_seek_goes_forward_in_the_same_history_and_else_begins_anew(
    reason: FaultReason, first: int, end: int, wanted: Step
) -> None:
    seek = asked(Action.SEEK, first, end)

    assert by_request(fault(reason), SourceOffset(100), seek) == wanted


def test_a_seek_that_comes_late_or_goes_nowhere_is_refused() -> None:
    late = by_request(fault(R.SOURCE_DENIED, None), SourceOffset(120), asked(Action.SEEK, 100, 200))
    still = by_request(
        fault(R.SOURCE_DENIED, None), SourceOffset(100), asked(Action.SEEK, 100, 100)
    )

    assert late == "it stands at 120 now, not at 100"
    assert still == "it stands at 100 already: source-denied at source offset 100: why"


def test_nothing_is_accepted_where_nothing_is_lost() -> None:
    found = by_request(
        fault(R.SOURCE_DENIED, None), SourceOffset(100), asked(Action.ACCEPT_GAP, 100, 101)
    )

    assert found == "nothing is lost: source-denied at source offset 100: why"


def test_where_a_partition_stands_is_read_back_from_its_words() -> None:
    assert standing_in(str(fault(R.KEY_MISSING))) == ("key-missing", 100)
    before = Fault(R.SOURCE_DENIED, SourceOffset(-1), "why")
    assert standing_in(str(before)) == ("source-denied", -1)
    assert standing_in("it says why in other words: 7") is None
    assert standing_in("") is None


@pytest.mark.parametrize(
    ("reason", "to", "over"),
    [
        (R.SOURCE_RECREATED, 3, span(0, 3)),
        (R.SOURCE_RECREATED, 0, None),
        (R.SOURCE_TRUNCATED, 110, span(100, 110)),
        (R.SOURCE_TRUNCATED, 60, None),
        (R.TARGET_TRUNCATED, 130, None),  # the same log: the ledger's range has them
    ],
)
def test_what_a_seek_passes_over_of_a_new_log_is_named_beside_what_is_lost(
    reason: FaultReason, to: int, over: Span | None
) -> None:
    step = by_request(fault(reason), SourceOffset(100), asked(Action.SEEK, 100, to))

    assert isinstance(step, Step)
    assert passed_over(fault(reason), step) == over


def test_a_rule_passes_over_nothing_of_a_new_log() -> None:
    reason = fault(R.SOURCE_TRUNCATED)
    step = by_policy(reason, "recopy")

    assert step is not None
    assert passed_over(reason, step) is None
