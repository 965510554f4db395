"""What a program does before its loop: arguments, estate, port, build; each said when wrong."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest

from mirrorfleet.core.errors import RefusedError
from mirrorfleet.runtime.entry import Context, Program, run
from mirrorfleet.runtime.http import bind
from mirrorfleet.runtime.lifecycle import Service, Stop

ESTATE = """
estate: e
clusters:
  east: {bootstrap: "h:1"}
  west: {bootstrap: "h:2", fleet: far-west}
links: [{from: east, to: west, rules: [{name: one, topics: [a]}]}]
services: {sync: {depth: 3}}
"""


class Probe:
    """Ends at once, or fails."""

    def __init__(self, context: Context, error: Exception | None = None) -> None:
        self.context = context
        self._error = error

    async def serve(self, stop: Stop) -> None:
        self.context.health.hold("x", "y")
        if self._error is not None:
            raise self._error

    def status(self) -> Mapping[str, object]:
        return {}


@pytest.fixture(autouse=True)
def _quiet_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    root = logging.getLogger()
    level = root.level
    monkeypatch.setattr(root, "handlers", [])
    yield
    root.setLevel(level)


@pytest.fixture
def estate(tmp_path: Path) -> str:
    path = tmp_path / "estate.yaml"
    path.write_text(ESTATE)
    return str(path)


def probe(error: Exception | None = None) -> tuple[Program, list[Probe]]:
    built: list[Probe] = []

    def build(context: Context) -> Service:
        built.append(Probe(context, error))
        return built[-1]

    return Program(name="sync", build=build, http_port=0), built


def test_a_service_gets_its_part_of_the_estate_and_ends_with_0(estate: str) -> None:
    program, built = probe()

    code = run(program, ["--estate", estate, "--target", "west"])

    context = built[0].context
    assert code == 0
    assert (context.target, context.fleet, context.settings) == ("west", "far-west", {"depth": 3})
    assert re.fullmatch(rf"sync:[^:]+:{os.getpid()}:([0-9a-f]{{6}})?-[0-9a-f]{{8}}", context.owner)
    assert context.url.startswith("http://127.0.0.1:")


def test_a_service_listens_where_it_is_told_to(estate: str) -> None:
    program, built = probe()

    code = run(program, ["--estate", estate, "--target", "west", "--http-host", "0.0.0.0"])

    assert code == 0
    assert built[0].context.url.startswith("http://0.0.0.0:")


@pytest.mark.parametrize(
    ("asked", "status"), [("Console.Example", 200), ("b.example", 200), ("rebound.example", 400)]
)
def test_a_service_that_has_names_answers_to_these_only(
    estate: str, asked: str, status: int
) -> None:
    answered: list[int] = []

    class Asks(Probe):
        async def serve(self, stop: Stop) -> None:
            port = self.context.url.rpartition(":")[2]
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
                answer = await client.get("/healthz", headers={"Host": f"{asked}:{port}"})
            answered.append(answer.status_code)

    names = ["--http-name", "console.example", "--http-name", "B.example"]
    arguments = ["--estate", estate, "--target", "west", "--http-host", "0.0.0.0", *names]
    assert run(Program(name="sync", build=Asks, http_port=0), arguments) == 0
    assert answered == [status]


@pytest.mark.parametrize("name", ["*", "*.example", "console:8080", "http://console", "", "-x."])
def test_what_is_no_name_is_refused_before_anything_is_built(
    estate: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, built = probe()

    with pytest.raises(SystemExit) as ended:
        run(program, ["--estate", estate, "--target", "west", f"--http-name={name}"])
    assert (ended.value.code, built) == (2, [])
    assert f"argument --http-name: {name!r} is no name of a host" in capsys.readouterr().err


def test_a_host_that_is_no_address_of_this_machine_is_refused(
    estate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, built = probe()

    assert run(program, ["--estate", estate, "--target", "west", "--http-host", "192.0.2.77"]) == 1
    assert "192.0.2.77:0 cannot be used" in capsys.readouterr().err
    assert built == []


def test_an_error_of_ours_is_a_message_without_traceback(
    estate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, _ = probe(RefusedError("same cluster.", hint="Check bootstrap."))

    code = run(program, ["--estate", estate, "--target", "west"])

    said = capsys.readouterr().err
    assert code == 1
    assert said.endswith("error: mirrorfleet sync: same cluster. Check bootstrap.\n")
    assert "traceback" not in said


def test_an_error_that_is_not_ours_has_its_traceback_in_the_log(
    estate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, _ = probe(KeyError("lost"))

    assert run(program, ["--estate", estate, "--target", "west"]) == 1
    said = capsys.readouterr().err
    assert '"traceback": "Traceback' in said
    assert said.endswith("error: mirrorfleet sync: KeyError: 'lost'\n")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("wset", "--target wset is no cluster of this estate. It has: east, west."),
        ("east", "no link ends at east, so its fleet has nothing to do."),
    ],
)
def test_a_target_without_a_fleet_is_refused(
    estate: str, target: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, built = probe()

    assert run(program, ["--estate", estate, "--target", target]) == 1
    assert said in capsys.readouterr().err
    assert built == []


def test_a_port_asked_for_and_taken_is_refused_before_anything_is_built(
    estate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, built = probe()
    with bind(0) as holder:
        port = str(holder.getsockname()[1])
        code = run(program, ["--estate", estate, "--target", "west", "--http-port", port])

    assert code == 1
    assert f"HTTP port 127.0.0.1:{port} is taken" in capsys.readouterr().err
    assert built == []


def test_a_missing_estate_file_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    program, _ = probe()

    assert run(program, ["--estate", "/nowhere/estate.yaml", "--target", "west"]) == 1
    assert "/nowhere/estate.yaml" in capsys.readouterr().err


def test_an_address_of_a_collector_that_is_none_is_refused_before_anything_is_built(
    estate: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, built = probe()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317")

    code = run(program, ["--estate", estate, "--target", "west"])

    assert (code, built) == (1, [])
    assert capsys.readouterr().err == (
        "error: mirrorfleet sync: environment variable OTEL_EXPORTER_OTLP_ENDPOINT:"
        " 'collector:4317' is not http://host:port. Correct it, or unset it to run without"
        " traces.\n"
    )


def test_without_an_address_a_service_has_no_telemetry(
    estate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, built = probe()
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)

    run(program, ["--estate", estate, "--target", "west"])

    assert not built[0].context.telemetry.on
