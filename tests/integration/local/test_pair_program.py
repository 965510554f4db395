"""The program as a human runs it: up, found again, killed, down; nothing is left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faultkit.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
LOCAL = [sys.executable, "-m", "services.local"]
START_S = 60.0
END_S = 5.0
PROCESSES = ["ps", "-ww", "-eo", "args"]


def local(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LOCAL, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def rows(*arguments: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(local(*arguments, "-o", "json").stdout)
    return found


def processes_of(name: str) -> list[str]:
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True
    )
    return [line for line in listed.stdout.splitlines() if f"/.local/{name}/" in line]


def left_of(name: str) -> list[str]:
    return [*processes_of(name), *map(str, (ROOT / ".local" / name).glob("**/*"))]


def foreground(name: str) -> subprocess.Popen[bytes]:
    # Whom a shell has started in the background ignores SIGINT, and so would its children.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [*LOCAL, "up", "--name", name, "--ports", "auto", "--foreground"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture
def name() -> Iterator[str]:
    pair = f"test-{uuid.uuid4().hex[:8]}"
    yield pair
    local("down", "--name", pair)


def test_a_pair_comes_up_is_found_again_is_mended_and_leaves_nothing(name: str) -> None:
    up = ("up", "--name", name, "--ports", "auto")

    first = rows(*up)
    assert [(row["region"], row["state"]) for row in first] == [
        ("east", "running"),
        ("west", "running"),
    ]
    assert rows(*up) == first, "a second `up` finds the first"
    other = local(*up, "--brokers", "2")
    assert (other.returncode, other.stdout) == (1, "")
    assert f"{name}: east is there with brokers 1, not 2. Take it down first" in other.stderr

    assert local("broker", "stop", "east", "--name", name).returncode == 0
    status = local("status", "--name", name, "-o", "json")
    assert status.returncode == 2
    assert [row["state"] for row in json.loads(status.stdout)] == ["down", "running"]
    again = rows(*up)
    assert [row["bootstrap"] for row in again] == [row["bootstrap"] for row in first]
    assert again[0]["pid"] != first[0]["pid"]
    assert again[1]["pid"] == first[1]["pid"]

    with foreground(name) as program:
        assert program.stdout is not None
        assert program.stdout.readline().startswith(b"region east")
        program.send_signal(signal.SIGINT)
    # A keeper outlives its broker by a moment: it is what waits for its end.
    wait_until(lambda: not left_of(name), deadline_s=END_S, what="the last keeper to end")
    assert local("down", "--name", name).stdout == f"{name}: not up\n"


def test_a_port_that_was_asked_for_and_is_taken_starts_nothing(name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = local("up", "--name", name, "--ports", f"{port},29092")

    assert done.returncode == 1
    assert f"error: port {port} of 127.0.0.1 was asked for (east) and is taken." in done.stderr
    assert not (ROOT / ".local" / name).exists()


def test_a_start_that_is_cut_short_leaves_nothing(name: str) -> None:
    with foreground(name) as program:
        wait_until(lambda: processes_of(name), deadline_s=START_S, what="a broker to start")
        program.send_signal(signal.SIGTERM)

    assert program.returncode == 143
    assert left_of(name) == []
