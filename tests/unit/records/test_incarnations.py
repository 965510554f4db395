"""The words that incarnations begin with: what is stored must be read by every build."""

from __future__ import annotations

from mirrorfleet.copying.faults import FaultReason
from mirrorfleet.planning.topics import Reason
from mirrorfleet.records.incarnations import (
    AT_THE_END,
    FROM_THE_START,
    LossCause,
    offset_of,
    start_at,
)


def test_the_causes_of_losses_are_these_words() -> None:
    assert [cause.value for cause in LossCause] == [
        "source-truncated",
        "source-recreated",
        "target-truncated",
        "target-recreated",
        "rewound",
    ]


def test_the_starts_are_these_words() -> None:
    assert (FROM_THE_START, AT_THE_END, start_at(40)) == ("earliest", "latest", "offset:40")
    words = (start_at(40), FROM_THE_START, "timestamp:40", "offset:", "offset:-1")
    assert [offset_of(word) for word in words] == [40, None, None, None, None]


def test_faults_and_plans_say_a_loss_in_the_words_of_the_catalog() -> None:
    faults = {reason.value for reason in FaultReason}
    assert {cause.value for cause in LossCause} - faults == {"rewound"}
    reasons = {reason.value for reason in Reason}
    assert reasons >= {"source-recreated", "target-recreated"}
