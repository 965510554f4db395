"""`size`: its exit code, what it says first, and files that are no calibration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.cli.__main__ import main
from tests.unit.planning.test_sizing import CALIBRATION

Captured = pytest.CaptureFixture[str]
ASKED = ["size", "--records", "1000000", "--partitions", "100"]


def test_a_rate_that_can_be_had_is_exit_0_and_names_what_saturates_first(capsys: Captured) -> None:
    assert main([*ASKED, "-o", "json"]) == 0

    shown = capsys.readouterr()
    amounts = {row["what"]: row["amount"] for row in json.loads(shown.out)}
    assert (amounts["workers"], amounts["network"]) == ("3", "12.00 Gbit/s")
    assert shown.err == "saturates first: workers, 75% used with 1.5 times the rate\n"


def test_what_cannot_be_had_is_exit_2(capsys: Captured) -> None:
    assert main([*ASKED, "--rtt", "200", "--lag", "0.05"]) == 2
    assert capsys.readouterr().err.startswith("cannot be: lag at best, 120 ms: 100 ms of it are")


def test_under_tls_a_worker_has_few_connections_and_more_workers_are_needed(
    capsys: Captured,
) -> None:
    far = ["size", "--records", "200000", "--partitions", "100", "--rtt", "100"]
    narrow = [*far, "--window", "200000", "--brokers", "1", "-o", "json"]

    assert main(narrow) == main([*narrow, "--tls"]) == 0

    plain, _, under_tls = capsys.readouterr().out.partition("]")
    amounts = [json.loads(text)[0]["amount"] for text in (f"{plain}]", under_tls)]
    assert amounts == ["2", "6"]


def test_a_calibration_of_this_machine_is_taken(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "calibration.json"
    slow = {name: dict.fromkeys(each, 1_000.0) for name, each in CALIBRATION.items()}
    file.write_text(json.dumps(slow))

    assert main([*ASKED, "--calibration", str(file), "-o", "json"]) == 2
    assert json.loads(capsys.readouterr().out)[0]["amount"] != "3"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("not json", "not JSON"),
        ("[1]", "not an object of workloads"),
        ("{}", "this is no calibration: KeyError('1k-plain') is missing"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, capsys: Captured, text: str, said: str) -> None:
    file = tmp_path / "calibration.json"
    file.write_text(text)

    assert main([*ASKED, "--calibration", str(file)]) == 1
    assert said in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(capsys: Captured) -> None:
    assert main([*ASKED, "--calibration", "/nowhere.json"]) == 1
    assert "/nowhere.json: No such file" in capsys.readouterr().err
