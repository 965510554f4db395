"""The console's settings, and the token that lets more than reading in."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorfleet.config.load import load_estate
from mirrorfleet.core.errors import ConfigError
from services.console.settings import KeptToken, parse, token_of

ESTATE = """
estate: demo
clusters: {east: {bootstrap: "a:1"}, west: {bootstrap: "b:1"}}
links: [{from: east, to: west, rules: [{name: all, topics: [".*"]}]}]
services: {console: {token: {env: TOKEN}}}
"""


def token(tmp_path: Path, value: str) -> str | None:
    file = tmp_path / "estate.yaml"
    file.write_text(ESTATE)
    estate = load_estate(file, {"TOKEN": value})
    return token_of(estate, parse(estate.services["console"]))


def test_the_token_is_read_from_where_the_estate_says(tmp_path: Path) -> None:
    assert token(tmp_path, "sixteen letters!") == "sixteen letters!"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("fifteen letters", "shorter than 16 characters"),
        ("", "environment variable TOKEN is not set"),
        (" sixteen letters!", "an outer space that no header may have"),
        ("sixteen létters!", "a character or an outer space that no header may have"),
    ],
)
def test_a_token_that_is_short_or_missing_is_refused(tmp_path: Path, value: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        token(tmp_path, value)


def test_a_token_in_a_file_is_read_at_each_question_and_the_last_one_kept_without_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "token"
    file.write_text("sixteen letters!")
    estate_file = tmp_path / "estate.yaml"
    estate_file.write_text(ESTATE.replace("{env: TOKEN}", "{file: token}"))
    estate = load_estate(estate_file, {})
    current = KeptToken(estate, parse(estate.services["console"]))

    read = [current()]
    for held in ("the second token", "", "the sec", None):
        file.unlink()
        if held is not None:
            file.write_text(held)
        read.append(current())

    assert read == ["sixteen letters!", *["the second token"] * 4]


def test_a_token_is_never_written_into_the_estate() -> None:
    with pytest.raises(ConfigError, match=r"services\.console\.token"):
        parse({"token": "written here"})


def test_an_unknown_key_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'refresh_s'"):
        parse({"refresh": 1})
