"""Positions as lines: what comes back is what went out, and what does not fit is named."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.errors import CorruptBatchError, UnknownVersionError
from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.mapping.catalog import CatalogView
from mirrorfleet.operating.exported import line_of, position_in, positions_in, unfit
from mirrorfleet.records import positions as codec
from mirrorfleet.records.positions import Position
from services.cli.__main__ import main
from tests.unit.copying.making import entry, identity
from tests.unit.operating.making import at_80
from tests.unit.operating.test_putting_back import ESTATE

if TYPE_CHECKING:
    from pathlib import Path

ONE = at_80()
COUNT = "0..9223372036854775807"
LINE = (
    '{"v":1,"link":"east->west","topic":"orders","identity":["source","AAAAAAAAAAAAAAAAAAAACg",0,'
    '"AAAAAAAAAAAAAAAAAAAACw",0],"next_source":80,"leader_epoch":3,"next_target":91,"records":80,'
    '"bytes":4000,"time_ms":5}'
)


def view(*numbers: int) -> CatalogView:
    made = CatalogView()
    for number in numbers:
        made.apply(entry(number))
    return made


def standing(source: int, copy: int) -> Position:
    return replace(ONE, next_source=SourceOffset(source), next_target=TargetOffset(copy))


def test_a_position_goes_out_and_comes_back_as_a_line() -> None:
    assert line_of(ONE, entry()) == LINE
    assert position_in(LINE) == ONE


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (LINE.replace('"v":1', '"v":2'), UnknownVersionError),
        (LINE.replace(":80,", ":-80,", 1), CorruptBatchError),
        (LINE.replace(',0],"next', '],"next'), CorruptBatchError),
        (LINE[:-5], CorruptBatchError),
    ],
)
def test_what_is_no_line_of_an_export_is_refused(line: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        position_in(line)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            LINE[:-5],
            "exported position: not JSON. Nothing was written; correct the line or export again.",
        ),
        (
            LINE.replace('"v":1', '"v":2'),
            (
                "exported position: version 2 is not known to this build (it knows 1)."
                " Run the release that wrote it, or a newer one; nothing was changed."
            ),
        ),
    ],
    ids=["cut off", "newer"],
)
def test_a_bad_line_is_found_in_its_file_before_a_cluster_is_asked(
    wrong: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    estate, file = tmp_path / "estate.yaml", tmp_path / "positions.jsonl"
    estate.write_text(ESTATE, encoding="utf-8")
    file.write_text(f"{LINE}\n\n{wrong}\n", encoding="utf-8")

    arguments = ["positions", "import", str(file), "--target", "west", "--estate", str(estate)]
    assert main(arguments) == 1
    assert capsys.readouterr().err == f"error: {file} line 3: {said}\n"


def test_the_lines_of_an_export_are_its_positions() -> None:
    assert positions_in([LINE, "", LINE], "an export") == [ONE, ONE]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"next_source": -80, "bytes": -1}, f"next_source -80 is not in {COUNT}, bytes -1 is not"),
        ({"next_target": -1}, f"next_target -1 is not in {COUNT}"),
        ({"time_ms": -1}, f"time_ms -1 is not in {COUNT}"),
        ({"time_ms": 2**63}, f"time_ms {2**63} is not in {COUNT}"),
        ({"records": 2**70}, f"records {2**70} is not in {COUNT}"),
        ({"leader_epoch": -2}, "leader_epoch -2 is not in -1..2147483647"),
        ({"leader_epoch": 2**31}, "leader_epoch 2147483648 is not in -1..2147483647"),
    ],
    ids=str,
)
def test_a_number_that_no_position_can_have_is_named_with_its_line(
    wrong: dict[str, int], said: str
) -> None:
    line = json.dumps({**json.loads(LINE), **wrong})

    with pytest.raises(CorruptBatchError) as refused:
        positions_in([LINE, line], "an export")

    assert refused.value.message.startswith(f"an export line 2: exported position: {said}")
    assert line in refused.value.message


@pytest.mark.parametrize(
    ("most", "epoch"), [(0, -1), (2**63 - 1, 2**31 - 1)], ids=["least", "most"]
)
def test_the_least_and_the_most_of_each_number_is_written_and_read(most: int, epoch: int) -> None:
    offsets = {"next_source": most, "next_target": most}
    counts = {"records": most, "bytes": most, "time_ms": most, "leader_epoch": epoch}

    found = position_in(json.dumps({**json.loads(LINE), **offsets, **counts}))

    assert codec.decode(*codec.encode(found)) == found


def test_every_line_that_does_not_fit_is_named() -> None:
    other = replace(ONE, identity=identity(1))

    assert unfit([ONE], view(0), {}) == []
    assert unfit([ONE], view(0), {ONE.identity: ONE}) == []
    assert unfit([ONE, ONE], view(0), {}) == ["orders-0 of east->west comes twice"]
    assert unfit([ONE], view(0), {ONE.identity: standing(79, 90)}) == [
        "orders-0 of east->west stands at 79 already, not at 80, its copy at 90, not 91"
    ]
    assert unfit([other], view(0), {}) == [f"{other.identity} is not copied by this fleet"]


@pytest.mark.parametrize("beyond", [(81, 92), (81, 91), (80, 92)])
def test_a_position_that_has_moved_on_from_its_line_is_there_unless_it_was_gone_just_now(
    beyond: tuple[int, int],
) -> None:
    known = {ONE.identity: standing(*beyond)}

    assert unfit([ONE], view(0), known) == []
    assert len(unfit([ONE], view(0), known, exactly=True)) == 1


@pytest.mark.parametrize("other", [(79, 91), (80, 90), (81, 90), (79, 92)])
def test_a_line_that_knows_more_than_the_position_does_not_fit(other: tuple[int, int]) -> None:
    assert len(unfit([ONE], view(0), {ONE.identity: standing(*other)})) == 1
