"""The HTTP side answers from what the service says, and takes ports as it was told."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys

import httpx
import pytest
from fastapi import FastAPI

from mirrorfleet.core.errors import ConfigError
from mirrorfleet.runtime import metric_names
from mirrorfleet.runtime.health import Health
from mirrorfleet.runtime.http import HOST, HttpServer, bind, build_app, names_of
from mirrorfleet.runtime.lifecycle import Lifecycle, Serving
from mirrorfleet.runtime.metrics import Metrics


def client_of(health: Health, metrics: Metrics) -> httpx.AsyncClient:
    app = build_app(health=health, metrics=metrics, status=lambda: {"topics": 3})
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test")


async def test_ready_follows_the_life_of_the_service() -> None:
    life = Lifecycle()
    health = Health(life)
    async with client_of(health, Metrics()) as client:
        early = await client.get("/readyz")
        life.move(Serving())
        late = await client.get("/readyz")
        health.note("link", "3 changes wait")
        noted = await client.get("/readyz")
        health.note("link", "")

    assert health.notes() == {}
    assert (early.status_code, early.json()) == (
        503,
        {"ready": False, "reasons": {"lifecycle": "starting"}, "notes": {}},
    )
    assert (late.status_code, late.json()) == (200, {"ready": True, "reasons": {}, "notes": {}})
    assert (noted.status_code, noted.json()["notes"]) == (200, {"link": "3 changes wait"})


async def test_a_watched_trouble_is_asked_with_each_question() -> None:
    life = Lifecycle()
    life.move(Serving())
    health = Health(life)
    trouble = ["no route to west"]
    health.watch("target west", lambda: trouble[0])
    async with client_of(health, Metrics()) as client:
        red = await client.get("/readyz")
        trouble[0] = ""
        green = await client.get("/readyz")

    assert (red.status_code, red.json()["reasons"]) == (503, {"target west": "no route to west"})
    assert (green.status_code, green.json()["reasons"]) == (200, {})


async def test_alive_status_and_metrics_are_answered() -> None:
    metrics = Metrics()
    metrics.gauge(metric_names.IN_FLIGHT).set(5)
    async with client_of(Health(Lifecycle()), metrics) as client:
        assert (await client.get("/healthz")).json() == {"alive": True}
        assert (await client.get("/status")).json() == {"topics": 3}
        scrape = await client.get("/metrics")

    assert scrape.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "mirrorfleet_in_flight_bytes 5.0" in scrape.text
    assert "process_resident_memory_bytes" in scrape.text
    assert "process_start_time_seconds" in scrape.text  # rules ask how old a process is


async def test_nothing_can_be_written() -> None:
    async with client_of(Health(Lifecycle()), Metrics()) as client:
        assert (await client.post("/status")).status_code == 405


async def test_the_server_runs_in_our_loop_and_closes_when_told() -> None:
    listener = bind(0)
    port = listener.getsockname()[1]
    app = build_app(health=Health(Lifecycle()), metrics=Metrics(), status=dict)
    server = HttpServer(app, listener)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(server.run_until_closed())
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"http://127.0.0.1:{port}/healthz")
        server.close()

    assert answer.json() == {"alive": True}


def test_a_port_asked_for_and_taken_is_an_error_that_names_it() -> None:
    with bind(0) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(ConfigError, match=f"HTTP port 127.0.0.1:{port} is taken"):
            bind(port, first=port)


@pytest.mark.parametrize("port", [-1, 65_536, 81_100])
def test_a_port_that_is_none_is_an_error_that_names_it(port: int) -> None:
    with pytest.raises(ConfigError, match=f"HTTP port {port} is not from 0 to 65535"):
        bind(port)


def test_a_default_port_that_is_taken_gives_the_next_free_one() -> None:
    with bind(0) as holder:
        port = holder.getsockname()[1]
        with bind(None, first=port) as next_one:
            assert next_one.getsockname()[1] > port


def test_only_this_machine_can_reach_it() -> None:
    with bind(0) as listener:
        assert listener.getsockname()[0] == HOST
        assert listener.family == socket.AF_INET


@pytest.mark.parametrize(
    ("bound", "given", "asked", "status"),
    [
        (HOST, (), "127.0.0.1:8180", 200),
        (HOST, (), "localhost:8180", 200),
        (HOST, (), "rebound.example:8180", 400),
        (HOST, ("far.example",), "far.example", 200),
        (HOST, ("far.example",), "rebound.example", 400),
        ("0.0.0.0", (), "mirror-west:8130", 200),
        ("0.0.0.0", ("console",), "console:8080", 200),
        ("0.0.0.0", ("console",), "CONSOLE", 200),
        ("0.0.0.0", ("console",), "localhost", 200),  # the health check says so
        ("0.0.0.0", ("console",), "172.18.0.7:8080", 200),  # Prometheus: it asks DNS before
        ("0.0.0.0", ("console",), "[fd00::7]:8080", 200),
        ("0.0.0.0", ("console",), "rebound.example", 400),
        ("0.0.0.0", ("console",), "rebound.example:8080", 400),
        ("0.0.0.0", ("console",), "console.rebound.example", 400),
        ("0.0.0.0", ("console",), "127.0.0.1.rebound.example", 400),
        ("0.0.0.0", ("console",), "console@rebound.example", 400),
        ("0.0.0.0", ("console",), "", 400),
    ],
)
async def test_who_is_on_this_machine_only_or_has_names_answers_to_no_other_name(
    bound: str, given: tuple[str, ...], asked: str, status: int
) -> None:
    with bind(0, host=bound) as listener:
        names = names_of(listener, given)
    app = build_app(health=Health(Lifecycle()), metrics=Metrics(), status=dict, names=names)
    transport = httpx.ASGITransport(app=app)

    async with httpx.AsyncClient(transport=transport, base_url="http://any") as client:
        answer = await client.get("/status", headers={"Host": asked})
    assert answer.status_code == status


async def test_a_service_with_questions_of_its_own_answers_the_four_beside_them() -> None:
    app = FastAPI(openapi_url=None)

    @app.get("/lag")
    async def lag() -> int:
        return 3

    asked = build_app(
        health=Health(Lifecycle()), metrics=Metrics(), status=dict, names={"lag"}, app=app
    )
    transport = httpx.ASGITransport(app=asked)
    async with httpx.AsyncClient(transport=transport, base_url="http://lag") as client:
        codes = [
            (await client.get(path)).status_code
            for path in ("/lag", "/healthz", "/readyz", "/metrics", "/status", "/docs")
        ]
        strange = await client.get("/lag", headers={"Host": "rebound.example"})
    assert (codes, strange.status_code) == ([200, 200, 503, 200, 200, 404], 400)


@pytest.mark.parametrize("service", ["mirror", "heartbeat", "sync"])
def test_a_service_without_questions_of_its_own_has_no_memory_for_fastapi(service: str) -> None:
    loads = f"import sys, services.{service}.__main__; print('fastapi' in sys.modules)"
    command = [sys.executable, "-c", loads]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert told.strip() == "False"
