"""How far a target still is what was written to it: a prefix of the map, by checksums."""

from __future__ import annotations

from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.offsets.agreement import Payload, kept_to
from mirrorfleet.records.segments import Run

RUNS = [
    Run(SourceOffset(0), SourceOffset(5), TargetOffset(0), payloads=((3, 11), (2, 12))),
    Run(SourceOffset(5), SourceOffset(9), TargetOffset(6), payloads=((4, 13),)),
]


def stored(*payloads: tuple[int, int, int]) -> dict[TargetOffset, Payload]:
    return {TargetOffset(at): Payload(records, crc) for at, records, crc in payloads}


def test_a_whole_log_is_kept_to_the_end_of_its_last_payload() -> None:
    assert kept_to(RUNS, stored((0, 3, 11), (3, 2, 12), (6, 4, 13))) == (10, False)


def test_a_cut_log_is_kept_to_the_last_payload_that_is_still_there() -> None:
    assert kept_to(RUNS, stored((0, 3, 11), (3, 2, 12))) == (5, False)


def test_what_was_written_since_the_cut_is_no_copy() -> None:
    assert kept_to(RUNS, stored((0, 3, 11), (3, 1, 77), (4, 9, 78))) == (3, False)


def test_other_bytes_in_the_same_place_are_told_apart_from_a_cut() -> None:
    assert kept_to(RUNS, stored((0, 3, 91), (3, 2, 92), (6, 4, 93))) == (None, True)


def test_an_empty_log_keeps_nothing() -> None:
    assert kept_to(RUNS, {}) == (None, False)
