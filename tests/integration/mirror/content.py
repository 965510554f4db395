"""The topics of the content matrix: made on the source, each with proof that it is what it claims.

One function a topic; `fill` calls all of them before the fleet starts. A topic's name says what
it is about; tests find it by the constant.
"""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.faultkit.waiting import wait_until
from tests.integration.mirror.making import (
    EACH_ALONE,
    ONE_BATCH,
    Headers,
    Made,
    abort,
    alter_broker,
    alter_topic,
    commit,
    create,
    numbered,
    put,
    send,
    transactional,
)
from tests.integration.mirror.stored import CODECS, data, stored

if TYPE_CHECKING:
    from confluent_kafka import Producer

    from services.local.region import Region

CODEC: Final = "mx-codec"
TINY: Final = "mx-tiny"
LARGE: Final = "mx-large"
NULLS: Final = "mx-nulls"
HEADERS: Final = "mx-headers"
TIMES: Final = "mx-times"
SPARSE: Final = "mx-sparse"
MIXED: Final = "mx-mixed"
HUGE: Final = "mx-huge"
OPEN: Final = "mx-open"
COMPACTED: Final = "mx-compacted"
EMPTIED: Final = "mx-emptied"
APPEND: Final = "mx-append"
APPEND_BOTH: Final = "mx-append-both"
APPEND_THERE: Final = "mx-append-there"
MID_OFFSET: Final = "mx-mid-offset"
MID_TIME: Final = "mx-mid-time"
OVERSIZE: Final = "mx-oversize"
KEYLESS_FAIL: Final = "mx-keyless-fail"
KEYLESS_DROP: Final = "mx-keyless-drop"

HUGE_RECORDS: Final = 50_000
MID: Final = 37
"""Where copying of the mid topics begins: inside a batch of 100."""
MID_EPOCH_MS: Final = 1_700_000_000_000
"""Timestamp of record 0 of the mid topics; each next one is a second later."""
LIMIT: Final = 20_000
"""max.message.bytes of the target of OVERSIZE."""
OF_MANY: Final = 150
"""Records: batches of fewer may be joined where they wait, plain ones."""
BATCHES_OF_MANY: Final[dict[str, str | int]] = {"linger.ms": 2_000, "batch.num.messages": OF_MANY}
_CLEANED: Final[dict[str, str | int]] = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.01",
    "min_compaction_lag_ms": 0,
    "segment_ms": 1_000,
}
_CLEANER: Final = "log.cleaner.backoff.ms"


class OpenTransactions(NamedTuple):
    """Producers whose transactions in OPEN are open: partition 0 and 1."""

    to_commit: Producer
    to_abort: Producer


def fill(east: Region, west: Region) -> OpenTransactions:
    """Make all topics; those that need another kind of target get it first."""
    alter_broker(east, {_CLEANER: "50"})  # 15 s otherwise
    try:
        _compacted(east)
        _emptied(east)
        _codecs(east)
        _small_and_large(east)
        _nulls_and_headers(east)
        _times(east)
        _transactions(east)
        _append_times(east, west)
        _mids(east)
        _oversize(east, west)
        _keyless(east, west)
        _clean(east)
    finally:
        alter_broker(east, {_CLEANER: None})
    return _open(east)


def _codecs(east: Region) -> None:
    """Partition n holds batches of codec n, and nothing else."""
    create(east, CODEC, len(CODECS))
    for number, codec in enumerate(CODECS):
        records = numbered(0, 4 * OF_MANY, size=60, partition=number)
        put(east, CODEC, records, compression_type=codec, **BATCHES_OF_MANY)
        assert {batch.codec for batch in data(east, CODEC, number)} == {codec}


def _small_and_large(east: Region) -> None:
    create(east, TINY)
    put(east, TINY, numbered(0, 2_000), **EACH_ALONE)
    create(east, LARGE)
    put(east, LARGE, [Made(bytes([n]) * 1_000_000) for n in range(12)])
    create(east, SPARSE, 8)
    put(east, SPARSE, numbered(0, 3, partition=5))


def _nulls_and_headers(east: Region) -> None:
    create(east, NULLS)
    put(
        east,
        NULLS,
        [Made(b"no key", None), Made(None, b"no value"), Made(None, None), Made(b"", b"")],
    )
    create(east, HEADERS)
    many: Headers = [(f"h{n}", b"%d" % n) for n in range(10_000)]
    few: Headers = [("a", b"1"), ("a", None), ("", b""), ("é", b"\xff")]
    put(east, HEADERS, [Made(b"many", headers=many), Made(b"few", headers=few), Made(b"none")])


def _times(east: Region) -> None:
    """The source takes what its own default would refuse: more than an hour ahead."""
    create(east, TIMES, message_timestamp_after_max_ms=2**63 - 1, retention_ms=-1)
    ahead = int(time.time() * 1000) + 10 * 86_400_000
    put(
        east,
        TIMES,
        [
            Made(b"now"),
            Made(b"ten days ahead", timestamp=ahead),
            Made(b"1970", timestamp=1),
            Made(b"year 9999", timestamp=253_402_300_799_000),
        ],
        **ONE_BATCH,
    )


def _transactions(east: Region) -> None:
    create(east, MIXED)
    one, other = transactional(east, "mx-one"), transactional(east, "mx-other")
    put(east, MIXED, [Made(b"plain 1")])
    one.begin_transaction()
    send(one, MIXED, [Made(b"kept 1")])
    abort(other, MIXED, [Made(b"aborted 1"), Made(b"aborted 2")])
    send(one, MIXED, [Made(b"kept 2")])
    put(east, MIXED, [Made(b"plain 2")])
    one.commit_transaction()
    abort(one, MIXED, [Made(b"aborted 3")])
    commit(other, MIXED, [Made(b"kept 3")])
    create(east, HUGE, 2)
    commit(one, HUGE, numbered(0, HUGE_RECORDS))
    abort(one, HUGE, numbered(0, HUGE_RECORDS, partition=1))
    put(east, HUGE, [Made(b"after", partition=1)])


