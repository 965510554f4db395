from __future__ import annotations

import pytest

from mirrorfleet.copying.faults import (
    Action,
    FaultReason,
    blames_the_batch,
    produce_action,
)
from mirrorfleet.copying.lifecycle import IllegalMoveError, SlotState, moved
from mirrorfleet.copying.loss import Look, both, loss
from mirrorfleet.copying.remedies import Remedy, Step, by_policy, by_request
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.records.commands import Action as Command
from tests.unit.copying.making import asked, span


@pytest.mark.parametrize(
    ("code", "first", "action"),
    [
        (ErrorCode.CONCURRENT_TRANSACTIONS, True, Action.SEND_AGAIN),
        (ErrorCode.NOT_ENOUGH_REPLICAS, True, Action.SEND_AGAIN),
        (ErrorCode.CONCURRENT_TRANSACTIONS, False, Action.ABORT),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, True, Action.ABORT),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True, Action.ABORT),
        (ErrorCode.REQUEST_TIMED_OUT, True, Action.ABORT),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, True, Action.ABORT),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, True, Action.ABORT),
        (ErrorCode.MESSAGE_TOO_LARGE, False, Action.SPLIT),
        (ErrorCode.INVALID_RECORD, False, Action.INSPECT),
        (ErrorCode.INVALID_TIMESTAMP, False, Action.INSPECT),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, True, Action.DENIED),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, True, Action.SLOT_DENIED),
        (ErrorCode.PRODUCER_FENCED, True, Action.FENCED),
        (ErrorCode.INVALID_PRODUCER_EPOCH, False, Action.FENCED),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, False, Action.FENCED),
        (ErrorCode.INVALID_TXN_STATE, False, Action.FENCED),
    ],
)
def test_only_a_proof_that_nothing_was_appended_allows_to_send_again(
    *, code: ErrorCode, first: bool, action: Action
) -> None:
    assert produce_action(code, first=first) is action


@pytest.mark.parametrize(
    ("code", "blamed"),
    [
        (ErrorCode.CORRUPT_MESSAGE, True),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, True),
        (ErrorCode.POLICY_VIOLATION, True),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, False),
        (ErrorCode.REQUEST_TIMED_OUT, False),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False),
    ],
)
def test_only_a_refusal_that_would_come_again_blames_the_batch(
    *, code: ErrorCode, blamed: bool
) -> None:
    assert blames_the_batch(code) is blamed


def test_denied_rights_heal_by_themselves_and_lost_history_never_does() -> None:
    assert FaultReason.TARGET_DENIED.heals
    assert FaultReason.RECORD_REFUSED.heals
    assert not FaultReason.RETENTION_OVERTOOK.heals
    assert not FaultReason.SOURCE_TRUNCATED.heals
    assert not FaultReason.TARGET_TRUNCATED.heals


def test_a_lost_slot_cannot_simply_go_on_copying() -> None:
    with pytest.raises(IllegalMoveError):
        moved(SlotState.LOST, SlotState.COPYING)


def test_copying_needs_fencing_and_reading_first() -> None:
    with pytest.raises(IllegalMoveError):
        moved(SlotState.WAITING, SlotState.COPYING)
    state = moved(SlotState.WAITING, SlotState.FENCING)
    state = moved(state, SlotState.READING)
    assert moved(state, SlotState.COPYING) is SlotState.COPYING


def test_a_position_inside_the_log_is_no_loss() -> None:
    assert loss(SourceOffset(50), Look(0, 50, 50)) is None


def test_retention_that_overtook_the_position_names_the_exact_range() -> None:
    found = loss(SourceOffset(50), Look(80, 100))

    assert found is not None
    assert found.reason is FaultReason.RETENTION_OVERTOOK
    assert "[50, 80)" in found.detail


def test_a_shorter_log_is_a_truncation() -> None:
    found = loss(SourceOffset(50), Look(0, 40))

    assert found is not None
    assert found.reason is FaultReason.SOURCE_TRUNCATED
    assert "[40, 50)" in found.detail


def test_a_lineage_that_ends_below_the_position_is_a_truncation_although_the_log_is_longer() -> (
    None
):
    found = loss(SourceOffset(50), Look(0, 90, 45))

    assert found is not None
    assert found.reason is FaultReason.SOURCE_TRUNCATED
    assert "[45, 50)" in found.detail


PARTED = Look(0, 120, 110, lacks_epoch=True)


def test_a_log_without_the_last_epoch_is_another_one_however_far_it_reaches() -> None:
    found = loss(SourceOffset(50), PARTED)

    assert found is not None
    assert (found.reason, found.lost, found.comparable) == (
        FaultReason.SOURCE_TRUNCATED,
        None,
        False,
    )
    assert found == loss(SourceOffset(50), PARTED._replace(log_end=130))  # it is written to


@pytest.mark.parametrize("policy", ["fail", "record-gap", "recopy"])
def test_where_it_goes_on_then_only_an_operator_says(policy: str) -> None:
    found = loss(SourceOffset(50), PARTED)
    assert found is not None

    assert by_policy(found, policy) is None
    gap = by_request(found, SourceOffset(50), asked(Command.ACCEPT_GAP, 50, 51))
    assert "only --seek says where to go on" in str(gap)
    step = by_request(found, SourceOffset(50), asked(Command.SEEK, 50, 30))
    assert isinstance(step, Step)
    assert (step.remedy, step.span, step.to) == (Remedy.BEGIN_ANEW, span(30, 50), 30)


def test_two_looks_agree_though_the_log_is_written_to_meanwhile_and_the_lower_end_holds() -> None:
    looks = [loss(SourceOffset(50), Look(0, end, end)) for end in (40, 43, 60)]

    assert both(looks[0], looks[1]) == looks[0]
    assert both(looks[1], looks[0]) == looks[0]
    assert both(looks[0], looks[2]) is None
    assert both(looks[0], loss(SourceOffset(50), Look(80, 100))) is None
    assert both(looks[0], loss(SourceOffset(50), PARTED)) is None
