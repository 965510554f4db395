"""`explain`: exit codes, and which topic a name means."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.core.ids import NO_TOPIC_ID
from mirrorfleet.kafka.metadata import TopicMeta
from mirrorfleet.operating import explaining
from services.cli.__main__ import main
from tests.unit.config.making import RIGHT
from tests.unit.views.test_explaining import FAULTED, ROW

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from mirrorfleet.core.ids import ClusterAlias

Captured = pytest.CaptureFixture[str]


class Cluster:
    """One cluster of the estate, which has these topics."""

    def __init__(self, alias: ClusterAlias, has: Sequence[str]) -> None:
        self.name, self._has = alias, has
        self.topics: dict[str, TopicMeta] = {}

    async def metadata(self, names: Sequence[str]) -> Cluster:
        if self.name == "east" and "away" in self._has:
            raise DeadlineError("east: no answer.")
        for name in names:
            error = ErrorCode.NONE if name in self._has else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self.topics[name] = TopicMeta(name, NO_TOPIC_ID, error, False, {})
        return self


@pytest.mark.parametrize(
    ("text", "has", "rows", "code", "what"),
    [
        ("orders", [], [ROW], 0, [("copied", "orders")]),
        ("orders-0", [], [ROW], 0, [("copied", "orders")]),
        ("orders-7", ["orders-7"], [], 2, [("not taken up", "orders-7")]),
        ("orders-7", ["orders"], [ROW], 2, [("not taken up", "orders")]),
        ("orders", [], [ROW, FAULTED], 2, [("copied", "orders")]),
        ("orders", ["away"], [], 1, [("not known", "orders")]),
        ("none", ["orders"], [ROW], 1, []),
    ],
)
def test_a_name_is_looked_for_everywhere(  # noqa: PLR0913 - one row a case
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: Captured,
    text: str,
    has: list[str],
    rows: list[dict[str, object]],
    code: int,
    what: list[tuple[str, str]],
) -> None:
    @asynccontextmanager
    async def open_cluster(_: object, alias: ClusterAlias) -> AsyncIterator[Cluster]:
        yield Cluster(alias, has if alias == "east" else [])

    async def standing(cluster: Cluster, *_: object) -> list[dict[str, object]]:
        assert cluster.name == "west"
        return rows

    monkeypatch.setattr(explaining, "open_cluster", open_cluster)
    monkeypatch.setattr(explaining, "standing", standing)
    monkeypatch.setenv("WEST_PASSWORD", "x")
    file = tmp_path / "estate.yaml"
    file.write_text(RIGHT, encoding="utf-8")

    assert main(["explain", text, "--estate", str(file), "-o", "json"]) == code

    shown = capsys.readouterr()
    found = json.loads(shown.out) if what else []
    assert [(row["what"], row["topic"]) for row in found] == what
    assert ("no cluster that answers has a topic 'none'" in shown.err) == (not what)
    assert ("unhealthy: orders-1: retention overtook it" in shown.err) == (FAULTED in rows)
