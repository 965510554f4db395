"""`python -m services.sync` as an operator runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from services.local.ports import free_ports
from services.local.region import Region
from tests.faultkit.waiting import wait_until
from tests.integration.sync.fleet import fresh

ROOT = Path(__file__).resolve().parents[3]


def write_estate(directory: Path, east: str, west: str) -> Path:
    text = f"""
estate: test
clusters:
  east: {{bootstrap: "{east}"}}
  west: {{bootstrap: "{west}", fleet: {fresh("p")}}}
links:
  - {{from: east, to: west, slots: 2, rules: [{{name: all, topics: ["none"]}}]}}
"""
    path = directory / "estate.yaml"
    path.write_text(text)
    return path


def command(estate: Path, *more: str) -> list[str]:
    words = ["-m", "services.sync", "--estate", str(estate), "--target", "west", *more]
    return [sys.executable, *words]


@contextmanager
def started(estate: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command(estate, *more), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_it_gets_ready_answers_and_ends_with_0_on_sigterm(
    tmp_path: Path, east: Region, west: Region
) -> None:
    (port,) = free_ports(1)
    estate = write_estate(tmp_path, east.bootstrap[0], west.bootstrap[0])
    with started(estate, "--http-port", str(port)) as process:
        url = f"http://127.0.0.1:{port}"
        wait_until(
            lambda: httpx.get(f"{url}/readyz").is_success,
            deadline_s=30,
            what="ready",
            ignoring=(httpx.TransportError,),
        )
        status = httpx.get(f"{url}/status").json()
        metrics = httpx.get(f"{url}/metrics").text

        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=10)

    assert process.returncode == 0
    assert (status["service"], status["target"], status["state"]) == ("sync", "west", "serving")
    assert [link["link"] for link in status["links"]] == ["east->west"]
    assert 'mirrorfleet_catalog_entries{link="east->west"} 0.0' in metrics
    assert 'mirrorfleet_service_state{state="serving"} 1.0' in metrics
    messages = [json.loads(line)["message"] for line in log.splitlines()]
    assert (messages[0], messages[-1]) == ("started", "ended")


def test_its_only_source_is_waited_for_and_what_it_waits_for_is_said(
    tmp_path: Path, west: Region
) -> None:
    nobody, port = free_ports(2)
    estate = write_estate(tmp_path, f"127.0.0.1:{nobody}", west.bootstrap[0])
    with started(estate, "--http-port", str(port)) as process:
        said = wait_until(
            lambda: _reason(f"http://127.0.0.1:{port}/readyz", "link east->west"),
            deadline_s=30,
            what="the reason",
            ignoring=(httpx.TransportError,),
        )
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=10)

    assert f"127.0.0.1:{nobody}" in said
    assert process.returncode == 0
    assert "Traceback" not in log


def _reason(url: str, what: str) -> str:
    reasons = httpx.get(url).json()["reasons"]
    return str(reasons.get(what, ""))


def test_a_port_asked_for_and_taken_is_an_error(tmp_path: Path, east: Region, west: Region) -> None:
    taken = east.brokers[0].port
    estate = write_estate(tmp_path, east.bootstrap[0], west.bootstrap[0])

    ended = subprocess.run(
        command(estate, "--http-port", str(taken)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert ended.returncode == 1
    assert ended.stderr.startswith(
        f"error: mirrorfleet sync: HTTP port 127.0.0.1:{taken} is taken by another process."
    )
