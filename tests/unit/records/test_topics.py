"""The control topics of a fleet."""

from __future__ import annotations

from mirrorfleet.core.ids import ClusterAlias, FleetName, SlotNumber
from mirrorfleet.core.names import transactional_id
from mirrorfleet.records.topics import (
    ControlKind,
    control_kind,
    control_topics,
    heartbeat_topic,
    mm2_topics,
    replicas_on,
)

WEST = FleetName("west")


def test_control_topics_have_these_partitions_and_cleanup() -> None:
    specs = control_topics(WEST, slots=16, replication_factor=3)
    found = {one.name: (one.partitions, one.configs["cleanup.policy"]) for one in specs}
    assert found == {
        "__mirrorfleet.west.catalog": (1, "compact"),
        "__mirrorfleet.west.positions": (16, "compact"),
        "__mirrorfleet.west.segments": (16, "delete"),
        "__mirrorfleet.west.archive": (16, "compact"),
        "__mirrorfleet.west.registry": (1, "compact"),
        "__mirrorfleet.west.commands": (1, "delete"),
        "__mirrorfleet.west.events": (1, "delete"),
        "__mirrorfleet.west.progress": (16, "compact"),
        "__mirrorfleet.west.samples": (16, "delete"),
        "__mirrorfleet.west.reports": (1, "compact"),
        "__mirrorfleet.west.slots": (16, "delete"),
    }


def test_positions_are_cleaned_early_and_segments_never() -> None:
    specs = {
        one.name.rpartition(".")[2]: one
        for one in control_topics(WEST, slots=1, replication_factor=3)
    }
    assert dict(specs["positions"].configs) == {
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
        "message.timestamp.type": "LogAppendTime",
        "cleanup.policy": "compact",
        "max.message.bytes": "8388608",
        "segment.bytes": "16777216",
        "delete.retention.ms": "60000",
        "min.cleanable.dirty.ratio": "0.1",
        "max.compaction.lag.ms": "3600000",
    }
    assert dict(specs["archive"].configs) == {
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
        "message.timestamp.type": "LogAppendTime",
        "cleanup.policy": "compact",
        "max.message.bytes": "8388608",
        "segment.bytes": "16777216",
        "min.cleanable.dirty.ratio": "0.1",
    }
    assert specs["segments"].configs["retention.ms"] == "-1"
    assert specs["segments"].configs["retention.bytes"] == "-1"
    assert specs["events"].configs["retention.ms"] == "7776000000"
    assert specs["samples"].configs["retention.ms"] == "604800000"


def test_a_small_cluster_gets_what_it_has() -> None:
    for factor, min_isr in ((1, "1"), (2, "1"), (3, "2")):
        spec = control_topics(WEST, slots=1, replication_factor=factor)[0]
        assert (spec.replication_factor, spec.configs["min.insync.replicas"]) == (factor, min_isr)


def test_mirrormakers_topics_are_created_as_it_does() -> None:
    specs = mm2_topics(ClusterAlias("east"), replication_factor=3)
    assert [(one.name, one.partitions, dict(one.configs)) for one in specs] == [
        ("mm2-offset-syncs.east.internal", 1, {"cleanup.policy": "compact"}),
        ("east.checkpoints.internal", 1, {"cleanup.policy": "compact"}),
        ("heartbeats", 1, {"cleanup.policy": "compact"}),
    ]


def test_the_topic_of_heartbeats_is_one_of_them() -> None:
    *_, last = mm2_topics(ClusterAlias("east"), replication_factor=2)
    assert heartbeat_topic(replication_factor=2) == last


def test_a_topic_has_a_copy_on_each_of_three_brokers_at_most() -> None:
    assert [replicas_on(brokers) for brokers in (1, 2, 3, 9)] == [1, 2, 3, 3]


def test_a_control_topic_is_known_by_its_name() -> None:
    assert control_kind("__mirrorfleet.west.positions") == ("west", ControlKind.POSITIONS)
    assert control_kind("__mirrorfleet.west.unknown") is None
    assert control_kind("__mirrorfleet.positions") is None
    assert control_kind("x__mirrorfleet.west.positions") is None


def test_a_transactional_id_names_fleet_source_and_slot() -> None:
    assert transactional_id(WEST, ClusterAlias("east"), SlotNumber(3)) == "mirrorfleet.west.east.3"
