"""A live page: what is sent when, and never silence."""

from __future__ import annotations

import asyncio

import pytest

from services.console import rendering


async def test_a_stream_sends_what_has_changed_and_ends_when_the_service_does() -> None:
    closing = asyncio.Event()
    states = iter(["<p>1</p>", "<p>1</p>", "<p>2</p>\n<p>3</p>"])

    async def render() -> str:
        found = next(states)
        if "2" in found:
            closing.set()
        return found

    sent = [chunk async for chunk in rendering.stream(render, closing, 0.01)]

    assert sent == [
        "retry: 2000\n\n",
        "event: patience\ndata: 5000\n\n",
        "event: page\ndata: <p>1</p>\n\n",
        "event: still\ndata: -\n\n",
        "event: page\ndata: <p>2</p>\ndata: <p>3</p>\n\n",
    ]


async def test_a_stream_is_not_silent_while_a_page_takes_long_to_make(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rendering, "STILL_S", 0.01)
    closing, asked = asyncio.Event(), asyncio.Event()

    async def render() -> str:
        await asked.wait()
        closing.set()
        return "<p>1</p>"

    sent = []
    async for chunk in rendering.stream(render, closing, 0.01):
        sent.append(chunk)
        if chunk == rendering.STILL:
            asked.set()

    assert sent[2] == rendering.STILL
    assert sent[-1] == "event: page\ndata: <p>1</p>\n\n"
