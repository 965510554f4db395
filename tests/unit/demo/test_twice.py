"""`make demo` beside a demo that runs, or after another program took its port."""

from __future__ import annotations

import socket

import pytest

from services.local.ports import HOST
from tests.demo import __main__ as demo


def test_a_demo_that_cannot_collect_its_traces_takes_nothing_down(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[str] = []
    with socket.create_server((HOST, 0)) as taken:
        port = int(taken.getsockname()[1])
        monkeypatch.setattr(demo, "otlp_port", lambda: port)
        monkeypatch.setattr(demo, "down", lambda: ended.append("down"))
        monkeypatch.setattr(demo, "leave_in_order", lambda: None)

        code = demo.main(["up"])

    assert (code, ended) == (1, [])
    assert f"port {port}" in capsys.readouterr().out
