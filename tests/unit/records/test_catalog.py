"""The catalog: JSON that is stable, complete, and refused when newer."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mirrorfleet.core.errors import CorruptBatchError, UnknownVersionError
from mirrorfleet.core.ids import ClusterId, SlotNumber
from mirrorfleet.records.catalog import (
    CatalogAcl,
    CatalogConfig,
    CatalogLink,
    CatalogLoss,
    CatalogPartition,
    CatalogState,
    Priority,
    Removed,
    RuleBeginning,
    decode,
    encode,
    partition_key,
)
from tests.unit.policy.test_crossing import an_acl
from tests.unit.records.making import CLUSTER, LINK, identity

PARTITION = CatalogPartition(
    identity=identity(3, incarnation=1),
    link=LINK,
    source_topic="orders",
    target_topic="east.orders",
    slot=SlotNumber(7),
    state=CatalogState.PAUSED,
    priority=Priority.HIGH,
    rule="all",
    start="timestamp:5",
    on_source_loss="record-gap",
    null_keys="drop-recorded",
    throttle=1000,
    origins=(CLUSTER, ClusterId("X")),
    target_max_batch_bytes=99,
    target_append_time=True,
    target_compacted=True,
    source_retention_ms=-1,
)
KEY = (
    b'["partition","AAECAwQFBgcICQoLDA0ODw","EREREREREREREREREREREQ",3,"IiIiIiIiIiIiIiIiIiIiIg",1]'
)
VALUE = {
    "v": 1,
    "source": "east",
    "target": "west",
    "source_topic": "orders",
    "target_topic": "east.orders",
    "slot": 7,
    "state": "paused",
    "priority": "high",
    "rule": "all",
    "start": "timestamp:5",
    "on_source_loss": "record-gap",
    "null_keys": "drop-recorded",
    "throttle": 1000,
    "origins": ["AAECAwQFBgcICQoLDA0ODw", "X"],
    "target_max_batch_bytes": 99,
    "target_append_time": True,
    "target_compacted": True,
    "source_retention_ms": -1,
}


def test_a_partition_is_this_json() -> None:
    key, value = encode(PARTITION)
    assert key == KEY
    assert json.loads(value) == VALUE


def test_this_json_is_that_partition() -> None:
    assert decode(KEY, json.dumps(VALUE).encode()) == PARTITION


def test_partitions_of_a_topic_share_what_is_the_same() -> None:
    """Of ten thousand partitions each would have copies of a dozen words and two ids."""
    entries = [encode(replace(PARTITION, identity=identity(number))) for number in (3, 4)]
    one, other = (decode(*entry) for entry in entries)
    assert isinstance(one, CatalogPartition)
    assert isinstance(other, CatalogPartition)
    assert one.identity.source_topic_id is other.identity.source_topic_id
    assert one.identity.target_topic_id is other.identity.target_topic_id
    assert one.identity.source_cluster is other.identity.source_cluster
    assert one.link is other.link
    for name in ("source_topic", "target_topic", "rule", "start", "on_source_loss", "null_keys"):
        assert getattr(one, name) is getattr(other, name), name
    assert one.origins[1] is other.origins[1]


def test_an_incarnation_carries_why_it_began_and_the_first_one_nothing() -> None:
    loss = CatalogLoss(
        cause="target-truncated", first=5, end=9, records=3, request="a1", detail="why"
    )
    after = replace(PARTITION, loss=loss)
    value = {
        **VALUE,
        "loss": {
            "cause": "target-truncated",
            "first": 5,
            "end": 9,
            "records": 3,
            "request": "a1",
            "detail": "why",
        },
    }
    assert json.loads(encode(after)[1]) == value
    assert decode(KEY, json.dumps(value).encode()) == after


def test_that_a_source_is_compacted_is_said_only_when_it_is() -> None:
    compacted = replace(PARTITION, source_compacted=True)
    value = {**VALUE, "source_compacted": True}
    assert json.loads(encode(compacted)[1]) == value
    assert decode(KEY, json.dumps(value).encode()) == compacted


def test_that_an_operator_asked_for_a_throttle_is_said_only_when_it_is_so() -> None:
    asked = replace(PARTITION, throttle_asked=True)
    value = {**VALUE, "throttle_asked": True}
    assert json.loads(encode(asked)[1]) == value
    assert decode(KEY, json.dumps(value).encode()) == asked


def test_a_link_and_the_config_come_back() -> None:
    link = CatalogLink(
        link=LINK,
        source_cluster=CLUSTER,
        target_cluster=ClusterId("T"),
        slots=(SlotNumber(0), SlotNumber(1)),
    )
    config = CatalogConfig(generation=4, format_level=1)
    assert encode(link)[0] == b'["link","AAECAwQFBgcICQoLDA0ODw"]'
    assert encode(config)[0] == b'["config"]'
    assert decode(*encode(link)) == link
    assert decode(*encode(config)) == config


def test_what_a_rule_began_with_comes_back_and_is_left_out_where_nobody_said_it() -> None:
    silent = CatalogLink(
        link=LINK, source_cluster=CLUSTER, target_cluster=ClusterId("T"), slots=(SlotNumber(0),)
    )
    ids = frozenset({identity(3).source_topic_id, identity(3).target_topic_id})
    begun = replace(silent, begun=(RuleBeginning("a", frozenset()), RuleBeginning("b", ids)))

    assert "begun" not in json.loads(encode(silent)[1])
    assert json.loads(encode(begun)[1])["begun"] == {
        "a": "",
        "b": "ERERERERERERERERERERESIiIiIiIiIiIiIiIiIiIiI=",
    }
    assert [decode(*encode(each)) for each in (silent, begun)] == [silent, begun]


def test_what_a_rule_began_with_is_refused_when_it_is_not_whole() -> None:
    key, value = encode(
        CatalogLink(
            link=LINK,
            source_cluster=CLUSTER,
            target_cluster=ClusterId("T"),
            slots=(),
            begun=(RuleBeginning("a", frozenset({identity(3).source_topic_id})),),
        )
    )

    with pytest.raises(CorruptBatchError):
        decode(key, value.replace(b"ERER", b"", 1))


def test_a_tombstone_says_what_was_removed() -> None:
    key = partition_key(identity(3))
    assert decode(key, None) == Removed(key, identity(3))
    assert decode(b'["config"]', None) == Removed(b'["config"]', None)


def test_what_an_acl_passed_is_in_its_value() -> None:
    entry = CatalogAcl(
        CLUSTER, an_acl("ALLOW User:a READ GROUP LITERAL app"), (ClusterId("X"), ClusterId("Y"))
    )

    key, value = encode(entry)

    assert value == b'{"v":1,"origins":["X","Y"]}'
    assert decode(key, value) == entry


def test_an_acl_is_all_in_its_key_and_is_forgotten_by_a_tombstone() -> None:
    entry = CatalogAcl(CLUSTER, an_acl("ALLOW User:a READ TOPIC PREFIXED east.ord"))
    key = (
        b'["acl","%s","TOPIC","east.ord","PREFIXED","User:a","10.0.0.1","READ","ALLOW"]'
        % CLUSTER.encode()
    )

    assert encode(entry) == (key, b'{"v":1}')
    assert decode(key, b'{"v":1}') == entry
    assert decode(key, None) == Removed(key, None, entry)


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (b'["acl","c","TOPIC","n","FUZZY","User:a","*","READ","ALLOW"]', UnknownVersionError),
        (b'["acl","c","TOPIC","n"]', CorruptBatchError),
    ],
)
def test_an_acl_that_we_cannot_know_stops_us(key: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        decode(key, b'{"v":1}')


def test_fields_of_a_newer_release_are_left_alone() -> None:
    assert decode(KEY, json.dumps({**VALUE, "new": [1]}).encode()) == PARTITION


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (KEY, {**VALUE, "v": 2}),
        (KEY, {**VALUE, "state": "sleeping"}),
        (b'["region"]', VALUE),
        (b'["config"]', {"v": 0, "generation": 1, "format_level": 1}),
        (b'["config"]', {"v": 1, "generation": 1, "format_level": 3}),
    ],
    ids=["version", "word", "kind of key", "older version", "format level"],
)
def test_what_a_newer_build_wrote_stops_us(key: bytes, value: dict[str, object]) -> None:
    with pytest.raises(UnknownVersionError):
        decode(key, json.dumps(value).encode())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (KEY, b"[]"),
        (KEY, b"{"),
        (b"\xff", b"{}"),
        (KEY, json.dumps({**VALUE, "slot": "7"}).encode()),
        (KEY, json.dumps({**VALUE, "slot": True}).encode()),
        (KEY, json.dumps({**VALUE, "origins": [1]}).encode()),
        (KEY, json.dumps({**VALUE, "target_compacted": 1}).encode()),
        (KEY, json.dumps({**VALUE, "source_compacted": 1}).encode()),
        (b'["partition","x"]', json.dumps(VALUE).encode()),
    ],
)
def test_damaged_records_are_damage(key: bytes | None, value: bytes) -> None:
    with pytest.raises(CorruptBatchError):
        decode(key, value)
