"""Identities as bytes and as JSON lists."""

from __future__ import annotations

from uuid import UUID

import pytest

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.core.ids import ClusterId
from mirrorfleet.records import identity as codec
from mirrorfleet.records.packing import Reader, Writer
from tests.unit.records.making import CLUSTER, identity


def test_a_topic_id_reads_as_kafka_prints_it() -> None:
    topic_id = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")
    assert codec.topic_id_text(topic_id) == "AAECAwQFBgcICQoLDA0ODw"
    assert codec.parse_topic_id("AAECAwQFBgcICQoLDA0ODw") == topic_id


@pytest.mark.parametrize("text", ["", "AAECAwQFBgcICQoLDA0OD", "AAECAwQFBgcICQoLDA0OD!"])
def test_other_text_is_no_topic_id(text: str) -> None:
    with pytest.raises(CorruptBatchError):
        codec.parse_topic_id(text)


@pytest.mark.parametrize(
    ("cluster", "size"),
    [(CLUSTER, 17), ("my-cluster", 11), ("AAECAwQFBgcICQoLDA0ODx", 23)],
    ids=["uuid", "text", "not canonical"],
)
def test_a_cluster_id_is_kept_exactly_in_few_bytes(cluster: str, size: int) -> None:
    out = Writer(1)
    codec.write_cluster_id(out, ClusterId(cluster))
    assert len(out.done()) == 1 + size
    assert codec.read_cluster_id(Reader(out.done(), "x", version=1)) == cluster


def test_a_cluster_id_is_never_empty() -> None:
    with pytest.raises(ValueError, match="never empty"):
        codec.write_cluster_id(Writer(1), ClusterId(""))


def test_what_identities_of_a_topic_share_is_one_object() -> None:
    found = []
    for number in (5, 6):
        out = Writer(1)
        codec.write_identity(out, identity(number))
        found.append(codec.read_identity(Reader(out.done(), "x", version=1)))
    one, other = found
    assert one.source_cluster is other.source_cluster
    assert one.source_topic_id is other.source_topic_id
    assert one.target_topic_id is other.target_topic_id


def test_an_identity_is_a_list_in_json() -> None:
    values = codec.identity_list(identity(5, incarnation=2))
    assert values == [
        "AAECAwQFBgcICQoLDA0ODw",
        "EREREREREREREREREREREQ",
        5,
        "IiIiIiIiIiIiIiIiIiIiIg",
        2,
    ]
    assert codec.parse_identity_list(list(values)) == identity(5, incarnation=2)


def test_another_list_is_no_identity() -> None:
    with pytest.raises(CorruptBatchError):
        codec.parse_identity_list(["a", "b", 1])
