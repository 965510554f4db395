"""`offsets translate` and `groups`: what is refused before a cluster is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.cli.__main__ import main

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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["groups", "--target", "west"], "which link into west is meant? Links: east->west, north"),
        (["groups", "--target", "west", "--from", "south"], "which link into west is meant?"),
        (["groups", "--target", "east"], "Links: none."),
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