def _open(east: Region) -> OpenTransactions:
    """3 plain records, 4 in a transaction that stays open, 3 more plain ones behind it."""
    create(east, OPEN, 2)
    found = OpenTransactions(transactional(east, "mx-commits"), transactional(east, "mx-aborts"))
    for number, each in enumerate(found):
        put(east, OPEN, numbered(0, 3, partition=number))
        each.begin_transaction()
        send(each, OPEN, numbered(3, 7, partition=number))
        put(east, OPEN, numbered(7, 10, partition=number))
    return found


def _append_times(east: Region, west: Region) -> None:
    broker_time: dict[str, str | int] = {"message_timestamp_type": "LogAppendTime"}
    for topic in (APPEND, APPEND_BOTH):
        create(east, topic, len(CODECS), **broker_time)
        for number, codec in enumerate(CODECS):
            old = [each._replace(timestamp=1_000) for each in numbered(0, 50, partition=number)]
            put(east, topic, old, compression_type=codec, **ONE_BATCH)
            assert [batch.append_time for batch in data(east, topic, number)] == [True]
    create(east, APPEND_THERE, retention_ms=-1)
    put(east, APPEND_THERE, [Made(b"1970", timestamp=1_000)])
    for topic in (APPEND_BOTH, APPEND_THERE):
        create(west, f"east.{topic}", len(CODECS) if topic == APPEND_BOTH else 1, **broker_time)


def _mids(east: Region) -> None:
    """One batch of 100 records, a second apart, of each codec."""
    for topic in (MID_OFFSET, MID_TIME):
        create(east, topic, len(CODECS), retention_ms=-1)
        for number, codec in enumerate(CODECS):
            records = [
                each._replace(timestamp=MID_EPOCH_MS + 1_000 * index)
                for index, each in enumerate(numbered(0, 100, partition=number))
            ]
            put(east, topic, records, compression_type=codec, **ONE_BATCH)
            assert [batch.records for batch in data(east, topic, number)] == [100]


def _oversize(east: Region, west: Region) -> None:
    """Partition 0: one record of four is too large. 1: a large batch of small ones. 2: plain.

    The source's limit is lowered afterwards: sync raises the target's to the source's.
    """
    create(east, OVERSIZE, 3)
    sizes = (10, 20, 2 * LIMIT, 30)
    put(east, OVERSIZE, [Made(b"x" * size) for size in sizes], **ONE_BATCH)
    put(east, OVERSIZE, numbered(0, 100, size=LIMIT // 20, partition=1), **ONE_BATCH)
    put(east, OVERSIZE, numbered(0, 100, partition=2))
    assert [batch.records for batch in data(east, OVERSIZE)] == [4]
    assert data(east, OVERSIZE, 1)[0].size > LIMIT
    alter_topic(east, OVERSIZE, max_message_bytes=LIMIT)
    create(west, f"east.{OVERSIZE}", 3, max_message_bytes=LIMIT)


def _keyless(east: Region, west: Region) -> None:
    """Records 2 and 4 of six have no key; partition 1 has keys only."""
    for topic in (KEYLESS_FAIL, KEYLESS_DROP):
        create(east, topic, 2)
        keys = (b"a", b"b", None, b"c", None, b"d")
        put(east, topic, [Made(b"%d" % n, key) for n, key in enumerate(keys)], **ONE_BATCH)
        put(east, topic, numbered(0, 10, partition=1))
        create(west, f"east.{topic}", 2, cleanup_policy="compact")


def _compacted(east: Region) -> None:
    """Of 30 records under 10 keys the last of each stays, and a tombstone."""
    create(east, COMPACTED, delete_retention_ms=86_400_000, **_CLEANED)
    records = [Made(b"%d" % n, b"k%d" % (n % 10)) for n in range(30)]
    records += [Made(b"goes", b"gone"), Made(None, b"gone")]
    put(east, COMPACTED, records, compression_type="zstd", **ONE_BATCH)


def _emptied(east: Region) -> None:
    """Transactions all of whose records are overwritten.

    One is aborted by the next epoch of its id: its marker is then the last word of that producer,
    so the cleaner keeps it as a batch without records (Cleaner.checkBatchRetention).
    """
    create(east, EMPTIED, delete_retention_ms=0, **_CLEANED)
    commit(transactional(east, "mx-cleaned"), EMPTIED, numbered(0, 5))
    fenced = transactional(east, "mx-fenced")
    fenced.begin_transaction()
    send(fenced, EMPTIED, numbered(5, 10))
    transactional(east, "mx-fenced")
    put(east, EMPTIED, numbered(0, 10))


def _clean(east: Region) -> None:
    """Roll segments, by records further and further ahead, until the cleaner has done its work."""
    now = int(time.time() * 1000)
    ahead = count(1)

    def is_clean() -> bool:
        later = now + 5_000 * next(ahead)
        for topic in (COMPACTED, EMPTIED):
            put(east, topic, [Made(b"roll", b"roll", timestamp=later)])
        holes = any(batch.missing and batch.records for batch in stored(east, COMPACTED))
        emptied = any(batch.control and not batch.records for batch in stored(east, EMPTIED))
        return holes and emptied

    wait_until(
        is_clean,
        deadline_s=30,
        what="holes, and a marker without records",
        ignoring=(FileNotFoundError,),  # the cleaner replaces files
    )
    for topic in (COMPACTED, EMPTIED):  # what is copied must not vanish before it is judged
        alter_topic(east, topic, min_compaction_lag_ms=2**62)
