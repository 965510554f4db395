"""What ends the service, and what it waits for."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import (
    AuthenticationError,
    BrokerError,
    ConfigError,
    CorruptBatchError,
    DeadlineError,
    MirrorfleetError,
    RefusedError,
    UnknownVersionError,
)
from mirrorfleet.core.ids import ClusterId, SlotNumber
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.catalog import CatalogLink
from services.checkpoint import service as module
from services.checkpoint.service import MAP, CheckpointService
from tests.faultkit.waiting import until
from tests.unit.copying.making import LINK, entry
from tests.unit.standby.test_demotion import Fleet, nothing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

REFUSED = AuthenticationError("SASL as User:copier failed.")
NOT_ALLOWED = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "west")
NO_LEADER = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, "west")
NO_TOPIC = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "west: writing checkpoints")


class Map:
    """A follower of the map with one slot, whose steps fail as long as there is an `error`."""

    def __init__(self) -> None:
        self.error: MirrorfleetError | None = None
        self.behind: frozenset[int] = frozenset()
        self.unread: frozenset[SlotNumber] = frozenset()
        self.leaderless: dict[SlotNumber, BrokerError] = {}
        self.index = OffsetIndex()
        self.slots = 1
        self.steps = 0

    def want(self, slots: object) -> None:
        pass

    async def step(self) -> None:
        await asyncio.sleep(0)
        self.steps += 1
        if self.error is not None:
            raise self.error


class Following:
    """`checkpoint` at its map."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_TROUBLE_S", 0.0)
        self.map = Map()
        self.context = Fleet().context
        self.service = CheckpointService(self.context)
        self.service._map = self.map  # type: ignore[assignment] # what is used of it
        self.service._known.set()

    @asynccontextmanager
    async def loaded(self) -> AsyncIterator[asyncio.Task[None]]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.service._follow_map())
            await until(self.service._loaded.is_set, deadline_s=5, what="the map")
            yield task
            task.cancel()

    async def reason(self, wanted: str) -> None:
        def is_said() -> bool:
            return self.context.health.reasons().get(MAP, "") == wanted

        await until(is_said, deadline_s=5, what=f"the reason {wanted!r}")

    async def fail_with(self, error: MirrorfleetError) -> None:
        async with self.loaded() as task:
            self.map.error = error
            await asyncio.wait((task,), timeout=5)


@pytest.fixture
def following(monkeypatch: pytest.MonkeyPatch) -> Following:
    return Following(monkeypatch)


@pytest.mark.parametrize(
    "error",
    [REFUSED, ConfigError("secret file /run/password: No such file."), NOT_ALLOWED],
    ids=["a refused login", "a file that is away", "a missing right"],
)
async def test_once_the_map_was_read_it_is_waited_for_and_the_reason_is_said(
    following: Following, error: MirrorfleetError
) -> None:
    async with following.loaded():
        following.map.error = error
        await following.reason(str(error))
        steps = following.map.steps
        await until(lambda: following.map.steps > steps, deadline_s=5, what="another try")
        following.map.error = None
        await following.reason("")


@pytest.mark.parametrize("error", [UnknownVersionError("version 9"), CorruptBatchError("disagree")])
async def test_what_is_wrong_with_the_map_itself_ends_the_service(
    following: Following, error: MirrorfleetError
) -> None:
    with pytest.raises(ExceptionGroup) as ended:
        await following.fail_with(error)
    assert ended.value.exceptions == (error,)


async def test_groups_are_set_by_what_was_read_while_a_slot_has_no_leader(
    following: Following,
) -> None:
    unread, read = SlotNumber(0), SlotNumber(1)
    for entry_of in (entry(0, slot=unread), entry(1, slot=read)):
        following.service._view.apply(entry_of)
    following.map.behind = following.map.unread = frozenset({unread})
    following.map.leaderless = {unread: NO_LEADER}

    async with asyncio.TaskGroup() as group:
        task = group.create_task(following.service._follow_map())
        await until(following.service._begun.is_set, deadline_s=5, what="a part of the map")
        await following.reason(str(NO_LEADER))
        assert not following.service._loaded.is_set()
        assert following.service._known_copies(LINK).slots == {read}
        following.map.behind = following.map.unread = frozenset()
        following.map.leaderless = {}
        await until(following.service._loaded.is_set, deadline_s=5, what="the map")
        await following.reason("")
        assert following.service._known_copies(LINK).slots == {unread, read}
        task.cancel()


