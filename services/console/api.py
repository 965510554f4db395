"""`/api/...`: the views of the pages as JSON; documented at `/api/openapi.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from fastapi import Depends, FastAPI, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from mirrorfleet import __version__
from mirrorfleet.core.errors import RefusedError
from mirrorfleet.core.ids import ClusterAlias, Link, TopicPartition
from mirrorfleet.mapping.asking import MOST_OFFSET, Direction
from mirrorfleet.views.models import (
    EstateView,
    EventsPage,
    GroupPage,
    GroupsPage,
    LinkPage,
    PartitionPage,
    Problem,
    TopicPage,
    Translation,
)
from mirrorfleet.views.pages import Wanted
from mirrorfleet.views.paging import MOST, PAGE

if TYPE_CHECKING:
    from services.console.board import Board

NOT_FOUND: Final = 404
_TEXT: Final = """What the pages of the console show, as JSON. Reading needs nothing; every other
method needs `Authorization: Bearer TOKEN`. Times are milliseconds; null is "not known"."""

Partition = Annotated[int, Path(ge=0, le=2**31 - 1)]
Offset = Annotated[int, Query(ge=0, le=MOST_OFFSET)]


def link_of(source: str, target: str) -> Link:
    """The link that a path names."""
    return Link(ClusterAlias(source), ClusterAlias(target))


def part_of(
    q: Annotated[str, Query(max_length=1_000, description="Only names with this in them.")] = "",
    show: Annotated[
        str, Query(pattern="^(problems)?$", description="`problems`: leave out what is well.")
    ] = "",
    page: Annotated[int, Query(ge=1, le=1_000_000, description="Page, from 1.")] = 1,
    size: Annotated[int, Query(ge=1, le=MOST, description="Entries of a page.")] = PAGE,
) -> Wanted:
    """Which part of a list is asked for."""
    return Wanted(text=q, show=show, number=page, size=size)


OfLink = Annotated[Link, Depends(link_of)]
Part = Annotated[Wanted, Depends(part_of)]


def build_api(board: Board) -> FastAPI:
    """The application under `/api`."""
    app = FastAPI(
        title="mirrorfleet console",
        version=__version__,
        description=_TEXT,
        docs_url=None,
        redoc_url=None,
        responses={NOT_FOUND: {"model": Problem, "description": "There is no such thing."}},
    )

    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: RefusedError) -> Response:
        return JSONResponse({"error": error.message, "hint": error.hint}, status_code=NOT_FOUND)

    @app.post("/access", status_code=204)
    async def access() -> None:
        """Answers 204 when the token is right: for scripts that want to know before they begin."""

    _add_views(app, board)
    _add_groups(app, board)
    return app


def _add_views(app: FastAPI, board: Board) -> None:
    @app.get("/estate")
    async def estate() -> EstateView:
        """Everything at a glance."""
        return board.estate()

    @app.get("/events")
    async def events(part: Part) -> EventsPage:
        """What happened, newest first."""
        return board.events(part)

    @app.get("/links/{source}/{target}")
    async def link(link: OfLink, part: Part) -> LinkPage:
        """A link with its topics."""
        return board.link(link, part)

    @app.get("/links/{source}/{target}/topics/{topic}")
    async def topic(link: OfLink, topic: str, part: Part) -> TopicPage:
        """A topic with its partitions."""
        return board.topic(link, topic, part)

    @app.get("/links/{source}/{target}/topics/{topic}/{partition}")
    async def partition(link: OfLink, topic: str, partition: Partition) -> PartitionPage:
        """Why a partition is where it is."""
        return board.partition(link, topic, partition)


def _add_groups(app: FastAPI, board: Board) -> None:
    @app.get("/links/{source}/{target}/groups")
    async def groups(link: OfLink, part: Part) -> GroupsPage:
        """Groups on both sides."""
        return await board.groups(link, part)

    @app.get("/links/{source}/{target}/group")
    async def group(link: OfLink, name: str, part: Part) -> GroupPage:
        """A group, offset by offset."""
        return await board.group(link, name, part)

    @app.get("/links/{source}/{target}/translate")
    async def translate(
        link: OfLink,
        topic: str,
        partition: Annotated[int, Query(ge=0, le=2**31 - 1)],
        offset: Offset,
        direction: Direction = Direction.TO_TARGET,
    ) -> Translation:
        """One offset on the other side. `topic` is the target's on the way back."""
        return await board.translate(link, TopicPartition(topic, partition), offset, direction)
