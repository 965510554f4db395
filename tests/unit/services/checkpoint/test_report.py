"""`/translate` answers from the map, and says what it cannot answer."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.catalog import CatalogPartition
from mirrorfleet.runtime.health import Health
from mirrorfleet.runtime.http import build_app
from mirrorfleet.runtime.lifecycle import Lifecycle
from mirrorfleet.runtime.metrics import Metrics
from services.checkpoint import report
from tests.unit.mapping.targets import Target, away, deleted, hidden, made_again, source_of
from tests.unit.offsets.making import run_of
from tests.unit.records.making import LINK, identity

ENTRY = CatalogPartition(
    identity=identity(0),
    link=LINK,
    source_topic="orders",
    target_topic="east.orders",
    slot=SlotNumber(1),
)


def client(
    *, loaded: bool = True, source: Target | None = None, target: Target | None = None
) -> httpx.AsyncClient:
    index = OffsetIndex()
    index.add(identity(0), [run_of(0, 10, 5)])
    health = Health(Lifecycle())
    questions = report.new_app(
        lambda _: Copies([ENTRY], index),
        {LINK: source_of(source).cluster()},
        lambda: loaded,
        (target or Target()).cluster(),
    )
    app = build_app(health=health, metrics=Metrics(), status=dict, app=questions)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test")


THERE = "source=east&topic=orders&partition=0&offset=4"
UNTOLD = "not checked: east did not say whether it still has this orders."
UNCHECKED = "not checked: west did not say whether it still has this east.orders."
BACK = "source=east&topic=east.orders&partition=0&offset=9&direction=to-source"


@pytest.mark.parametrize(
    ("question", "other", "offset"), [(THERE, "east.orders", 9), (BACK, "orders", 4)]
)
async def test_an_offset_is_translated_both_ways(question: str, other: str, offset: int) -> None:
    async with client() as http:
        answer = await http.get(f"/translate?{question}")
    found = answer.json()
    assert (answer.status_code, found["other_topic"], found["other_offset"], found["found"]) == (
        200,
        other,
        offset,
        "exact",
    )


@pytest.mark.parametrize(
    ("question", "code", "said"),
    [
        ("source=east&topic=carts&partition=0&offset=4", 404, "no source partition carts-0"),
        ("source=east&topic=orders&partition=1&offset=4", 404, "no source partition orders-1"),
        ("source=north&topic=orders&partition=0&offset=4", 404, "no link copies from 'north'"),
        ("source=east&topic=orders&partition=0&offset=-1", 422, "greater than or equal to 0"),
        ("source=east&topic=orders&partition=0&offset=99999999999999999999", 422, "less than"),
        ("source=east&topic=orders&partition=x&offset=1", 422, "valid integer"),
        ("source=east&topic=orders", 422, "Field required"),
        ("source=east&topic=orders&partition=0&offset=1&direction=up", 422, "to-target"),
        ("source=<script>&topic=<b>&partition=0&offset=1", 404, "no link copies from"),
    ],
)
async def test_what_cannot_be_answered_is_said(question: str, code: int, said: str) -> None:
    async with client() as http:
        answer = await http.get(f"/translate?{question}")
    assert answer.status_code == code
    assert said in answer.text
    assert answer.headers["content-type"] == "application/json"


async def test_nothing_is_answered_from_half_a_map() -> None:
    async with client(loaded=False) as http:
        answer = await http.get("/translate?source=east&topic=orders&partition=0&offset=4")
    assert answer.status_code == 503
    assert answer.json() == {"error": "the offset map is still being read; see /readyz"}


@pytest.mark.parametrize("question", [THERE, BACK])
@pytest.mark.parametrize("gone", [deleted, made_again])
async def test_nothing_is_answered_from_the_map_of_a_topic_that_was_deleted(
    gone: Callable[[], Target], question: str
) -> None:
    async with client(target=gone()) as http:
        answer = await http.get(f"/translate?{question}")
    assert answer.status_code == 409
    assert "the east.orders that the offset map is about was deleted" in answer.json()["error"]


@pytest.mark.parametrize("question", [THERE, BACK])
async def test_nothing_is_answered_about_a_source_topic_that_was_made_again(question: str) -> None:
    async with client(source=made_again()) as http:
        answer = await http.get(f"/translate?{question}")
    assert answer.status_code == 409
    assert "the orders that the offset map is about was deleted" in answer.json()["error"]


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        (Target(), Target(), None),
        (Target(), hidden(), UNCHECKED),
        (Target(), away(), f"{UNCHECKED} west does not answer."),
        (away(), Target(), f"{UNTOLD} east does not answer."),
        (hidden(), hidden(), f"{UNCHECKED} {UNTOLD}"),
    ],
    ids=["there", "target hides it", "target away", "source away", "both hide it"],
)
async def test_an_answer_says_when_it_could_not_be_checked(
    source: Target, target: Target, said: str | None
) -> None:
    async with client(source=source, target=target) as http:
        answer = await http.get(f"/translate?{THERE}")
    assert (answer.status_code, answer.json()["other_offset"]) == (200, 9)
    assert answer.json().get("unchecked") == said
