"""`offsets translate` and `groups`: what is refused, before a cluster is asked and by one."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.ids import SourceOffset, TopicPartition
from mirrorfleet.mapping import asking
from mirrorfleet.mapping.group_rows import GROUP_COLUMNS
from mirrorfleet.offsets.copies import Answer
from mirrorfleet.offsets.index import Found
from mirrorfleet.operating import connecting, offsets
from services.cli.__main__ import main
from tests.unit.mapping.test_asking import ENTRY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mirrorfleet.config.model import Estate

ESTATE = """
estate: e
clusters:
  east: {bootstrap: "h:1"}
  north: {bootstrap: "h:3"}
  west: {bootstrap: "h:2"}
links:
  - {from: east, to: west, rules: [{name: all, topics: [a]}]}
  - {from: north, to: west, rules: [{name: all, topics: [b]}]}
"""
SECURITY = "protocol: SASL_SSL, mechanism: PLAIN, username: u, password: {env: NOT_HERE}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["groups", "--target", "west"], "which link into west is meant? Links: east->west, north"),
        (
            ["groups", "--target", "west", "--from", "south"],
            "no link copies from 'south' into 'west'. Links: east->west, north->west.",
        ),
        (["groups", "--target", "east"], "no link copies into 'east'. Targets: west."),
        (
            ["groups", "--target", "east", "--from", "north"],
            "no link copies into 'east'. Targets: west.",
        ),
        (["groups", "--target", "nowhere"], "'nowhere' is no cluster"),
        (["offsets", "translate", "a-0", "-5", "--target", "west"], "No such option"),
        (["offsets", "translate", "a-0", "x", "--target", "west"], "should be a valid integer"),
        (["offsets", "translate", "a-0", "5"], "Missing option '--target'"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    file = tmp_path / "estate.yaml"
    file.write_text(ESTATE)
    assert main([*arguments, "--estate", str(file)]) == 1
    assert said in capsys.readouterr().err


def groups_of(
    refused: str | None, monkeypatch: pytest.MonkeyPatch, file: Path, unchecked: str | None = None
) -> list[str]:
    """The command line that asks for one group, which a cluster may refuse."""
    said = {"group": "g", "refused": refused, "unchecked": unchecked}
    row = dict.fromkeys(GROUP_COLUMNS) | said

    @asynccontextmanager
    async def open_cluster(*_: object) -> AsyncIterator[None]:
        yield None

    async def ask_groups(*_: object, **__: object) -> list[dict[str, str | None]]:
        return [row]

    monkeypatch.setattr(offsets, "open_cluster", open_cluster)
    monkeypatch.setattr(asking, "ask_groups", ask_groups)
    file.write_text(ESTATE)
    return ["groups", "--target", "west", "--from", "east", "--estate", str(file)]


@pytest.mark.parametrize(("refused", "code"), [(None, 0), ("west: GROUP_AUTHORIZATION_FAILED", 1)])
def test_groups_says_who_was_refused_and_exits_1_then(
    refused: str | None,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = groups_of(refused, monkeypatch, tmp_path / "estate.yaml")

    assert main(command) == code
    table = capsys.readouterr().out
    assert ("REFUSED" in table, str(refused) in table) == (bool(refused), bool(refused))
    assert main([*command, "-o", "json"]) == code
    assert json.loads(capsys.readouterr().out)[0]["refused"] == refused


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("", "no rule of east->west has `groups`: no consumer group's offsets cross."),
        (", groups: [g]", "no group has read anything that is copied"),
    ],
)
def test_groups_tells_a_link_that_takes_none_from_groups_that_have_read_nothing(
    rule: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "estate.yaml"
    command = groups_of(None, monkeypatch, file)
    file.write_text(ESTATE.replace("topics: [a]", f"topics: [a]{rule}"))

    async def nobody(*_: object, **__: object) -> list[object]:
        return []

    monkeypatch.setattr(asking, "ask_groups", nobody)
    assert main(command) == 0
    assert capsys.readouterr().out.startswith(said)


@pytest.mark.parametrize("unchecked", [None, "not checked: hidden"])
def test_groups_shows_what_could_not_be_checked_where_there_is_such(
    unchecked: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = groups_of(None, monkeypatch, tmp_path / "estate.yaml", unchecked)

    assert main(command) == 0
    table = capsys.readouterr().out
    assert ("UNCHECKED" in table, str(unchecked) in table) == (bool(unchecked), bool(unchecked))


def test_translate_answers_without_the_secrets_of_the_source_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = connecting.open_cluster

    def open_cluster(estate: Estate, alias: str) -> object:
        return nullcontext() if alias == "west" else real(estate, alias)

    async def ask_offset(*_: object) -> Answer:
        at, there = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
        return Answer(ENTRY, at, 7, there, 9, Found.EXACT, SourceOffset(20))

    monkeypatch.setattr(offsets, "open_cluster", open_cluster)
    monkeypatch.setattr(asking, "ask_offset", ask_offset)
    file = tmp_path / "estate.yaml"
    file.write_text(ESTATE.replace('"h:1"', f'"h:1", security: {{{SECURITY}}}'))
    command = ["offsets", "translate", "orders-0", "7", "--target", "west", "--from", "east"]

    assert main([*command, "--estate", str(file), "-o", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    unchecked = "not checked: east did not say whether it still has this orders."
    assert (row["other_offset"], row["unchecked"]) == (9, unchecked)


def test_a_topic_that_ends_like_a_partition_is_meant_where_no_such_partition_is_copied() -> None:
    copied = {TopicPartition("a", 0), TopicPartition("a-1", 0), TopicPartition("a-1", 1)}

    assert asking.parse_partition("a-1", copied) == TopicPartition("a-1", 0)
    assert asking.parse_partition("a-1-1", copied) == TopicPartition("a-1", 1)
    assert asking.parse_partition("a-2", copied) == TopicPartition("a", 2)
    both = {*copied, TopicPartition("a", 1)}
    assert asking.parse_partition("a-1", both) == TopicPartition("a", 1)
    assert asking.parse_partition("a-1-0", both) == TopicPartition("a-1", 0)
