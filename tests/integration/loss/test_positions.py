"""The positions topic is gone: made from the map, refused without it, put back from a file."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest

from tests.faultkit.waiting import wait_until
from tests.integration.loss.conftest import Drill
from tests.integration.mirror.fleet import FLOWING_S, Fleet, wait_faults
from tests.integration.mirror.making import create, delete
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region

TOPIC: Final = "lp-orders"
PARTITIONS: Final = 3


def restarted(fleet: Fleet, running: ExitStack, name: str) -> Drill:
    """Sync, which makes missing control topics at its start, and a worker."""
    running.enter_context(fleet.sync())
    mirror = running.enter_context(fleet.mirror(name))
    mirror.wait_ready(60)
    return Drill(fleet, mirror)


def wait_all(drill: Drill, end: int) -> None:
    for number in range(PARTITIONS):
        drill.wait_copied(TOPIC, [range(end)], partition=number)


def fill(drill: Drill, first: int, end: int) -> None:
    for number in range(PARTITIONS):
        drill.fill(TOPIC, first, end, partition=number)


@pytest.mark.timeout(300)
def test_lost_positions_are_made_from_the_map_or_put_back_and_never_guessed(
    east: Region, west: Region, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules: list[dict[str, object]] = [{"name": "all", "topics": ["lp-.*"]}]
    fleet = Fleet("lostpos", east, west, tmp_path, rules=rules, slots=2)
    create(east, TOPIC, PARTITIONS)
    with ExitStack() as running:
        drill = restarted(fleet, running, "a")
        fill(drill, 0, 50)
        wait_all(drill, 50)

    # gone: the map tells them, exactly
    delete(west, fleet.control("positions"))
    with ExitStack() as running:
        drill = restarted(fleet, running, "b")
        fill(drill, 50, 80)
        wait_all(drill, 80)
        wait_until(
            lambda: fleet.events("positions-rebuilt"),
            deadline_s=FLOWING_S,
            what="word of positions that were made again",
        )
        older = exported(drill, capsys, 80)
        fill(drill, 80, 100)
        wait_all(drill, 100)
        lines = exported(drill, capsys, 100)

    # gone with the map: nothing tells them, so nothing is copied until they are put back
    for kind in ("positions", "segments", "archive"):
        delete(west, fleet.control(kind))
    with ExitStack() as running:
        drill = restarted(fleet, running, "c")
        wait_lost(drill)
        refuse_older(drill, older, tmp_path, capsys)
        put_back(drill, lines, tmp_path, capsys)
    assert fleet.judged([TOPIC]).verdict is Verdict.PASS


def exported(drill: Drill, capsys: pytest.CaptureFixture[str], end: int) -> list[str]:
    """An export, once all copies stand at `end`: each marker of a commit is written alone."""

    def look() -> list[str] | None:
        capsys.readouterr()
        assert drill.run("positions", "export") == 0
        lines = capsys.readouterr().out.splitlines()
        stand_at = [json.loads(line)["next_source"] for line in lines]
        return lines if stand_at == [end] * PARTITIONS else None

    return wait_until(look, deadline_s=FLOWING_S, what=f"positions at {end}") or []


def wait_lost(drill: Drill) -> None:
    found = wait_faults(drill.mirror, *((TOPIC, number) for number in range(PARTITIONS)))
    assert {text.partition(":")[0] for text in found.values()} == {
        "position-lost before the first record"
    }


def refuse_older(
    drill: Drill, lines: list[str], directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Taken before the last records were copied: they would be copied once more."""
    older = directory / "older.jsonl"
    older.write_text("\n".join(lines))
    capsys.readouterr()
    assert drill.run("positions", "import", str(older)) == 1
    said = " ".join(capsys.readouterr().err.split())
    for line in map(json.loads, lines):
        name = f"{TOPIC}-{line['identity'][2]}"
        begin = f"{name} of east->west was copied on: east.{name} has records from "
        assert re.search(rf"{re.escape(begin)}\d+ on, behind {line['next_target']}\b", said), said
    assert "Nothing was written. Import an export that is as new as the copy." in said
    wait_lost(drill)


def put_back(
    drill: Drill, lines: list[str], directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that does not fit is refused whole, one that does is taken once."""
    newest, wrong = directory / "positions.jsonl", directory / "wrong.jsonl"
    newest.write_text("\n".join(lines))
    wrong.write_text("\n".join([*lines[:2], lines[2].replace(":100,", ":101,")]))
    assert drill.run("positions", "import", str(wrong)) == 1
    assert "ends at 100 at the source, below 101" in capsys.readouterr().err
    assert drill.run("positions", "import", str(newest)) == 0
    assert "3 positions put back, 0 were there already" in capsys.readouterr().out
    fill(drill, 100, 120)
    wait_all(drill, 120)
    assert drill.run("positions", "import", str(newest)) == 0
    assert "0 positions put back, 3 were there already" in capsys.readouterr().out
