"""An offset on the other side, by page and by API: of the topics that the map is about, or none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.mapping.targets import Target, away, deleted, hidden, made_again
from tests.unit.services.console.test_web import client_of

THERE = "topic=orders&partition=0&offset=10"
BACK = "topic=east.orders&partition=0&offset=5&direction=to-source"


async def test_an_offset_is_translated_both_ways(tmp_path: Path) -> None:
    api = "/api/links/east/west/translate?"

    async with client_of(tmp_path, Target(), Target()) as web:
        there = (await web.get(api + THERE)).json()
        back = (await web.get(api + BACK)).json()
        form = await web.get("/translate?link=east/west&topic=orders&partition=0&offset=1,0")

    assert (there["other_offset"], there["unchecked"]) == (5, "")
    assert back["other_offset"] == 10
    assert "Offset 10 of orders-0 is offset 5 of east.orders-0: the same record." in form.text
    assert "not checked" not in form.text


@pytest.mark.parametrize("question", [THERE, BACK])
@pytest.mark.parametrize("gone", [deleted, made_again])
async def test_no_offset_is_translated_by_the_map_of_a_topic_that_was_deleted(
    gone: Callable[[], Target], question: str, tmp_path: Path
) -> None:
    async with client_of(tmp_path, gone()) as web:
        answer = await web.get(f"/api/links/east/west/translate?{question}")
        form = await web.get(f"/translate?link=east/west&{question}")

    said = "west: the east.orders that the offset map is about was deleted."
    assert (answer.status_code, said in answer.json()["error"]) == (404, True)
    assert ("No answer." in form.text, said in form.text) == (True, True)


@pytest.mark.parametrize("question", [THERE, BACK])
async def test_nothing_is_translated_where_the_source_topic_was_made_again(
    question: str, tmp_path: Path
) -> None:
    async with client_of(tmp_path, Target(), made_again()) as web:
        answer = await web.get(f"/api/links/east/west/translate?{question}")

    said = "east: the orders that the offset map is about was deleted."
    assert (answer.status_code, said in answer.json()["error"]) == (404, True)


@pytest.mark.parametrize(
    ("source", "why"),
    [(away(), " east does not answer."), (None, "")],
    ids=["away", "without its secrets"],
)
async def test_a_translation_does_not_need_the_source(
    source: Target | None, why: str, tmp_path: Path
) -> None:
    async with client_of(tmp_path, Target(), source) as web:
        answer = (await web.get(f"/api/links/east/west/translate?{THERE}")).json()

    said = "not checked: east did not say whether it still has this orders."
    assert (answer["other_offset"], answer["unchecked"]) == (5, f"{said}{why}")


@pytest.mark.parametrize("unsure", [hidden, away])
async def test_a_translation_says_when_it_could_not_be_checked(
    unsure: Callable[[], Target], tmp_path: Path
) -> None:
    async with client_of(tmp_path, unsure()) as web:
        answer = (await web.get(f"/api/links/east/west/translate?{THERE}")).json()
        form = await web.get(f"/translate?link=east/west&{THERE}")

    said = "not checked: west did not say whether it still has this east.orders."
    assert (answer["other_offset"], answer["unchecked"].startswith(said)) == (5, True)
    assert said in form.text
