"""What Faust connects with, renewed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, cast

import faust
import pytest

from mirrorfleet.config.cluster_settings import ClusterSettings, Mechanism, Protocol, Security
from mirrorfleet.core.errors import ConnectionLostError
from mirrorfleet.core.ids import ClusterAlias, FleetName
from mirrorfleet.kafka.tls import FileVersions, file_versions
from services.install.authority import Authority
from services.lag import stream as module
from services.lag.stream import ProgressStream
from tests.faultkit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from faust.transport.drivers import aiokafka as driver


class App:
    """A Faust that has nothing to say."""

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def wait_until_stopped(self) -> None:
        await asyncio.Event().wait()


class World:
    """A stream, its certificate and the next one, unless it has something else."""

    def __init__(self, directory: Path, security: Security | None = None) -> None:
        authority = Authority(directory)
        self.cert, self.next = (
            authority.issue(name, (), timedelta(days=1)) for name in ("first", "second")
        )
        self.key = self.cert.with_suffix(".key")
        security = security or Security(
            protocol=Protocol.SSL,
            ca_file=str(authority.ca_file),
            cert_file=str(self.cert),
            key_file=str(self.key),
        )
        settings = ClusterSettings(
            alias=ClusterAlias("west"), bootstrap=("127.0.0.1:1",), security=security
        )
        self.stream = ProgressStream(settings, FleetName("m"), session_s=6.0, request_s=6.0)
        self.stalled = asyncio.Event()

    async def run(self) -> None:
        await self.stream.run(nothing, nothing, self.watch)

    async def watch(self) -> None:
        """Until the stream is found to stand still."""
        await self.stalled.wait()
        raise ConnectionLostError("nothing comes any more")


def nothing(*_: object) -> None:
    """Neither records nor slots matter."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_the_stream_begins_anew_when_certificate_and_key_are_renewed_and_not_between(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Security] = []

    def look(security: Security) -> FileVersions:
        looks.append(security)
        return file_versions(security)

    monkeypatch.setattr(module, "LOOK_S", 0.01)
    monkeypatch.setattr(module, "file_versions", look)
    monkeypatch.setattr(ProgressStream, "_app", lambda *_: App())

    async with asyncio.TaskGroup() as group:
        task = group.create_task(awaited_end(world))
        await another_look(looks)
        world.next.replace(world.cert)
        await another_look(looks)
        assert not task.done()
        world.next.with_suffix(".key").replace(world.key)
        await until(task.done, deadline_s=5, what="the end of the stream")
    assert "the password or a certificate was changed" in task.result()


async def awaited_end(world: World) -> str:
    with pytest.raises(ConnectionLostError) as ended:
        await world.run()
    return str(ended.value)


async def another_look(looks: list[Security]) -> None:
    """More than a stream has that ends with the first of them."""
    seen = len(looks)
    await until(lambda: len(looks) > seen + 3, deadline_s=5, what="another look")


async def test_the_stream_goes_on_while_its_password_file_is_empty_and_begins_anew_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Security] = []
    read, file = Security.read_password, tmp_path / "password"
    security = Security(
        protocol=Protocol.SASL_PLAINTEXT,
        mechanism=Mechanism.PLAIN,
        username="mirror",
        password_file=str(file),
    )

    def look(security: Security) -> str:
        looks.append(security)
        return read(security)

    monkeypatch.setattr(module, "LOOK_S", 0.01)
    monkeypatch.setattr(Security, "read_password", look)
    monkeypatch.setattr(ProgressStream, "_app", lambda *_: App())
    world = World(tmp_path, security)
    file.write_text("first")

    async with asyncio.TaskGroup() as group:
        task = group.create_task(awaited_end(world))
        await another_look(looks)
        file.write_text("")
        await another_look(looks)
        assert not task.done()
        file.write_text("second")
        await until(task.done, deadline_s=5, what="the end of the stream")
    assert "the password or a certificate was changed" in task.result()


async def test_a_stream_that_begins_while_a_file_is_replaced_is_begun_again_later(
    world: World,
) -> None:
    world.key.unlink()
    assert "security.cert_file" in await awaited_end(world)


async def test_a_stream_that_stands_still_without_an_error_is_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProgressStream, "_app", lambda *_: App())
    world.stalled.set()

    assert "nothing comes any more" in await awaited_end(world)


async def test_who_is_ended_while_faust_says_goodbye_ends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its library takes the cancellation of whoever waits for that of one of its own parts."""
    stopping = asyncio.Event()

    class Polite(App):
        async def stop(self) -> None:
            stopping.set()
            with suppress(asyncio.CancelledError):
                await asyncio.shield(asyncio.sleep(0.2))

    monkeypatch.setattr(ProgressStream, "_app", lambda *_: Polite())
    world.stalled.set()
    running = asyncio.create_task(world.run())
    await stopping.wait()
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running


async def test_slots_that_are_added_are_seen_as_soon_as_new_topics(tmp_path: Path) -> None:
    settings = ClusterSettings(alias=ClusterAlias("west"), bootstrap=("127.0.0.1:1",))
    stream = ProgressStream(settings, FleetName("m"), session_s=6.0, request_s=6.0)

    app = cast("faust.App", stream._app(str(tmp_path), nothing, nothing))

    assert app.conf.consumer_metadata_max_age_ms == 10_000


async def test_a_faust_that_has_crashed_gives_no_slots_any_more(tmp_path: Path) -> None:
    settings = ClusterSettings(alias=ClusterAlias("west"), bootstrap=("127.0.0.1:1",))
    stream = ProgressStream(settings, FleetName("m"), session_s=6.0, request_s=6.0)
    given: list[object] = []
    app = cast("faust.App", stream._app(str(tmp_path), nothing, given.append))
    ours = {faust.types.TP("__mirrorfleet.m.progress", 3)}

    await app.on_partitions_assigned.send(ours)
    assert given == [frozenset({3})]

    await app.crash(ConnectionError())
    await app.on_partitions_assigned.send(ours)
    assert given == [frozenset({3})]


async def test_a_consumer_that_cannot_say_goodbye_does_not_hold_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ClusterSettings(alias=ClusterAlias("west"), bootstrap=("127.0.0.1:1",))
    stream = ProgressStream(settings, FleetName("m"), session_s=6.0, request_s=6.0)
    app = cast("faust.App", stream._app(str(tmp_path), nothing, nothing))
    consuming = cast("driver.Consumer", app.consumer)._thread
    monkeypatch.setattr(consuming, "on_start", connected)

    await consuming.start()
    try:
        assert consuming._thread is not None
        assert consuming._thread.daemon
    finally:
        await consuming.stop()


async def connected() -> None:
    """There is no broker."""


async def test_a_group_that_cannot_be_joined_is_tried_again_with_what_is_known_by_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faust asks for ever: with the first password, at the first addresses."""

    class Hanging(App):
        async def start(self) -> None:
            await asyncio.Event().wait()

    given: list[object] = []
    monkeypatch.setattr(module, "START_S", 0.01)
    monkeypatch.setattr(ProgressStream, "_app", lambda *_: Hanging())

    with pytest.raises(ConnectionLostError):
        async with asyncio.timeout(5):
            await world.stream.run(nothing, given.append, world.watch)
    assert given == [None]
