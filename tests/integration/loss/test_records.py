"""Records that the target does not take: too large, dated too late, without a key."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from tests.faultkit.waiting import wait_until
from tests.integration.loss.conftest import frozen
from tests.integration.mirror.fleet import wait_values
from tests.integration.mirror.making import ONE_BATCH, Made, alter_topic, create, put
from tests.judge.reading import At
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from tests.integration.loss.conftest import Drill
    from tests.integration.loss.neighbours import Neighbours

LIMIT: Final = 20_000
FOREVER: Final = 2**63 - 1
HOUR_MS: Final = 3_600_000
SIZES: Final = (10, 40_000, 30, 40_000, 50)
SMALL: Final = [b"x" * 10, b"x" * 30, b"x" * 50]


class Sought(NamedTuple):
    """Where an operator goes on who seeks, and what is copied before and behind that."""

    cause: str
    to: int
    before: list[bytes]
    behind: list[bytes]


SOUGHT: Final = {
    "large": Sought("record-too-large", 5, [b"first", b"x" * 10], [b"x" * 50]),
    "late": Sought("timestamp-refused", 3, [b"first", b"a"], [b"c"]),
    "keyless": Sought("key-missing", 3, [b"0", b"1"], [b"3"]),
}
"""One record is passed; of the large ones two, and what is between them."""


def topics(what: str) -> list[str]:
    """One for each policy."""
    return [f"ls-{policy}-{what}" for policy in ("gap", "fail", "copy")]


def make_large(drill: Drill) -> None:
    """Five records of which two are over what the target takes from now on."""
    east, west = drill.fleet.east, drill.fleet.west
    for topic in topics("large"):
        create(east, topic)
        put(east, topic, [Made(b"first")])
        wait_values(west, f"east.{topic}", 0, [b"first"])
    with frozen(drill.mirror):
        for topic in topics("large"):
            put(east, topic, [Made(b"x" * size) for size in SIZES], **ONE_BATCH)
            alter_topic(east, topic, max_message_bytes=LIMIT)
            alter_topic(west, f"east.{topic}", max_message_bytes=LIMIT)


def make_late(drill: Drill) -> None:
    """A record that is dated two hours ahead, for a target that takes one."""
    east, west = drill.fleet.east, drill.fleet.west
    ahead = int(time.time() * 1000) + 2 * HOUR_MS
    for topic in topics("late"):
        create(east, topic, message_timestamp_after_max_ms=FOREVER)
        put(east, topic, [Made(b"first")])
        wait_values(west, f"east.{topic}", 0, [b"first"])
        alter_topic(west, f"east.{topic}", message_timestamp_after_max_ms=HOUR_MS)
        late = [Made(b"a"), Made(b"b", timestamp=ahead), Made(b"c")]
        put(east, topic, late, **ONE_BATCH)


def make_keyless(drill: Drill) -> None:
    """A record without key for a compacted target."""
    for topic in topics("keyless"):
        create(drill.fleet.west, f"east.{topic}", cleanup_policy="compact")
        create(drill.fleet.east, topic)
        some = [Made(b"0", b"a"), Made(b"1", b"b"), Made(b"2", None), Made(b"3", b"c")]
        put(drill.fleet.east, topic, some, **ONE_BATCH)


@pytest.mark.timeout(300)
def test_a_record_that_the_target_does_not_take_is_left_out_alone_and_told(
    drill: Drill, neighbours: Neighbours
) -> None:
    make_large(drill)
    with neighbours.undisturbed("records that the target does not take"):
        make_late(drill)
        make_keyless(drill)
        check_left_out(drill)
        check_skipped(drill)
        check_sought(drill)

    one, two = [(2, 3)], [(2, 3), (4, 5)]
    gaps = {
        At(f"ls-{policy}-{what}", 0): two if what == "large" else one
        for policy in ("gap", "fail")
        for what in SOUGHT
    }
    gaps |= {At(f"ls-copy-{what}", 0): [(2, sought.to)] for what, sought in SOUGHT.items()}
    report = drill.fleet.judged([at.topic for at in gaps], gaps=gaps)
    assert report.verdict is Verdict.PASS


def check_copied(drill: Drill, policy: str) -> None:
    """All is there but those records."""
    west = drill.fleet.west
    wait_values(west, f"east.ls-{policy}-large", 0, [b"first", *SMALL])
    wait_values(west, f"east.ls-{policy}-late", 0, [b"first", b"a", b"c"])
    wait_values(west, f"east.ls-{policy}-keyless", 0, [b"0", b"1", b"3"])


def check_left_out(drill: Drill) -> None:
    """`record-gap` goes on by itself."""
    check_copied(drill, "gap")
    assert drill.wait_ledger("ls-gap-large", 2) == [
        ("gap", 0, 2, 3, "record-too-large"),
        ("gap", 0, 4, 5, "record-too-large"),
    ]
    assert drill.wait_ledger("ls-gap-late") == [("gap", 0, 2, 3, "timestamp-refused")]
    assert drill.wait_ledger("ls-gap-keyless") == [("gap", 0, 2, 3, "key-missing")]
    told = [e for e in drill.fleet.events("gap") if e["topic"] == "ls-gap-large"]
    assert [each["records"] for each in told] == [1, 1]


def check_skipped(drill: Drill) -> None:
    """`fail` stops: one record after the other, by both commands that can."""
    fail = "ls-fail-large"
    assert drill.fault(fail).startswith("record-too-large at source offset 2: ")
    assert drill.fault("ls-fail-late").startswith("timestamp-refused at source offset 2: ")
    assert drill.fault("ls-fail-keyless").startswith("key-missing at source offset 2: ")
    assert drill.run("resolve", f"{fail}-0", "--skip") == 0
    wait_until(
        lambda: drill.fault(fail).startswith("record-too-large at source offset 4: "),
        deadline_s=30,
        what="the second large record",
    )
    assert drill.run("resolve", f"{fail}-0", "--accept-gap", "4..5") == 0
    assert drill.run("resolve", "ls-fail-late-0", "--skip") == 0
    assert drill.run("resolve", "ls-fail-keyless-0", "--skip") == 0
    check_copied(drill, "fail")


def check_sought(drill: Drill) -> None:
    """`recopy` has no word for them: it stops, too, and goes on where somebody says."""
    west = drill.fleet.west
    for what, (cause, to, before, behind) in SOUGHT.items():
        topic = f"ls-copy-{what}"
        assert drill.fault(topic).startswith(f"{cause} at source offset 2: ")
        wait_values(west, f"east.{topic}", 0, before)
        drill.wait_told(topic, 2)
        assert drill.run("resolve", f"{topic}-0", "--seek", str(to)) == 0
        wait_values(west, f"east.{topic}", 0, [*before, *behind])
        assert drill.ledger(topic) == [("gap", 0, 2, to, cause)]
