"""Names as MirrorMaker 2 forms and reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from mirrorfleet.policy import naming
from mirrorfleet.policy.naming import Naming, remote_name, why_illegal

CASES = yaml.safe_load(Path("tests/golden/policy_names.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES["names"], ids=lambda case: case["topic"])
def test_a_name_tells_its_source_its_upstream_and_its_original(case: dict[str, str]) -> None:
    topic = case["topic"]
    assert naming.topic_source(topic) == case["source"]
    assert naming.upstream_topic(topic) == case["upstream"]
    assert naming.original_topic(topic) == case["original"]


@pytest.mark.parametrize(
    ("kind", "predicate"),
    [
        ("heartbeats", naming.is_heartbeats_topic),
        ("checkpoints", naming.is_checkpoints_topic),
        ("internal", naming.is_internal_topic),
    ],
    ids=["heartbeats", "checkpoints", "internal"],
)
def test_special_topics_are_known_by_name(kind: str, predicate: object) -> None:
    assert callable(predicate)
    assert [name for name in CASES[kind]["yes"] if not predicate(name)] == []
    assert [name for name in CASES[kind]["no"] if predicate(name)] == []


def test_prefix_naming_puts_the_alias_in_front() -> None:
    assert remote_name(Naming.PREFIX, "east", "orders") == "east.orders"


def test_identity_naming_keeps_the_name_of_everything_but_heartbeats() -> None:
    assert remote_name(Naming.IDENTITY, "east", "orders") == "orders"
    assert remote_name(Naming.IDENTITY, "east", "my-heartbeats") == "my-heartbeats"
    assert remote_name(Naming.IDENTITY, "east", "heartbeats") == "east.heartbeats"
    assert remote_name(Naming.IDENTITY, "east", "north.heartbeats") == "east.north.heartbeats"


def test_249_bytes_are_the_longest_name() -> None:
    assert why_illegal("a" * 249) is None
    assert why_illegal("a" * 250) == "250 bytes are more than the 249 that Kafka takes"


def test_names_that_kafka_refuses_are_refused() -> None:
    assert why_illegal("") == "'' is not a topic name"
    assert why_illegal("..") == "'..' is not a topic name"
    assert why_illegal("a b") == "only letters, digits, '.', '_' and '-' may be in a topic name"


def test_our_own_topics_are_known() -> None:
    assert naming.is_own_topic("__mirrorfleet.west.catalog")
    assert not naming.is_own_topic("mirrorfleet.west.catalog")
