"""Positions as lines: what comes back is what went out, and what does not fit is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.errors import CorruptBatchError, UnknownVersionError
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.mapping.catalog import CatalogView
from mirrorfleet.operating.positions import line_of, position_in, unfit
from tests.unit.copying.making import entry, identity
from tests.unit.operating.making import at_80

ONE = at_80()
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


def test_a_number_below_0_is_named() -> None:
    line = line_of(replace(ONE, next_source=SourceOffset(-80), bytes=-1), entry())
    with pytest.raises(CorruptBatchError, match=r"position: next_source, bytes below 0 in \{"):
        position_in(line)


def test_every_line_that_does_not_fit_is_named() -> None:
    other, moved = replace(ONE, identity=identity(1)), replace(ONE, next_source=SourceOffset(81))

    assert unfit([ONE], view(0), {}) == []
    assert unfit([ONE], view(0), {ONE.identity: ONE}) == []
    assert unfit([ONE, ONE], view(0), {}) == ["orders-0 of east->west comes twice"]
    assert unfit([ONE], view(0), {ONE.identity: moved}) == [
        "orders-0 of east->west stands at 81 already, not at 80"
    ]
    assert unfit([other], view(0), {}) == [f"{other.identity} is not copied by this fleet"]
