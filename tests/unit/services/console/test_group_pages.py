"""Groups on the console's pages, without brokers: what is said before the offset map is read."""

from __future__ import annotations

import asyncio
import html
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.views.groups import GroupFacts
from services.console.board import Board
from tests.unit.services.console.test_web import app_of, world
from tests.unit.views.making import entry

FACTS = GroupFacts(
    source_states={"g": "Stable"},
    source_offsets={"g": {entry(0).source: GroupOffset(50)}},
    target_offsets={"g": {entry(0).target: GroupOffset(45)}},
)


async def answer(*_: object) -> GroupFacts:
    return FACTS


@pytest.mark.parametrize("path", ["groups", "group?name=g"])
async def test_a_group_is_of_unknown_place_until_the_offset_map_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    asker = SimpleNamespace(page=answer, group=answer)
    monkeypatch.setattr(Board, "_asker", lambda *_: asker)
    read = world()
    told = replace(read, index=OffsetIndex(), map_words="1 of 1 slots are still being read")
    transport = httpx.ASGITransport(app_of(told, tmp_path, asyncio.Event()))
    async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:
        before = (await client.get(f"/links/east/west/{path}")).text
        told.index, told.map_words = read.index, ""
        after = (await client.get(f"/links/east/west/{path}")).text
        style = (await client.get("/static/console.css")).text

    assert '<span class="badge place-unknown">unknown</span>' in before
    assert "the place of 1 partition is not known" in before
    assert "in place" not in before
    assert '<span class="badge place-in-place">in place</span>' in after
    assert ".place-unknown" in style


async def test_of_a_group_that_nobody_could_ask_about_no_members_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that takes [] for "stopped" would move a group that works."""

    async def away(*_: object) -> GroupFacts:
        raise DeadlineError("east does not answer.")

    monkeypatch.setattr(Board, "_asker", lambda *_: SimpleNamespace(group=away))
    transport = httpx.ASGITransport(app_of(world(), tmp_path, asyncio.Event()))
    async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:
        found = (await client.get("/api/links/east/west/group?name=g")).json()

    assert (found["trouble"], found["row"]) == ("east does not answer.", None)
    assert (found["source_members"], found["target_members"]) == (None, None)


@pytest.mark.parametrize("name", ["", "a&b=c", "gr\u00fcn/\u2713"])
async def test_each_group_of_the_page_has_a_page_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The classic protocol takes the empty name, too."""
    facts = replace(
        FACTS,
        source_states={name: "Stable"},
        source_offsets={name: FACTS.source_offsets["g"]},
        target_offsets={name: FACTS.target_offsets["g"]},
    )

    async def told(*_: object) -> GroupFacts:
        return facts

    monkeypatch.setattr(Board, "_asker", lambda *_: SimpleNamespace(page=told, group=told))
    transport = httpx.ASGITransport(app_of(world(), tmp_path, asyncio.Event()))
    async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:
        listed = (await client.get("/links/east/west/groups")).text
        link = re.search(r'<a class="main" href="([^"]*/group\?[^"]*)"', listed)
        assert link is not None, listed
        page = await client.get(html.unescape(link[1]))

    assert page.status_code == 200
    assert html.escape(name) in page.text
