"""A target topic deleted and created again: what is missing, and each way on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.integration.mirror.making import create, delete
from tests.judge.reading import At
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from tests.integration.loss.conftest import Drill
    from tests.integration.loss.neighbours import Neighbours

COPY, FAIL, GAP = "ls-copy-gone", "ls-fail-gone", "ls-gap-gone"
CAUSE: Final = "target-recreated"


def recreate(drill: Drill, *topics: str) -> None:
    """Copied, and then another target topic under the name."""
    for topic in topics:
        create(drill.fleet.east, topic, 2)
        drill.fill(topic, 0, 50)
        drill.fill(topic, 0, 20, partition=1)
    for topic in topics:
        drill.wait_copied(topic, [range(50)])
        drill.wait_copied(topic, [range(20)], partition=1)
    for topic in topics:
        delete(drill.fleet.west, f"east.{topic}")
        create(drill.fleet.west, f"east.{topic}", 2)
        drill.fill(topic, 50, 60)
        drill.fill(topic, 20, 30, partition=1)


@pytest.mark.timeout(300)
def test_a_recreated_target_topic_is_copied_again_or_waits_with_a_list_of_what_is_missing(
    drill: Drill, neighbours: Neighbours, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = (COPY, FAIL, GAP)
    with neighbours.undisturbed("target topics were made again"):
        recreate(drill, *topics)

        drill.wait_copied(COPY, [range(60)])
        drill.wait_copied(COPY, [range(30)], partition=1)
        assert sorted(drill.wait_ledger(COPY, 2)) == [
            ("rewound", 0, 0, 50, CAUSE),
            ("rewound", 1, 0, 20, CAUSE),
        ]
        for topic in (FAIL, GAP):  # `record-gap` has no word for what the target lost
            fault = drill.fault(topic, saying="50 records of source [0, 50) are gone")
            assert fault.startswith(f"{CAUSE} at source offset 50: ")
            drill.fault(topic, 1, saying="20 records of source [0, 20) are gone")
            drill.wait_told(topic, 50)
        check_requests(drill, capsys)

    gaps = {At(FAIL, 0): [(0, 50)], At(GAP, 0): [(0, 30)], At(GAP, 1): [(0, 20)]}
    assert drill.judged(topics, gaps=gaps).verdict is Verdict.PASS


def check_requests(drill: Drill, capsys: pytest.CaptureFixture[str]) -> None:
    """All of it is copied again, or a part, or nothing."""
    drill.refuse_skip(FAIL, capsys)
    assert drill.run("resolve", f"{FAIL}-0", "--accept-gap", "0..50") == 0
    assert drill.run("resolve", f"{FAIL}-1", "--seek", "0") == 0
    assert drill.run("resolve", f"{GAP}-0", "--seek", "30") == 0
    assert drill.run("resolve", f"{GAP}-1", "--accept-gap", "0..20") == 0
    drill.wait_copied(FAIL, [range(50, 60)])
    drill.wait_copied(FAIL, [range(30)], partition=1)
    drill.wait_copied(GAP, [range(30, 60)])
    drill.wait_copied(GAP, [range(20, 30)], partition=1)
    assert sorted(drill.ledger(FAIL)) == [("gap", 0, 0, 50, CAUSE), ("rewound", 1, 0, 20, CAUSE)]
    assert sorted(drill.ledger(GAP)) == [("gap", 0, 0, 30, CAUSE), ("gap", 1, 0, 20, CAUSE)]
