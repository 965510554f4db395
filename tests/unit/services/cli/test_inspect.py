"""`inspect`: what is there and cannot be shown is told, and the exit code says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.kafka.browsing import Stored
from mirrorfleet.operating import inspecting
from services.cli.__main__ import main
from tests.unit.config.making import RIGHT

AWAY = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, "ListOffsets of orders-1")
ROW = {"partition": 0, "first": 7}
HELD = "orders-2: offsets 4 to 6 are not shown: transactions that are still open hold them back\n"


@pytest.mark.parametrize(
    ("stored", "code", "said"),
    [
        (Stored("orders"), 0, "nothing is stored there\n"),
        (Stored("orders", [ROW]), 0, ""),
        (Stored("orders", [], {2: (4, 7)}), 0, HELD),
        (Stored("orders", [ROW], {}, {1: AWAY}), 1, f"error: orders-1: {AWAY}\n"),
    ],
    ids=["empty", "a row", "held", "a part"],
)
def test_what_is_not_shown_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stored: Stored,
    code: int,
    said: str,
) -> None:
    async def found(*_: object) -> Stored:
        return stored

    monkeypatch.setattr(inspecting, "_stored", found)
    monkeypatch.setenv("WEST_PASSWORD", "x")
    file = tmp_path / "estate.yaml"
    file.write_text(RIGHT, encoding="utf-8")
    monkeypatch.setenv("MIRRORFLEET_ESTATE", str(file))

    assert main(["inspect", "orders", "--cluster", "east", "-o", "json"]) == code
    shown = capsys.readouterr()
    assert json.loads(shown.out) == stored.rows
    assert shown.err == (said if said != "nothing is stored there\n" else "")
    assert main(["inspect", "orders", "--cluster", "east"]) == code
    assert capsys.readouterr().err == said
