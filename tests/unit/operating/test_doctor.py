"""What limits workers, from the status that they give over HTTP."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.errors import ConfigError
from mirrorfleet.operating.doctor import NoAnswerError, asked, rows
from services.cli.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOT = {"slot": 3, "link": "east->west", "state": "copying", "why": "w", "lag_records": 0}
STATUS = {
    "owner": "a",
    "slots": [
        {**SLOT, "limit": "nothing"},
        {**SLOT, "slot": 5, "limit": "target", "lag_records": 7},
        {**SLOT, "slot": 4, "limit": "cpu", "lag_records": 90},
    ],
}


@contextmanager
def worker(body: object) -> Iterator[str]:
    """A server that answers every path with the body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/status" else 404)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_what_is_limited_comes_first_and_of_those_what_is_most_behind() -> None:
    with worker(STATUS) as address:
        found = rows([asked(address + "/")])

    assert [(row["slot"], row["limit"]) for row in found] == [
        (4, "cpu"),
        (5, "target"),
        (3, "nothing"),
    ]
    assert found[0]["worker"] == "a"


def test_the_command_prints_a_line_for_each_slot(capsys: pytest.CaptureFixture[str]) -> None:
    with worker(STATUS) as address:
        assert main(["doctor", address, "-o", "json"]) == 0
    assert [row["slot"] for row in json.loads(capsys.readouterr().out)] == [4, 5, 3]


def test_a_lag_of_which_a_part_is_not_known_is_not_told() -> None:
    unknown = {**SLOT, "limit": "unreachable", "lag_records": 3, "lag_unknown": 1}
    with worker({"owner": "a", "slots": [unknown]}) as address:
        (row,) = rows([asked(address)])

    assert (row["lag_records"], row["lag_unknown"]) == (None, 1)


def test_a_worker_that_does_not_answer_hides_none_that_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with worker(STATUS) as gone:
        pass
    with worker(STATUS) as address:
        assert main(["doctor", gone, address, "-o", "json"]) == 1

    shown = capsys.readouterr()
    assert [row["slot"] for row in json.loads(shown.out)] == [4, 5, 3]
    assert shown.err.startswith(f"error: {gone}: {gone}/status gives no answer: ")


@pytest.mark.parametrize("address", ["http://[::1:8110", "http://a\u2100:80"])
def test_an_address_that_cannot_be_split_is_one_error_and_exit_1(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", address]) == 1
    shown = capsys.readouterr()
    assert shown.err == f"error: {address} is no address of a worker. Say http://HOST:PORT.\n"
    assert shown.out == ""


def test_who_is_no_worker_is_told_apart_from_who_does_not_answer() -> None:
    with pytest.raises(ConfigError, match="localhost:80 is no address"):
        asked("localhost:80")
    with worker({"service": "sync"}) as address, pytest.raises(NoAnswerError, match="no status"):
        asked(address)
    with pytest.raises(NoAnswerError, match="gives no answer"):
        asked(address)


def test_a_worker_is_not_asked_through_a_proxy_for_the_internet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    with worker(STATUS) as address:
        assert asked(address).owner == "a"
