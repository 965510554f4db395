"""Pages, streams and API over one fleet, without brokers: what is escaped, cut and refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from fastapi import FastAPI

from mirrorfleet.config.load import load_estate
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.core.ids import SourceOffset as S
from mirrorfleet.core.ids import TargetOffset as T
from mirrorfleet.mapping.fleet_watch import ClusterWatch
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.events import Event
from mirrorfleet.records.segments import Run
from mirrorfleet.views import pages
from mirrorfleet.views.groups import GroupFacts
from mirrorfleet.views.models import LinkPage
from mirrorfleet.views.pages import LinkSeen, Wanted
from mirrorfleet.views.told import Fleet
from services.console import board, rendering
from services.console.access import Gate
from services.console.board import Board
from services.console.routes import Pages, add_pages
from services.console.settings import ConsoleSettings
from tests.fakes.clock import HandClock
from tests.unit.mapping.targets import Target, source_of
from tests.unit.records.making import LINK
from tests.unit.views.making import NOW, entry, fleet, report, snapshot

EVIL = "<script>alert(1)<p onclick=alert(1)>"
TOKEN = "sixteen or more letters"
ESTATE = """
estate: demo
clusters: {east: {bootstrap: "a:1"}, west: {bootstrap: "b:1"}}
links: [{from: east, to: west, rules: [{name: all, topics: [".*"], groups: [".*"]}]}]
"""
TOPICS = "/links/east/west/topics"


@dataclass
class Told:
    """A fleet as a test wants it."""

    of: Fleet
    index: OffsetIndex = field(default_factory=OffsetIndex)
    map_words: str = ""
    source: Target | None = None
    target: Target = field(default_factory=Target)

    def fleet(self) -> Fleet:
        return self.of

    def want_map(self) -> None:
        pass


def world() -> Told:
    """250 partitions of one topic, and one of a topic whose name is a script."""
    entries = [entry(n) for n in range(250)]
    evil = entry(0, topic=EVIL)
    happened = Event(
        kind=EVIL, time_ms=NOW, writer=EVIL, detail=EVIL, link=LINK, topic=EVIL, partition=0
    )
    told = Told(
        fleet([*entries, evil], snapshot(report(entries[0]), report(evil, fault=EVIL)), happened)
    )
    run = Run(source_start=S(5), source_end=S(100), target_start=T(0))
    told.index.add(entries[0].identity, [run])
    return told


def app_of(told: Told, tmp_path: Path, closing: asyncio.Event, most_streams: int = 2) -> FastAPI:
    file = tmp_path / "estate.yaml"
    file.write_text(ESTATE)
    estate = load_estate(file, {})
    clock = HandClock(seconds=NOW / 1000, wall_ms=NOW)
    clusters = {
        ClusterAlias(alias): ClusterWatch(ClusterAlias(alias), None, clock, "no secret")
        for alias in ("east", "west")
    }
    if told.source is not None:
        orders = entry(0).identity.source_topic_id
        clusters[LINK.source].cluster = source_of(told.source, topic_id=orders).cluster()
    clusters[LINK.target].cluster = told.target.cluster()
    settings = ConsoleSettings(refresh_s=0.1, most_streams=most_streams)
    board = Board(estate, clusters, {LINK.target: told}, clock, settings)
    app = FastAPI(openapi_url=None)
    app.add_middleware(Gate, token=lambda: TOKEN)
    add_pages(app, Pages(board, "demo", settings, closing))
    return app


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(tmp_path, Target()) as client:
        yield client


def client_of(tmp_path: Path, target: Target, source: Target | None = None) -> httpx.AsyncClient:
    told = replace(world(), source=source, target=target)
    app = app_of(told, tmp_path, asyncio.Event())
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://console")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/links/east/west",
        f"{TOPICS}/{EVIL}/0",
        "/events",
        f"/links/east/west?q={EVIL}",
        f"/events?q={EVIL}",
        f"/translate?link={EVIL}&topic={EVIL}&partition=0&offset=1",
        f"/translate?link=east/west&topic={EVIL}&partition={EVIL}&offset={EVIL}",
        f"/links/{EVIL[:8]}/west",
        f"/links/east/west/group?name={EVIL}",
    ],
)
async def test_a_script_in_a_name_or_a_question_is_text_on_every_page(
    web: httpx.AsyncClient, path: str
) -> None:
    text = (await web.get(path)).text

    assert "<script>" not in text
    assert "&lt;script" in text
    assert text.count("<script ") == 1  # our own


async def test_a_page_may_load_its_own_style_and_script_only(web: httpx.AsyncClient) -> None:
    answer = await web.get("/")

    policy = dict(
        part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; ")
    )
    assert (policy["default-src"], policy["script-src"], policy["style-src"]) == (
        "'none'",
        "'self'",
        "'self'",
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert " style=" not in answer.text
    assert " on" not in {part[:3] for part in answer.text.split("<")}
    for asset in ("console.css", "console.js", "icon.svg"):
        assert (await web.get(f"/static/{asset}")).status_code == 200


async def test_many_partitions_come_in_pages(web: httpx.AsyncClient) -> None:
    first = (await web.get(f"{TOPICS}/orders")).text
    last = (await web.get(f"{TOPICS}/orders?page=3")).text

    assert "250 partitions, page 1 of 3" in first
    assert f'href="{TOPICS}/orders/99"' in first
    assert f'href="{TOPICS}/orders/100"' not in first
    assert 'rel="next" href="?page=2"' in first
    assert f'href="{TOPICS}/orders/249"' in last
    assert 'rel="next"' not in last


async def test_the_api_says_the_same_as_the_page(web: httpx.AsyncClient) -> None:
    found = (await web.get(f"/api{TOPICS}/orders/0")).json()
    page = (await web.get(f"{TOPICS}/orders/0")).text

    assert found["headline"] == "It copies live, 10 records behind the source."
    assert found["row"]["lag_records"] == 10
    assert found["segment"] == {
        "source_offset": 99,
        "target_offset": 94,
        "copied_to": 100,
        "pieces": 1,
    }
    for sentence in [found["headline"], *found["why"][1:6]]:
        assert sentence.replace("'", "&#39;") in page


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/links/east/north", 404, "the estate has no link east-&gt;north."),
        (f"{TOPICS}/nothing", 404, "copies no topic &#39;nothing&#39;"),
        (f"{TOPICS}/orders/250", 404, "copies no partition orders-250"),
        (f"{TOPICS}/orders/x", 422, "partition: Input should be a valid integer"),
        (f"{TOPICS}/orders/-1", 422, "partition: Input should be greater than or equal to 0"),
        (f"{TOPICS}/orders?page=0", 422, "page: Input should be greater than or equal to 1"),
        (f"{TOPICS}/orders?size=1001", 422, "size: Input should be less than or equal to 1000"),
        ("/links/east/west/group", 422, "name: Field required"),
        ("/nowhere", 404, "Not Found"),
    ],
)
async def test_a_wrong_question_is_answered_with_a_clear_word(
    web: httpx.AsyncClient, path: str, status: int, words: str
) -> None:
    answer = await web.get(path)

    assert answer.status_code == status
    assert words in answer.text


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("topic=orders&partition=0&offset=x", "whole numbers"),
        ("topic=orders&partition=0&offset=9223372036854775808", "is neither partition nor offset"),
        ("topic=orders&partition=0&offset=-1", "-1 is neither partition nor offset"),
        ("topic=orders&partition=1&offset=1", "nothing of orders-1 is copied yet"),
        ("topic=none&partition=0&offset=1", "no source partition none-0 is copied by this link"),
        ("topic=orders&partition=0&offset=1&direction=up", "direction is one of two"),
    ],
)
async def test_the_form_says_why_it_has_no_answer(
    web: httpx.AsyncClient, question: str, words: str
) -> None:
    answer = await web.get(f"/translate?link=east/west&{question}")

    assert answer.status_code == 200
    assert words in answer.text


async def test_the_api_refuses_with_an_error_and_a_hint(web: httpx.AsyncClient) -> None:
    answer = await web.get("/api/links/east/north")

    assert answer.status_code == 404
    assert answer.json() == {
        "error": "the estate has no link east->north.",
        "hint": "Links: east->west.",
    }
    assert (await web.get(f"/api{TOPICS}/orders/x")).status_code == 422


async def test_a_cluster_whose_settings_are_wrong_is_a_word_on_the_page(
    web: httpx.AsyncClient,
) -> None:
    groups = await web.get("/links/east/west/groups")

    assert groups.status_code == 200
    assert "Groups cannot be asked for now.</strong> no secret" in groups.text


@pytest.mark.parametrize(
    ("members", "shown", "told"),
    [(None, '<span class="dim">unknown</span>', 0), ((), "0", 0), (("till-7 at a",), "1", 1)],
)
async def test_members_that_were_not_told_are_unknown_and_never_0(
    web: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    members: tuple[str, ...] | None,
    shown: str,
    told: int,
) -> None:
    async def group(*_: object) -> GroupFacts:
        return GroupFacts(source_states={"g": "Stable"}, source_members=members)

    monkeypatch.setattr(Board, "_asker", lambda *_: SimpleNamespace(group=group))

    page = (await web.get("/links/east/west/group?name=g")).text
    answer = (await web.get("/api/links/east/west/group?name=g")).json()

    assert f"<dt>Members on east</dt><dd>{shown}</dd>" in page
    assert "<dt>Members on west</dt><dd>0</dd>" in page
    assert page.count("On east: till-7 at a") == told
    assert answer["source_members"] == (None if members is None else list(members))


@pytest.mark.parametrize("path", ["", "/topics/orders", "/topics/orders/0"])
async def test_a_fleet_that_cannot_be_read_is_shown_as_of_when_it_was_read_last(
    tmp_path: Path, path: str
) -> None:
    orders = entry(0)
    then = snapshot(report(orders, last_progress_ms=NOW - 601_000), time_ms=NOW - 600_500)
    deaf = Told(fleet([orders], then, trouble="no broker answers", read_ms=NOW - 600_000))
    app = app_of(deaf, tmp_path, asyncio.Event())
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:
        page = (await client.get(f"/links/east/west{path}")).text
        answer = (await client.get(f"/api/links/east/west{path}")).json()

    assert "Cannot be read now.</strong> no broker answers" in page
    assert "Since 1970-01-01 00:06:40." in page
    assert '<span class="badge ok">' in page
    assert "stopped</span>" not in page
    assert (answer["trouble"], "stopped" in json.dumps(answer)) == ("no broker answers", False)


async def test_every_answer_of_the_api_is_documented(web: httpx.AsyncClient) -> None:
    document = (await web.get("/api/openapi.json")).json()

    reads = {path: one["get"] for path, one in document["paths"].items() if "get" in one}
    assert len(reads) == 8
    for path, read in reads.items():
        answer = read["responses"]["200"]["content"]["application/json"]["schema"]
        assert "$ref" in answer, path
        assert read["description"], path
    row = document["components"]["schemas"]["PartitionRow"]["properties"]
    assert row["time_lag_ms"]["description"].startswith("Now minus the time at which")


@pytest.mark.parametrize("path", ["/api/access", "/", f"{TOPICS}/orders", "/metrics", "/nowhere"])
async def test_writes_are_refused_before_anything_else(web: httpx.AsyncClient, path: str) -> None:
    without = await web.post(path)
    wrong = await web.post(path, headers={"Authorization": "Bearer no"})

    assert (without.status_code, without.headers["www-authenticate"]) == (401, "Bearer")
    assert (wrong.status_code, wrong.json()["error"]) == (403, "the token is wrong.")


async def test_the_right_token_gets_through(web: httpx.AsyncClient) -> None:
    right = {"Authorization": f"Bearer {TOKEN}"}

    assert (await web.post("/api/access", headers=right)).status_code == 204
    assert (await web.delete("/", headers=right)).status_code == 405


async def test_the_stream_of_a_page_is_its_live_part_and_further_ones_are_turned_away(
    tmp_path: Path,
) -> None:
    closing = asyncio.Event()
    closing.set()  # one state, then the end
    app = app_of(world(), tmp_path, closing, most_streams=1)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:
        stream = await client.get("/?live=1")
        gone = await client.get(f"{TOPICS}/nothing?live=1")

    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.text == "retry: 2000\n\nevent: patience\ndata: 5000\n\n"
    assert gone.status_code == 404
    none_left = app_of(world(), tmp_path, closing, most_streams=0)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(none_left), base_url="http://console"
    ) as client:
        assert (await client.get("/?live=1")).status_code == 204


async def test_a_page_that_many_watch_is_made_once_for_all_of_them(
    web: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []

    def link_page(seen: LinkSeen, wanted: Wanted, now_ms: int) -> LinkPage:
        made.append(wanted)
        return pages.link_page(seen, wanted, now_ms)

    monkeypatch.setattr(board, "pages", SimpleNamespace(**{**vars(pages), "link_page": link_page}))
    for path in ("/links/east/west", "/api/links/east/west", "/links/east/west?q=x"):
        assert (await web.get(path)).status_code == 200

    assert len(made) == 2  # who filters sees another one


def test_the_live_part_is_the_page_without_its_frame() -> None:
    values: dict[str, object] = {
        "v": {"error": "a < b", "hint": ""},
        "status": 404,
        "path": "/",
        "params": {},
        "estate_name": "demo",
        "version": "1",
    }

    part = rendering.live("problem.html", values)

    assert "a &lt; b" in part
    assert "<html" not in part
    assert part in rendering.whole("problem.html", values)
    assert json.dumps(part)
