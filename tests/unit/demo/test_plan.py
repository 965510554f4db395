"""The demo's estate and its expectations of topic names."""

from __future__ import annotations

import yaml

from tests.demo.plan import SIDES, estate, is_internal, services, strangers


def test_the_estate_copies_all_topics_both_ways_under_prefixed_names() -> None:
    rules = [{"name": "all", "topics": [".*"], "groups": [".*"], "naming": "prefix"}]
    bootstraps = {"east": "127.0.0.1:1", "west": "127.0.0.1:2"}
    assert yaml.safe_load(estate(bootstraps, "http://127.0.0.1:3")) == {
        "estate": "demo",
        "clusters": {"east": {"bootstrap": "127.0.0.1:1"}, "west": {"bootstrap": "127.0.0.1:2"}},
        "links": [
            {"from": "east", "to": "west", "rules": rules},
            {"from": "west", "to": "east", "rules": rules},
        ],
        "telemetry": {"endpoint": "http://127.0.0.1:3"},
    }


def test_both_fleets_have_every_service_and_sync_starts_first() -> None:
    assert [str(name) for name in services()] == [
        "sync-east",
        "mirror-east",
        "heartbeat-east",
        "checkpoint-east",
        "lag-east",
        "sync-west",
        "mirror-west",
        "heartbeat-west",
        "checkpoint-west",
        "lag-west",
        "console-west",
    ]


def test_a_copy_of_a_copy_is_a_stranger_and_a_copy_is_none() -> None:
    east = SIDES[0]
    own_and_copies = {"orders", "clicks", "customers", "west.orders", "west.shipments"}
    own_and_copies.add("west.heartbeats")
    internal = {"__consumer_offsets", "heartbeats", "west.checkpoints.internal"}
    assert strangers(own_and_copies | internal, east) == set()
    assert strangers(own_and_copies | {"west.east.orders"}, east) == {"west.east.orders"}
    assert strangers({"east.heartbeats"}, east) == {"east.heartbeats"}
    assert strangers({"west.east.heartbeats"}, east) == {"west.east.heartbeats"}


def test_internal_topics_are_those_of_kafka_of_ours_and_of_mm2() -> None:
    names = ["__mirrorfleet.west.catalog", "mm2-offset-syncs.east.internal", "internal", "orders"]
    assert [is_internal(name) for name in names] == [True, True, False, False]
