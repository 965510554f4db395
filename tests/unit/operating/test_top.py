"""`top`: one frame for programs, one after the other for people, until Ctrl-C."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.operating import top
from services.cli.__main__ import main
from tests.unit.config.making import RIGHT
from tests.unit.views.making import NOW, entry, report, snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mirrorfleet.records.progress import Progress

Captured = pytest.CaptureFixture[str]
MOST_LOOKS = 4


class Fleet:
    """It copies a hundred records a look of a second; a person looks so often."""

    def __init__(self) -> None:
        self.looks = 0
        self.is_idle = False

    async def newest_progress(self, *_: object) -> list[Progress]:
        self.looks += 1
        if self.looks > MOST_LOOKS:
            raise KeyboardInterrupt
        if self.is_idle:
            return []
        topics = [entry(0, topic=name) for name in ("carts", "orders")]
        reports = [
            report(one, records=100 * self.looks, bytes=10**6 * self.looks) for one in topics
        ]
        return [snapshot(*reports, time_ms=NOW + 1_000 * self.looks)]


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fleet:
    made = Fleet()
    file = tmp_path / "estate.yaml"
    file.write_text(RIGHT, encoding="utf-8")

    @asynccontextmanager
    async def open_cluster(*_: object) -> AsyncIterator[None]:
        yield None

    async def sleep(seconds: float) -> None:
        assert seconds == 2.0

    monkeypatch.setenv("MIRRORFLEET_ESTATE", str(file))
    monkeypatch.setenv("WEST_PASSWORD", "x")
    monkeypatch.setattr(top, "open_cluster", open_cluster)
    monkeypatch.setattr(top, "newest_progress", made.newest_progress)
    monkeypatch.setattr("asyncio.sleep", sleep)
    return made


def test_programs_get_one_frame(fleet: Fleet, capsys: Captured) -> None:
    assert main(["top", "--target", "west", "-o", "json"]) == 0

    rows = json.loads(capsys.readouterr().out)
    assert [(row["topic"], row["records_s"], row["mb_s"]) for row in rows] == [
        ("carts", 100, 1.0),
        ("orders", 100, 1.0),
    ]
    assert fleet.looks == 2


def test_where_nobody_watches_there_is_one_frame_without_control_codes(
    fleet: Fleet, capsys: Captured
) -> None:
    assert main(["top", "--target", "west", "--most", "1"]) == 0

    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown] == ["TOPIC", "carts", "200"]
    assert fleet.looks == 2


def test_a_person_sees_frames_until_he_has_seen_enough(
    fleet: Fleet, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    assert main(["top", "--target", "west"]) == 0

    frames = capsys.readouterr().out.split("\x1b[H\x1b[2J")[1:]
    assert len(frames) == MOST_LOOKS - 1
    assert all("carts" in frame and "200 records/s" in frame for frame in frames)
    assert fleet.looks == MOST_LOOKS + 1


def test_a_fleet_that_tells_nothing_is_said_to(fleet: Fleet, capsys: Captured) -> None:
    fleet.is_idle = True

    assert main(["top", "--target", "west"]) == 0
    assert capsys.readouterr().out == "no worker tells of any partition\n"
