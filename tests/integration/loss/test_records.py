"""Records that the target does not take: too large, dated too late, without a key."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import wait_values
from tests.integration.mirror.making import ONE_BATCH, Made, alter_topic, create, put
from tests.judge.reading import At
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from tests.integration.loss.conftest import Drill

LIMIT: Final = 20_000
FOREVER: Final = 2**63 - 1
HOUR_MS: Final = 3_600_000
SIZES: Final = (10, 40_000, 30, 40_000, 50)


def make_large(drill: Drill, *topics: str) -> None:
    """Five records of which two are over what the target takes from now on."""
    east, west = drill.fleet.east, drill.fleet.west
    for topic in topics:
        create(east, topic)
        put(east, topic, [Made(b"first")])
        wait_values(west, f"east.{topic}", 0, [b"first"])
    drill.freeze()
    for topic in topics:
        put(east, topic, [Made(b"x" * size) for size in SIZES], **ONE_BATCH)
        alter_topic(east, topic, max_message_bytes=LIMIT)
        alter_topic(west, f"east.{topic}", max_message_bytes=LIMIT)
    drill.mirror.thaw()


def make_late(drill: Drill, *topics: str) -> None:
    """A record that is dated two hours ahead, for a target that takes one."""
    east, west = drill.fleet.east, drill.fleet.west
    ahead = int(time.time() * 1000) + 2 * HOUR_MS
    for topic in topics:
        create(east, topic, message_timestamp_after_max_ms=FOREVER)
        put(east, topic, [Made(b"first")])
        wait_values(west, f"east.{topic}", 0, [b"first"])
        alter_topic(west, f"east.{topic}", message_timestamp_after_max_ms=HOUR_MS)
        late = [Made(b"a"), Made(b"b", timestamp=ahead), Made(b"c")]
        put(east, topic, late, **ONE_BATCH)


def make_keyless(drill: Drill, *topics: str) -> None:
    """A record without key for a compacted target."""
    for topic in topics:
        create(drill.fleet.west, f"east.{topic}", cleanup_policy="compact")
        create(drill.fleet.east, topic)
        some = [Made(b"0", b"a"), Made(b"1", b"b"), Made(b"2", None), Made(b"3", b"c")]
        put(drill.fleet.east, topic, some, **ONE_BATCH)


@pytest.mark.timeout(300)
def test_a_record_that_the_target_does_not_take_is_left_out_alone_and_told(drill: Drill) -> None:
    gap, fail = "ls-gap-large", "ls-fail-large"
    make_large(drill, gap, fail)
    make_late(drill, "ls-gap-late", "ls-fail-late")
    make_keyless(drill, "ls-gap-keyless", "ls-fail-keyless")
    west = drill.fleet.west
    small = [b"x" * 10, b"x" * 30, b"x" * 50]

    wait_values(west, f"east.{gap}", 0, [b"first", *small])
    wait_values(west, "east.ls-gap-late", 0, [b"first", b"a", b"c"])
    wait_values(west, "east.ls-gap-keyless", 0, [b"0", b"1", b"3"])
    assert drill.wait_ledger(gap, 2) == [
        ("gap", 0, 2, 3, "record-too-large"),
        ("gap", 0, 4, 5, "record-too-large"),
    ]
    assert drill.wait_ledger("ls-gap-late") == [("gap", 0, 2, 3, "timestamp-refused")]
    assert drill.wait_ledger("ls-gap-keyless") == [("gap", 0, 2, 3, "key-missing")]
    told = [e for e in drill.fleet.events("gap") if e["topic"] == gap]
    assert [each["records"] for each in told] == [1, 1]

    assert drill.fault(fail).startswith("record-too-large at source offset 2: ")
    assert drill.fault("ls-fail-late").startswith("timestamp-refused at source offset 2: ")
    assert drill.fault("ls-fail-keyless").startswith("key-missing at source offset 2: ")
    skip_all(drill, fail)
    wait_values(west, f"east.{fail}", 0, [b"first", *small])
    wait_values(west, "east.ls-fail-late", 0, [b"first", b"a", b"c"])
    wait_values(west, "east.ls-fail-keyless", 0, [b"0", b"1", b"3"])

    one, two = [(2, 3)], [(2, 3), (4, 5)]
    gaps = {
        At(f"ls-{policy}-{what}", 0): two if what == "large" else one
        for policy in ("gap", "fail")
        for what in ("large", "late", "keyless")
    }
    report = drill.fleet.judged([at.topic for at in gaps], gaps=gaps)
    assert report.verdict is Verdict.PASS


def skip_all(drill: Drill, fail: str) -> None:
    """One record after the other, by both commands that can."""
    assert drill.run("resolve", f"{fail}-0", "--skip") == 0
    wait_until(
        lambda: drill.fault(fail).startswith("record-too-large at source offset 4: "),
        deadline_s=30,
        what="the second large record",
    )
    assert drill.run("resolve", f"{fail}-0", "--accept-gap", "4..5") == 0
    assert drill.run("resolve", "ls-fail-late-0", "--skip") == 0
    assert drill.run("resolve", "ls-fail-keyless-0", "--skip") == 0
