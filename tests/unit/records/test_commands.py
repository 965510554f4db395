"""Requests: what is written is read back, and what cannot be read is never guessed at."""

from __future__ import annotations

from uuid import UUID

from mirrorfleet.core.ids import ClusterAlias, ClusterId, Link, PartitionIdentity, SourceOffset
from mirrorfleet.records.commands import Action, Command, decode, encode
from mirrorfleet.records.packing import Skipped

ONE = Command(
    id="a1",
    action=Action.BEGIN_ANEW,
    identity=PartitionIdentity(ClusterId("source"), UUID(int=1), 3, UUID(int=2), 4),
    link=Link(ClusterAlias("east"), ClusterAlias("west")),
    topic="orders",
    first=SourceOffset(5),
    end=SourceOffset(9),
    time_ms=10,
    expires_ms=11,
    writer="me",
    start="offset:5",
    cause="source-truncated",
    records=4,
    request="b2",
    detail="why",
)
BYTES = (
    b'{"v":1,"id":"a1","action":"begin-anew","identity":["source","AAAAAAAAAAAAAAAAAAAAAQ",3,'
    b'"AAAAAAAAAAAAAAAAAAAAAg",4],"source":"east","target":"west","topic":"orders","first":5,'
    b'"end":9,"time_ms":10,"expires_ms":11,"writer":"me","start":"offset:5",'
    b'"cause":"source-truncated","records":4,"request":"b2","detail":"why"}'
)


def test_a_request_is_written_and_read_as_json() -> None:
    assert encode(ONE) == (None, BYTES)
    assert decode(BYTES) == ONE


def test_what_this_build_cannot_read_is_skipped() -> None:
    assert decode(BYTES.replace(b'"v":1', b'"v":2')) == Skipped(
        "command: version 2 is not known to this build (it knows 1). Run the release that wrote it,"
        " or a newer one; nothing was changed."
    )
    assert isinstance(decode(BYTES.replace(b"begin-anew", b"something")), Skipped)
    assert isinstance(decode(BYTES.replace(b",4]", b"]")), Skipped)
    assert decode(None) == Skipped("command: no value")
