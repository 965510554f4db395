"""The pages. Each is opened once; with `?live=1` the same address streams its live part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from mirrorfleet import __version__
from mirrorfleet.core.errors import RefusedError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.mapping.asking import MOST_OFFSET, Direction
from mirrorfleet.views.models import Problem, Translation
from services.console import rendering
from services.console.api import NOT_FOUND, OfLink, Part, Partition, build_api, link_of

if TYPE_CHECKING:
    from services.console.board import Board
    from services.console.settings import ConsoleSettings

_UNPROCESSABLE: Final = 422
_NO_CONTENT: Final = 204
View = Callable[[], BaseModel | Awaitable[BaseModel]]


class Pages:
    """Views as answers to a browser."""

    def __init__(
        self, board: Board, estate: str, settings: ConsoleSettings, closing: asyncio.Event
    ) -> None:
        self.board = board
        self._settings, self._closing = settings, closing
        self._fixed = {"estate_name": estate, "version": __version__}
        self._streams = 0

    @property
    def streams(self) -> int:
        """Pages that are kept live now."""
        return self._streams

    async def show(self, request: Request, template: str, view: View) -> Response:
        """The page, or the stream of its live part. Raises: RefusedError, with nothing sent."""
        if "live" in request.query_params:
            if self._streams >= self._settings.most_streams:
                # 204 ends an EventSource for good; the page stays as it was when opened
                return Response(status_code=_NO_CONTENT)
            return await self._stream(request, template, view)
        values = await self._values(request, view)
        return HTMLResponse(rendering.whole(template, values))

    def problem(self, request: Request, error: str, hint: str, status: int) -> HTMLResponse:
        """A page that says what is wrong."""
        values = {**self._common(request), "v": Problem(error=error, hint=hint), "status": status}
        return HTMLResponse(rendering.whole("problem.html", values), status_code=status)

    async def _stream(self, request: Request, template: str, view: View) -> Response:
        if not iscoroutinefunction(view):
            view()  # what asks clusters may take longer than a script waits for an answer

        async def render() -> str:
            try:
                return rendering.live(template, await self._values(request, view))
            except RefusedError as error:
                values = {**self._common(request), "v": Problem(error=error.message), "status": 404}
                return rendering.live("problem.html", values)

        async def counted() -> AsyncIterator[str]:
            self._streams += 1
            try:
                period = self._settings.refresh_s
                async for chunk in rendering.stream(render, self._closing, period):
                    yield chunk
            finally:
                self._streams -= 1

        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(counted(), media_type="text/event-stream", headers=headers)

    async def _values(self, request: Request, view: View) -> dict[str, object]:
        found = view()
        if not isinstance(found, BaseModel):
            found = await found
        return {**self._common(request), "v": found}

    def _common(self, request: Request) -> dict[str, object]:
        params = {name: value for name, value in request.query_params.items() if name != "live"}
        return {**self._fixed, "path": request.url.path, "params": params}


def add_pages(app: FastAPI, pages: Pages) -> None:
    """All of it: pages, their style and script, the API, and words for what is wrong."""
    app.mount("/api", build_api(pages.board))
    app.mount("/static", StaticFiles(directory=rendering.STATIC))
    _add_problems(app, pages)
    _add_views(app, pages)
    _add_groups(app, pages)


def _add_problems(app: FastAPI, pages: Pages) -> None:
    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> Response:
        return pages.problem(request, error.message, error.hint, NOT_FOUND)

    @app.exception_handler(HTTPException)
    async def failed(request: Request, error: HTTPException) -> Response:
        return pages.problem(request, str(error.detail), "", error.status_code)

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        said = [f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors()]
        return pages.problem(request, "; ".join(said), "", _UNPROCESSABLE)


def _add_views(app: FastAPI, pages: Pages) -> None:
    board = pages.board

    @app.get("/")
    async def estate(request: Request) -> Response:
        return await pages.show(request, "estate.html", board.estate)

    @app.get("/events")
    async def events(request: Request, part: Part) -> Response:
        return await pages.show(request, "events.html", lambda: board.events(part))

    @app.get("/links/{source}/{target}")
    async def link(request: Request, link: OfLink, part: Part) -> Response:
        return await pages.show(request, "link.html", lambda: board.link(link, part))

    @app.get("/links/{source}/{target}/topics/{topic}")
    async def topic(request: Request, link: OfLink, topic: str, part: Part) -> Response:
        return await pages.show(request, "topic.html", lambda: board.topic(link, topic, part))

    @app.get("/links/{source}/{target}/topics/{topic}/{partition}")
    async def partition(
        request: Request, link: OfLink, topic: str, partition: Partition
    ) -> Response:
        def view() -> BaseModel:
            return board.partition(link, topic, partition)

        return await pages.show(request, "partition.html", view)


def _add_groups(app: FastAPI, pages: Pages) -> None:
    board = pages.board

    @app.get("/links/{source}/{target}/groups")
    async def groups(request: Request, link: OfLink, part: Part) -> Response:
        return await pages.show(request, "groups.html", partial(board.groups, link, part))

    @app.get("/links/{source}/{target}/group")
    async def group(request: Request, link: OfLink, name: str, part: Part) -> Response:
        return await pages.show(request, "group.html", partial(board.group, link, name, part))

    @app.get("/translate")
    async def translate(request: Request) -> Response:
        return await pages.show(request, "translate.html", partial(_translation, request, pages))


class Asked(BaseModel):
    """The form of `/translate` and its answer; a wrong question is a word on the page."""

    links: list[str]
    problem: Problem | None = None
    answer: Translation | None = None


async def _translation(request: Request, pages: Pages) -> Asked:
    links = [f"{link.source}/{link.target}" for link in pages.board.flows]
    asked = request.query_params
    if "offset" not in asked:
        return Asked(links=links)
    try:
        source, _, target = asked.get("link", "").partition("/")
        at = TopicPartition(asked.get("topic", ""), _number(asked.get("partition", "0")))
        direction = Direction(asked.get("direction", Direction.TO_TARGET))
        offset = _number(asked["offset"])
        answer = await pages.board.translate(link_of(source, target), at, offset, direction)
    except RefusedError as error:
        return Asked(links=links, problem=Problem(error=error.message, hint=error.hint))
    except ValueError:
        problem = Problem(error="partition and offset are whole numbers, direction is one of two.")
        return Asked(links=links, problem=problem)
    return Asked(links=links, answer=answer)


def _number(text: str) -> int:
    """Raises: ValueError, RefusedError."""
    number = int(text.replace(",", ""))
    if not 0 <= number <= MOST_OFFSET:
        raise RefusedError(f"{number} is neither partition nor offset.")
    return number
