"""Which configs are asked for together, and in which order, where all of them are refused."""

from __future__ import annotations

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.planning.configs import ConfigEdit
from mirrorfleet.planning.pieces import Pieces, least_configs

REFUSED = BrokerError(ErrorCode.POLICY_VIOLATION, "configs of east.a")
SEGMENT = ConfigEdit("segment.bytes", None, "524288")


def edits(**values: str | None) -> list[ConfigEdit]:
    """Of names with '_' for '.'."""
    return [ConfigEdit(name.replace("_", "."), None, value) for name, value in values.items()]


def asked(pieces: Pieces, refused: frozenset[str] = frozenset()) -> list[list[str]]:
    """The names of each part that is asked for, by a target that refuses some names."""
    found: list[list[str]] = []
    while part := pieces.part:
        found.append([each.name for each in part])
        pieces.answer(None if refused.isdisjoint(found[-1]) else REFUSED)
    return found


def test_what_a_copy_needs_goes_first_then_what_is_kept_then_all_else() -> None:
    wanted = edits(
        flush_ms="1",
        retention_ms="-1",
        segment_ms="1",
        compression_type="producer",
        max_message_bytes="9000000",
    )

    order = asked(Pieces(wanted, REFUSED))

    assert order == [
        ["compression.type"],
        ["max.message.bytes"],
        ["retention.ms"],
        ["flush.ms"],
        ["segment.ms"],
    ]


@pytest.mark.parametrize(
    ("policy", "together", "alone"),
    [
        ("delete", ["cleanup.policy", "retention.ms"], ["delete.retention.ms"]),
        ("compact", ["cleanup.policy", "delete.retention.ms"], ["retention.ms"]),
    ],
)
def test_a_policy_goes_with_the_limits_that_count_under_it_and_the_others_after_it(
    policy: str, together: list[str], alone: list[str]
) -> None:
    """A copy that begins to delete without the longer `retention.ms` would lose records."""
    wanted = edits(cleanup_policy=policy, delete_retention_ms="2", retention_ms="3", flush_ms="4")

    taken = asked(Pieces(wanted, REFUSED))
    refused = asked(Pieces(wanted, REFUSED), frozenset({"cleanup.policy"}))

    assert taken == [together, alone, ["flush.ms"]]
    assert refused == [together, ["flush.ms"]]


def test_a_policy_that_goes_back_to_the_default_goes_with_every_limit() -> None:
    wanted = edits(cleanup_policy=None, delete_retention_ms="2", retention_ms=None, flush_ms="4")

    together = ["cleanup.policy", "delete.retention.ms", "retention.ms"]
    assert asked(Pieces(wanted, REFUSED)) == [together, ["flush.ms"]]


def test_compaction_lags_go_together_because_a_least_one_above_the_longest_is_refused() -> None:
    wanted = edits(min_compaction_lag_ms="5", max_compaction_lag_ms="6", flush_ms="4")

    lags = ["min.compaction.lag.ms", "max.compaction.lag.ms"]
    assert asked(Pieces(wanted, REFUSED)) == [lags, ["flush.ms"]]


def test_only_what_is_refused_by_itself_stays_refused_and_is_named() -> None:
    pieces = Pieces([SEGMENT, *edits(retention_ms="-1")], REFUSED)

    asked(pieces, frozenset({"segment.bytes"}))

    assert pieces.refusal == f"segment.bytes: default -> 524288: {REFUSED}"


def test_what_was_refused_alone_is_not_asked_for_again_and_named_as_well() -> None:
    pieces = Pieces([SEGMENT], REFUSED)

    assert pieces.part == ()
    assert pieces.refusal == f"segment.bytes: default -> 524288: {REFUSED}"


def test_nothing_is_refused_any_more_where_every_part_is_made() -> None:
    pieces = Pieces([SEGMENT, *edits(retention_ms="-1")], REFUSED)

    asked(pieces)

    assert pieces.refusal == ""


@pytest.mark.parametrize(
    "code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
)
def test_a_target_that_refuses_for_now_or_whoever_asks_is_asked_no_further(code: ErrorCode) -> None:
    pieces = Pieces([SEGMENT, *edits(retention_ms="-1", flush_ms="1")], REFUSED)

    pieces.answer(BrokerError(code, "configs of east.a"))

    assert pieces.part == ()
    assert code.name in pieces.refusal


def test_the_least_of_a_new_topic_keeps_it_exact_and_what_its_source_keeps() -> None:
    least = {
        "compression.type": "producer",
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": "9",
        "max.message.bytes": "9000000",
        "cleanup.policy": "compact",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "delete.retention.ms": "1",
        "min.compaction.lag.ms": "1",
        "max.compaction.lag.ms": "1",
    }

    assert least_configs({**least, "segment.bytes": "524288", "flush.ms": "1"}) == least
