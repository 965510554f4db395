"""Pages as HTML: every value is escaped, whatever clusters call their topics and groups.

A page is a template with a block `live`: the whole page when it is opened, then that block again
and again as server-sent events (`stream`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mirrorfleet.views import format as words
from mirrorfleet.views import picture

FOLDER: Final = Path(__file__).parent
STATIC: Final = FOLDER / "static"
RETRY: Final = "retry: 2000\n\n"
"""Milliseconds after which a browser connects again."""
STILL: Final = "event: still\ndata: -\n\n"
"""Nothing new. An event: a script never sees a comment, and silence is a dead connection."""
STILL_S: Final = 1.0
"""So often it is said while a page takes long to make: clusters may have to be asked for it."""
PATIENCE_S: Final = 5.0
"""For the next event, at least: then the page says that it is not live, and connects again."""

Values = Mapping[str, object]


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "count": words.count,
        "short": words.short,
        "size": words.size,
        "span": words.span,
        "moment": words.moment,
        "plural": words.plural,
        "part": lambda text: quote(str(text), safe=""),
    }
    environment.globals |= {"topology": picture.topology, "ruler": picture.ruler, "query": query}
    return environment


def query(**values: object) -> str:
    """`?a=1&b=2`, without what is empty."""
    kept = {name: value for name, value in values.items() if value not in (None, "")}
    return f"?{urlencode(kept)}" if kept else "?"


_PAGES: Final = _environment()


def whole(template: str, values: Values) -> str:
    """The page."""
    return _PAGES.get_template(template).render(values)


def live(template: str, values: Values) -> str:
    """Only what changes while it is open."""
    page = _PAGES.get_template(template)
    return "".join(page.blocks["live"](page.new_context(dict(values))))


def event(html: str) -> str:
    """A server-sent event `page` (one `data:` a line, as the standard asks)."""
    lines = "".join(f"data: {line}\n" for line in html.splitlines())
    return f"event: page\n{lines}\n"


async def stream(
    render: Callable[[], Awaitable[str]], closing: asyncio.Event, period_s: float
) -> AsyncIterator[str]:
    """The page each time it has changed, until the service closes or the reader goes."""
    yield RETRY
    yield f"event: patience\ndata: {max(PATIENCE_S, 3 * period_s) * 1000:.0f}\n\n"
    last = ""
    while not closing.is_set():
        making = asyncio.ensure_future(render())
        try:
            while not (await asyncio.wait({making}, timeout=STILL_S))[0]:
                yield STILL
        finally:
            making.cancel()  # nobody reads on
        html = making.result()
        yield event(html) if html != last else STILL
        last = html
        try:
            async with asyncio.timeout(period_s):
                await closing.wait()
        except TimeoutError:
            continue
