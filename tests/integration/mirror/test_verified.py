"""`mirrorfleet verify` beside the judge: equal where that finds nothing; what differs is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from services.cli.__main__ import main
from tests.integration.mirror import content
from tests.integration.mirror.conftest import JUDGED, Matrix
from tests.integration.mirror.fleet import Fleet, wait_states, wait_values
from tests.integration.mirror.making import Made, create, delete, numbered, put

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region

WEST = "east."
Captured = pytest.CaptureFixture[str]
Rows = list[dict[str, object]]


def verified(fleet: Fleet, capsys: Captured, *words: str) -> tuple[int, Rows]:
    capsys.readouterr()
    estate = ["--estate", str(fleet.estate), "--target", "west", "-o", "json"]
    code = main(["verify", *words, *estate])
    rows: Rows = json.loads(capsys.readouterr().out)
    return code, rows


@pytest.mark.parametrize("topic", JUDGED)
def test_what_the_judge_calls_equal_is_verified_to_the_last_record(
    matrix: Matrix, capsys: Captured, topic: str
) -> None:
    records = matrix.records(topic)

    code, rows = verified(matrix.fleet, capsys, topic, "--offsets", "1000000")

    assert [row["equal"] or 0 for row in rows] == records, rows
    wanted = ["intact" if number else "nothing there" for number in records]
    assert (code, [row["outcome"] for row in rows]) == (0, wanted)


def test_a_part_of_one_partition_is_verified(matrix: Matrix, capsys: Captured) -> None:
    most = max(matrix.records(content.TINY))
    words = (f"{content.TINY}-0", "--first", "10", "--offsets", "20")

    code, (row,) = verified(matrix.fleet, capsys, *words)

    assert most > 30
    assert (code, row["outcome"], row["first"], row["end"]) == (0, "intact", 10, 30)
    assert verified(matrix.fleet, capsys, content.TINY, "--first", "10000000")[1][0]["outcome"] == (
        "nothing there"
    )


def test_what_was_left_out_and_what_others_wrote_is_told(
    east: Region, west: Region, tmp_path: Path, capsys: Captured
) -> None:
    """A record without a key is dropped by its rule, as the ledger tells; then somebody else writes
    to the copy.
    """
    rule = {"name": "all", "topics": ["verified"], "null_keys": "drop-recorded"}
    fleet = Fleet("verified", east, west, tmp_path, rules=[rule])
    copy = f"{WEST}verified"
    create(east, "verified", 1)
    create(west, copy, 1, cleanup_policy="compact")
    keyed = [one._replace(key=b"k%d" % number) for number, one in enumerate(numbered(0, 5))]
    put(east, "verified", keyed)
    with fleet.sync(), fleet.mirror() as mirror:
        wait_states(mirror, "copying", 1)
        wait_values(west, copy, 0, [one.value for one in keyed])
        put(east, "verified", [Made(b"no key", None)])
        put(east, "verified", [Made(b"key", b"k")])
        wait_values(west, copy, 0, [*(one.value for one in keyed), b"key"])
        intact, (before,) = verified(fleet, capsys, "verified")

        put(west, copy, [Made(b"foreign", b"f")])
        put(east, "verified", [Made(b"last", b"l")])
        wait_values(west, copy, 0, [*(one.value for one in keyed), b"key", b"foreign", b"last"])
        code, (row,) = verified(fleet, capsys, "verified")
    delete(east, "verified")
    delete(west, copy)

    assert (intact, before["outcome"], before["equal"], before["explained"]) == (0, "intact", 6, 1)
    assert before["words"] == "not copied, as the gap ledger tells, at the source's 5"
    assert (code, row["outcome"]) == (2, "DIFFERENT")
    assert (row["equal"], row["missing"], row["explained"]) == (7, 0, 1)
    assert (row["changed"], row["extra"]) == (0, 1)
    said = str(row["words"])
    assert said.startswith("on the target alone, at its ")
    assert said.endswith("it is compacted, which each side does in its own time")
