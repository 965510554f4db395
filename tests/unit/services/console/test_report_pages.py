"""What Spark jobs reported, on the page of a link, without brokers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from mirrorfleet.records.reports import Report, ReportKind, encode
from mirrorfleet.records.topics import ControlKind
from tests.unit.records.making import LINK
from tests.unit.services.console.test_web import EVIL, app_of, world


async def test_a_report_says_of_when_it_is_and_shows_nothing_that_nobody_asked_for(
    tmp_path: Path,
) -> None:
    fields: dict[str, object] = {
        "time_ms": 1_700_000_000_000,
        "end": None,
        "missing": 0,
        "worst_lag_ms": 61_000,
        "newer": EVIL,
    }
    made = Report(ReportKind.INTEGRITY, (str(LINK), "orders"), fields)
    told = world()
    told.of.told.apply(ControlKind.REPORTS, *encode(made))
    transport = httpx.ASGITransport(app_of(told, tmp_path, asyncio.Event()))
    async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:
        page = (await client.get("/links/east/west")).text
        answer = (await client.get("/api/links/east/west")).json()

    assert '<span class="pair">time <b>2023-11-14 22:13:20</b></span>' in page
    assert '<span class="pair">missing <b>0</b></span>' in page
    assert '<span class="pair">worst_lag_ms <b>61000</b></span>' in page
    assert '<span class="pair">end <b>' not in page
    assert "<script>" not in page
    assert answer["reports"][0]["fields"] == fields
