"""Markers are found in the bytes of a log segment, written here by hand from Kafka's layout."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.faultkit.markers import Marker, MarkerType, aborts, markers, parse_markers


def batch(
    offset: int, records: bytes, *, control: bool, producer: int = 7, epoch: int = 3
) -> bytes:
    attributes = 0x30 if control else 0x10
    inner = struct.pack(">ibihiqqqhii", 0, 2, 0, attributes, 0, 0, 0, producer, epoch, -1, 1)
    return struct.pack(">qi", offset, len(inner) + len(records)) + inner + records


ABORT = bytes([32, 0, 0, 0, 8]) + struct.pack(">hh", 0, 0) + bytes([12]) + bytes(6) + bytes([0])
COMMIT = bytes([32, 0, 0, 0, 8]) + struct.pack(">hh", 0, 1) + bytes([12]) + bytes(6) + bytes([0])
DATA = bytes([16, 0, 0, 0, 1, 4, 65, 65, 0])


def test_markers_stand_between_data() -> None:
    segment = (
        batch(0, DATA, control=False)
        + batch(1, ABORT, control=True)
        + batch(2, DATA, control=False)
        + batch(3, COMMIT, control=True, epoch=4)
    )
    assert list(parse_markers(segment)) == [
        Marker(1, 7, 3, MarkerType.ABORT),
        Marker(3, 7, 4, MarkerType.COMMIT),
    ]


def test_a_batch_that_is_still_being_written_is_left_out() -> None:
    segment = batch(0, ABORT, control=True) + batch(1, ABORT, control=True)[:-1]
    assert [marker.offset for marker in parse_markers(segment)] == [0]


def test_a_marker_emptied_by_the_cleaner_is_no_marker() -> None:
    assert list(parse_markers(batch(0, b"", control=True))) == []


def test_all_segments_of_the_directory_that_has_the_partition_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "one" / "orders-3"
    folder.mkdir(parents=True)
    (folder / "00000000000000000000.log").write_bytes(batch(5, ABORT, control=True))
    (folder / "00000000000000000009.log").write_bytes(batch(9, COMMIT, control=True))
    directories = [tmp_path / "none", tmp_path / "one"]
    assert [m.offset for m in markers(directories, "orders", 3)] == [5, 9]
    assert [m.offset for m in aborts(directories, "orders", 3)] == [5]
    assert markers(directories, "orders", 4) == []
