"""MirrorMaker 2's exact bytes: the vectors of its own tests."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import pytest

from mirrorfleet.core.ids import ClusterAlias, SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.records import checkpoint, heartbeat, offset_sync
from mirrorfleet.records.checkpoint import Checkpoint
from mirrorfleet.records.heartbeat import Heartbeat
from mirrorfleet.records.mm2 import string
from mirrorfleet.records.offset_sync import OffsetSync
from mirrorfleet.records.packing import Skipped

BEAT = Heartbeat(ClusterAlias("A"), ClusterAlias("B"), 1_234_567_890)
POINT = Checkpoint(
    "group-1", TopicPartition("topic-2", 3), SourceOffset(4), TargetOffset(5), "metadata-6"
)
SYNC = OffsetSync(TopicPartition("topic-1", 2), SourceOffset(3), TargetOffset(4))

CASES = [
    (heartbeat, BEAT, "000141000142", "000000000000499602d2"),
    (
        checkpoint,
        POINT,
        "000767726f75702d310007746f7069632d3200000003",
        "000000000000000000040000000000000005000a6d657461646174612d36",
    ),
    (
        offset_sync,
        SYNC,
        "0007746f7069632d3100000002",
        "00000000000000030000000000000004",
    ),
]
IDS = ["heartbeat", "checkpoint", "offset-sync"]


@pytest.mark.parametrize(("codec", "entry", "key", "value"), CASES, ids=IDS)
def test_the_bytes_are_mirrormakers(codec: ModuleType, entry: object, key: str, value: str) -> None:
    assert [part.hex() for part in codec.encode(entry)] == [key, value]
    assert codec.decode(bytes.fromhex(key), bytes.fromhex(value)) == entry


@pytest.mark.parametrize(("codec", "entry", "key", "value"), CASES, ids=IDS)
def test_further_bytes_are_ignored(codec: ModuleType, entry: object, key: str, value: str) -> None:
    assert codec.decode(bytes.fromhex(key), bytes.fromhex(value) + b"more") == entry


@pytest.mark.parametrize(("codec", "entry", "key", "value"), CASES, ids=IDS)
def test_malformed_records_are_skipped(
    codec: ModuleType, entry: object, key: str, value: str
) -> None:
    whole_key, whole_value = bytes.fromhex(key), bytes.fromhex(value)
    for broken in (
        (None, whole_value),
        (whole_key, None),
        (whole_key[:-1], whole_value),
        (whole_key, whole_value[:-1]),
        (b"\xff\xff" + whole_key[2:], whole_value),
        (b"", whole_value),
    ):
        assert isinstance(codec.decode(*broken), Skipped)


def test_another_version_is_skipped() -> None:
    key, value = heartbeat.encode(BEAT)
    assert isinstance(heartbeat.decode(key, b"\x00\x01" + value[2:]), Skipped)
    key, value = checkpoint.encode(POINT)
    assert isinstance(checkpoint.decode(key, b"\x00\x01" + value[2:]), Skipped)


def test_the_topics_have_mirrormakers_names() -> None:
    assert offset_sync.topic_name(ClusterAlias("east")) == "mm2-offset-syncs.east.internal"
    assert checkpoint.topic_name(ClusterAlias("east")) == "east.checkpoints.internal"
    assert heartbeat.TOPIC == "heartbeats"


def test_a_string_longer_than_its_length_field_is_refused() -> None:
    with pytest.raises(ValueError, match="32768 bytes"):
        string("a" * 32768)


def test_offsets_that_we_wrote_are_behind_what_mirrormaker_reads() -> None:
    written = (TargetOffset(7), TargetOffset(5))
    ours = replace(POINT, written=written)
    key, value = checkpoint.encode(ours)
    plain = checkpoint.encode(POINT)[1]
    assert value == plain + bytes.fromhex("01" + "0000000000000007" + "0000000000000005")
    assert checkpoint.decode(key, value) == ours
    assert checkpoint.decode(key, value[:-1]) == POINT
    assert checkpoint.decode(key, plain + b"\x02" + value[len(plain) + 1 :]) == POINT
