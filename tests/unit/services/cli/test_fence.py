"""`fence` without a cluster: who is named as having done it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.operating import fencing
from mirrorfleet.records.positions import Fence
from services.cli import fence
from services.cli.__main__ import main

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ESTATE = """\
estate: demo
clusters: {east: {bootstrap: "127.0.0.1:1"}, west: {bootstrap: "127.0.0.1:2"}}
links:
  - {from: east, to: west, rules: [{name: orders, topics: ["orders"]}]}
"""


@pytest.mark.parametrize("error", [KeyError, OSError])
def test_a_uid_without_a_name_can_fence_and_is_named_by_its_number(
    error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "estate.yaml"
    file.write_text(ESTATE, encoding="utf-8")
    written: list[object] = []

    def nobody() -> str:
        raise error("uid not found: 4711")

    @asynccontextmanager
    async def open_cluster(*_: object) -> AsyncIterator[None]:
        yield None

    async def mark(
        _target: object, _fleet: object, _link: object, entry: object, _now: int
    ) -> dict[str, str]:
        written.append(entry)
        return {"0": ""}

    monkeypatch.setattr("getpass.getuser", nobody)
    monkeypatch.setattr("os.getuid", lambda: 4711)
    monkeypatch.setattr("socket.gethostname", lambda: "pod-1")
    monkeypatch.setattr(fence, "open_cluster", open_cluster)
    monkeypatch.setattr(fencing, "mark", mark)
    assert main(["fence", "east->west", "--reason", "drill", "--estate", str(file)]) == 0
    (entry,) = written
    assert isinstance(entry, Fence)
    assert (entry.who, entry.reason) == ("uid 4711@pod-1", "drill")
