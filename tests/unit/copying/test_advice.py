"""What to do about a fault, as commands that can be run as they stand."""

from __future__ import annotations

import pytest

from mirrorfleet.copying.advice import advice
from mirrorfleet.copying.faults import Fault, FaultReason, Span
from mirrorfleet.copying.loss import Look, loss, made_again
from mirrorfleet.core.ids import SourceOffset, TopicId
from tests.unit.copying.making import entry

RESOLVE = "mirrorfleet resolve orders-0 --target west --from east"


@pytest.mark.parametrize("look", [Look(80, 100), Look(0, 40)], ids=["retention", "truncation"])
def test_of_a_loss_at_the_source_the_command_has_its_exact_range(look: Look) -> None:
    found = loss(SourceOffset(50), look)
    assert found is not None
    assert found.lost is not None

    gap = f"`{RESOLVE} --accept-gap {found.lost.first}..{found.lost.end}`"
    assert gap in advice(str(found), entry())


def test_of_a_topic_that_was_made_again_the_command_has_what_the_one_before_still_had() -> None:
    lost = Span(SourceOffset(50), SourceOffset(80))
    text = made_again("source topic orders", TopicId(int=7), lost)
    found = Fault(FaultReason.SOURCE_RECREATED, SourceOffset(50), text, lost)

    assert f"`{RESOLVE} --accept-gap 50..80`" in advice(str(found), entry())


@pytest.mark.parametrize("reason", FaultReason)
def test_every_fault_has_advice_and_nothing_is_left_to_fill_in_but_offsets(
    reason: FaultReason,
) -> None:
    told = advice(str(Fault(reason, SourceOffset(7), "so it is")), entry())

    assert told.endswith(".")
    assert "{" not in told
    assert told.count("resolve") == told.count(RESOLVE)
    assert told.count("positions import") == told.count("import FILE --target west")


def test_a_range_of_the_target_is_not_taken_for_one_of_the_source() -> None:
    lost = Fault(FaultReason.TARGET_TRUNCATED, SourceOffset(7), "target records [70, 90) are gone")

    assert "--seek FIRST" in advice(str(lost), entry())
    assert "70..90" not in advice(str(lost), entry())


@pytest.mark.parametrize("text", ["", "too large", "stranger at source offset 7: what"])
def test_for_what_is_no_fault_of_ours_there_is_none(text: str) -> None:
    assert advice(text, entry()) == ""
