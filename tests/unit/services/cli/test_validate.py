"""`validate` without a cluster: what it finds before a service would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from mirrorfleet.operating.validated import READ_COMMITTED
from mirrorfleet.policy.acls import PROCESSES
from services.cli.__main__ import main

ESTATE = """\
estate: demo
clusters: {east: {bootstrap: "127.0.0.1:1"}, west: {bootstrap: "127.0.0.1:2"}}
links: [{from: east, to: west, rules: [{name: orders, topics: ["orders.*"], groups: [g]}]}]
"""

ANSWERS = (["validate"], ["acls", "--target", "west"], ["validate", "--help"])

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def estate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "estate.yaml"
    file.write_text(ESTATE, encoding="utf-8")
    monkeypatch.setenv("MIRRORFLEET_ESTATE", str(file))
    return file


@pytest.mark.parametrize("service", PROCESSES)
def test_tuning_that_a_service_would_refuse_is_a_problem_at_its_line(
    estate: Path, capsys: Captured, service: str
) -> None:
    estate.write_text(f"{ESTATE}services:\n  {service}:\n    zzz: 1\n")

    assert main(["validate"]) == 1

    said = f"error: {estate}: line 6 services.{service}.zzz: unknown key; valid here: "
    assert said in capsys.readouterr().err


def test_each_service_whose_tuning_is_wrong_is_named(estate: Path, capsys: Captured) -> None:
    tuning = "services:\n  mirror: {memory_byts: 1}\n  lag: {ends_s: 60}\n  sync: {}\n"
    estate.write_text(ESTATE + tuning)

    assert main(["validate"]) == 1

    mirror, lag = capsys.readouterr().err.splitlines()
    assert mirror.endswith(
        "line 5 services.mirror.memory_byts: unknown key; did you mean 'memory_bytes'?."
    )
    assert "line 6 services.lag: unseen_s (15) must be at least 3 times ends_s (60)" in lag


@pytest.mark.parametrize(
    ("token", "said"),
    [
        (None, "environment variable T is not set"),
        ("short", "services.console.token: shorter than 16 characters"),
    ],
)
def test_a_token_that_the_console_would_refuse_is_a_problem(
    estate: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, token: str | None, said: str
) -> None:
    estate.write_text(f"{ESTATE}services:\n  console: {{token: {{env: T}}}}\n")
    monkeypatch.delenv("T", raising=False) if token is None else monkeypatch.setenv("T", token)

    assert main(["validate"]) == 1
    assert said in capsys.readouterr().err


def test_a_certificate_that_is_none_is_a_problem(estate: Path, capsys: Captured) -> None:
    ca = estate.with_name("ca.pem")
    ca.write_text("no certificate")
    security = f"security: {{protocol: SSL, ca_file: {ca}}}"
    before = "east: {"
    assert before in ESTATE
    estate.write_text(ESTATE.replace(before, f"{before}{security}, "))

    assert main(["validate"]) == 1
    assert f"clusters.east.security.ca_file ({ca}" in capsys.readouterr().err


def test_tuning_that_every_service_takes_is_valid(
    estate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("T", "0123456789abcdef")
    tuning = "services: {mirror: {memory_bytes: 67108864}, console: {token: {env: T}}, lag: {}}\n"
    estate.write_text(ESTATE + tuning)

    assert main(["validate"]) == 0


def answered(command: Sequence[str], estate: Path, stdout: int) -> tuple[int, str]:
    """Exit code and stderr of a process that writes its answer there."""
    done = subprocess.run(
        [sys.executable, "-m", "services.cli", *command, "--estate", str(estate)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
    )
    return done.returncode, done.stderr.replace(f"{READ_COMMITTED}\n", "")


@pytest.mark.parametrize("command", ANSWERS, ids=" ".join)
def test_an_answer_that_finds_no_room_is_an_error_and_no_traceback(
    estate: Path, command: list[str]
) -> None:
    with Path("/dev/full").open("w") as full:
        assert answered(command, estate, full.fileno()) == (1, "error: No space left on device.\n")


@pytest.mark.parametrize("command", ANSWERS, ids=" ".join)
def test_a_reader_that_went_away_is_told_nothing(estate: Path, command: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert answered(command, estate, writer) == (1, "")
    finally:
        os.close(writer)
