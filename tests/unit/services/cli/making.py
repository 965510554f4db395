"""An estate of one link, and a command whose clusters are what a test makes of their aliases."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path
    from types import ModuleType

    import pytest

    from mirrorfleet.core.ids import ClusterAlias

ESTATE = """\
estate: demo
clusters: {east: {bootstrap: "127.0.0.1:1"}, west: {bootstrap: "127.0.0.1:2"}}
links:
  - {from: east, to: west, rules: [{name: all, topics: [".*"], groups: [".*"]}]}
"""


def opened_by(
    module: ModuleType,
    made: Callable[[ClusterAlias], object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Have the module open what is `made`, and commands take the estate without naming it."""

    @asynccontextmanager
    async def open_cluster(_: object, alias: ClusterAlias) -> AsyncIterator[object]:
        yield made(alias)

    file = tmp_path / "estate.yaml"
    file.write_text(ESTATE, encoding="utf-8")
    monkeypatch.setenv("MIRRORFLEET_ESTATE", str(file))
    monkeypatch.setattr(module, "open_cluster", open_cluster)