async def test_groups_wait_for_a_slot_that_is_still_being_read(following: Following) -> None:
    following.map.behind = following.map.unread = frozenset({SlotNumber(0)})

    async with asyncio.TaskGroup() as group:
        task = group.create_task(following.service._follow_map())
        await until(lambda: following.map.steps > 1, deadline_s=5, what="steps")
        assert not following.service._begun.is_set()
        task.cancel()


async def test_a_map_that_is_behind_again_is_said_until_it_is_not(following: Following) -> None:
    async with following.loaded():
        await following.reason("")
        following.map.behind = frozenset(map(SlotNumber, range(7)))
        await following.reason("slots that are not read to their end yet (7): 0, 1, 2, 3, 4")
        following.map.behind = frozenset()
        await following.reason("")


async def test_before_the_map_was_read_a_refused_login_ends_the_service(
    following: Following,
) -> None:
    following.map.error = REFUSED
    with pytest.raises(AuthenticationError):
        await following.service._follow_map()


async def test_before_the_map_was_read_a_target_that_is_away_is_waited_for(
    following: Following,
) -> None:
    following.map.error = DeadlineError("west: no answer.")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(following.service._follow_map())
        await following.reason("west: no answer.")
        assert not following.service._loaded.is_set()
        task.cancel()


async def test_a_source_that_was_another_cluster_is_opened_when_it_is_at_its_address_again(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering = "rebuilt"

    async def meet(cluster: Cluster) -> None:
        # as the first answer does: what was opened once is that cluster until it is forgotten
        cluster._cluster_id = cluster.cluster_id or ClusterId(answering)

    monkeypatch.setattr(Cluster, "open", meet)
    ids = ClusterId("east"), ClusterId("west")
    following.service._view.apply(
        CatalogLink(link=LINK, source_cluster=ids[0], target_cluster=ids[1], slots=())
    )
    with pytest.raises(RefusedError, match="alias east means cluster rebuilt now"):
        await following.service._open(LINK)

    answering = "east"
    await following.service._open(LINK)
    assert following.service._sources[LINK].cluster_id == "east"


async def follow(service: CheckpointService, done: Callable[[], bool], what: str) -> None:
    """Its link, look after look, until so much is done."""
    service._settings = service._settings.model_copy(update={"period_s": 0.0})
    service._begun.set()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(service._follow_link(LINK))
        await until(done, deadline_s=5, what=what)
        task.cancel()


async def test_topics_that_were_deleted_are_made_again_before_the_next_look(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator may clear what MM2 has left."""
    service, done = following.service, list[str]()
    groups = service._links[LINK]

    async def prepare() -> None:
        done.append("prepared")

    async def look(_: object) -> None:
        done.append("looked")
        if done.count("looked") == 2:
            raise NO_TOPIC

    monkeypatch.setattr(service, "_open", nothing)
    monkeypatch.setattr(groups, "prepare", prepare)
    monkeypatch.setattr(groups, "look", look)
    monkeypatch.setattr(groups, "keep", nothing)
    await follow(service, lambda: done.count("looked") >= 4, what="looks that went well")

    assert done[:6] == ["prepared", "looked", "looked", "prepared", "looked", "looked"]
    assert following.context.health.active.held() == {}


async def test_while_a_source_cannot_be_reached_what_is_ours_is_kept_and_the_trouble_is_told(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever becomes of that: the target may be away as well."""
    service, kept = following.service, list[bool]()
    groups, away = service._links[LINK], DeadlineError("east: no answer.")

    async def open_source(_: object) -> None:
        raise away

    async def keep(_: object) -> None:
        reasons = following.context.health.active.held()
        kept.append(reasons == {f"link {LINK}": str(away)})
        raise DeadlineError("west: no answer.")

    monkeypatch.setattr(service, "_open", open_source)
    monkeypatch.setattr(groups, "keep", keep)
    await follow(service, lambda: len(kept) >= 2, what="offsets to be kept")

    assert all(kept)
    assert groups.report.trouble == str(away)
