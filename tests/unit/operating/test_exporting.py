"""`positions export` where positions are gone: what is missing is said, never left out quietly."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.operating import positions
from services.cli import positions as command
from services.cli.__main__ import main
from tests.unit.operating.stored import IDLE, World

if TYPE_CHECKING:
    from pathlib import Path

ESTATE = """\
estate: demo
clusters: {east: {bootstrap: "127.0.0.1:1"}, west: {bootstrap: "127.0.0.1:2"}}
links:
  - {from: east, to: west, rules: [{name: orders, topics: ["orders"]}]}
"""

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World({0: IDLE, 1: IDLE})
    monkeypatch.setattr(positions, "read_catalog", made.read_catalog)
    monkeypatch.setattr(positions, "read_control", made.read_control)
    target = SimpleNamespace(name="west")
    monkeypatch.setattr(command, "open_cluster", lambda *_: nullcontext(target))
    return made


@pytest.fixture
def export(world: World, tmp_path: Path) -> list[str]:
    """The command line, on the estate of that world."""
    assert world.stored == {}
    file = tmp_path / "estate.yaml"
    file.write_text(ESTATE, encoding="utf-8")
    return ["positions", "export", "--target", "west", "--estate", str(file)]


def numbers(lines: str) -> list[int]:
    return [json.loads(line)["identity"][2] for line in lines.splitlines()]


def test_positions_that_are_all_there_are_printed_by_partition(
    world: World, export: list[str], capsys: Captured
) -> None:
    world.copies = {1: IDLE, 0: IDLE}
    world.standing(1, 80, 91)
    world.standing(0, 80, 91)

    assert main(export) == 0
    shown = capsys.readouterr()
    assert (numbers(shown.out), shown.err) == ([0, 1], "")


def test_an_export_without_any_position_is_refused_and_prints_nothing(
    export: list[str], capsys: Captured
) -> None:
    assert main(export) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: west: not one of the 2 partitions that fleet 'west' copies")
    assert "Keep the last export" in shown.err


def test_partitions_without_a_position_are_named_beside_the_export_of_the_others(
    world: World, export: list[str], capsys: Captured
) -> None:
    world.standing(0, 80, 91)

    assert main(export) == 2
    shown = capsys.readouterr()
    assert numbers(shown.out) == [0]
    assert shown.err == (
        "without a position, so not in this export: orders-1 of east->west."
        " New and not begun, or lost.\n"
    )


def test_of_many_without_a_position_some_are_named_and_the_others_counted(
    world: World, export: list[str], capsys: Captured
) -> None:
    world.copies = dict.fromkeys(range(14), IDLE)
    world.standing(0, 80, 91)

    assert main(export) == 2
    said = capsys.readouterr().err
    assert said.count("of east->west") == 10
    assert "orders-10 of east->west and 3 more. " in said


def test_a_fleet_that_copies_nothing_exports_no_line(
    world: World, export: list[str], capsys: Captured
) -> None:
    world.copies = {}

    assert main(export) == 0
    assert capsys.readouterr().out == ""
