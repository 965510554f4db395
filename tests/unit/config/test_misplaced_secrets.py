"""A secret that stands in a wrong place of the estate is not repeated in what is said of that."""

from __future__ import annotations

import pytest

from tests.unit.config.making import RIGHT, problems


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "clusters:\n",
            "clusters:\n  password: hunter2\n",
            "estate.yaml:3 clusters.password: should be a mapping.",
        ),
        (
            "{env: WEST_PASSWORD}",
            "{file:hunter2}",
            (
                "estate.yaml:11 clusters.west.security.password.file: unknown key; it is written"
                " as `KEY: VALUE`, with a blank behind the colon."
            ),
        ),
        (
            'bootstrap: "127.0.0.1:19092"\n',
            'bootstrap: "127.0.0.1:19092"\n    security: {username: u, password=hunter2}\n',
            (
                "estate.yaml:5 clusters.east.security.password: unknown key; it is written as"
                " `KEY: VALUE`, with a blank behind the colon."
            ),
        ),
    ],
)
def test_a_secret_that_stands_in_a_wrong_place_is_not_repeated(
    old: str, new: str, said: str
) -> None:
    assert old in RIGHT
    found = problems(RIGHT.replace(old, new)).splitlines()
    assert said in found
    assert "hunter2" not in "".join(found)
