"""Control records as text."""

from __future__ import annotations

import pytest

from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.records import positions, traces
from mirrorfleet.records.readable import decoder_of
from mirrorfleet.records.topics import ControlKind
from tests.unit.records.test_positions import POSITION
from tests.unit.records.test_traces import BATCH


def read(topic: str, key: bytes | None, value: bytes | None) -> str:
    decode = decoder_of(topic)
    assert decode is not None
    return decode(key, value)


def test_a_position_reads_with_kafkas_form_of_ids() -> None:
    assert read("__mirrorfleet.west.positions", *positions.encode(POSITION)) == (
        "Position(identity=PartitionIdentity(source_cluster=AAECAwQFBgcICQoLDA0ODw,"
        " source_topic_id=EREREREREREREREREREREQ, partition=3,"
        " target_topic_id=IiIiIiIiIiIiIiIiIiIiIg, incarnation=0), next_source=1000,"
        " leader_epoch=4, next_target=1010, records=990, bytes=123456, time_ms=1790000000000)"
    )


def test_mirrormakers_topics_read_too() -> None:
    key, value = bytes.fromhex("000141000142"), bytes.fromhex("000000000000499602d2")
    assert read("heartbeats", key, value) == "Heartbeat(source=A, target=B, time_ms=1234567890)"
    assert read("mm2-offset-syncs.a.internal", b"", b"").startswith("Skipped(")
    assert read("a.checkpoints.internal", None, None).startswith("Skipped(")


def test_sampled_batches_read_beside_the_snapshots_of_the_same_topic() -> None:
    key, value = traces.encode(SlotNumber(0), [BATCH])

    assert read("__mirrorfleet.west.progress", key, value) == (
        "[SampledBatch(topic_id=AAAAAAAAAAAAAAAAAAAAAQ, partition=2, first=300, count=40,"
        " trace_id=2748, span_id=13, committed_ms=5, hop=1)]"
    )


def test_a_record_that_cannot_be_read_says_why() -> None:
    text = read("__mirrorfleet.west.positions", b"\x09", b"")
    assert text.startswith("unreadable: positions key: version 9 is not known")
    assert read("__mirrorfleet.west.segments", None, None).startswith("unreadable: segment")


@pytest.mark.parametrize("kind", sorted({*ControlKind} - {ControlKind.SLOTS}))
def test_each_control_topic_that_has_records_reads(kind: ControlKind) -> None:
    assert decoder_of(f"__mirrorfleet.west.{kind}") is not None


def test_other_topics_are_not_ours_to_decode() -> None:
    assert decoder_of("orders") is None
    assert decoder_of("__consumer_offsets") is None
