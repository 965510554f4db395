"""The connection: order, headers, deadlines, ends, and waiting for re-authentication."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import TYPE_CHECKING

import pytest
import uvloop

from mirrorfleet.core.errors import (
    AuthenticationError,
    ConnectionLostError,
    DeadlineError,
    MirrorfleetError,
    NoMemoryError,
)
from mirrorfleet.kafka.connection import Connection, Renewal
from mirrorfleet.kafka.frames import FrameReader
from tests.faultkit.hold import hold
from tests.unit.kafka.transport import answer, connected, raw

if TYPE_CHECKING:
    from collections.abc import Callable

LONG_S = 60.0


def body(frame: bytes | bytearray, start: int) -> bytes:
    return bytes(frame[start:])


def ask(
    connection: Connection, *parts: bytes | memoryview, api: int = 26, deadline_s: float = LONG_S
) -> asyncio.Future[bytes]:
    return connection.request(api, 3, parts, body, flexible=True, deadline_s=deadline_s)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_deadline_that_has_passed_ends_all_requests_whatever_the_loop(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def both() -> list[bytes | BaseException]:
        connection, _ = connected()
        asked = [ask(connection, deadline_s=-1.0), ask(connection)]
        return await asyncio.gather(*asked, return_exceptions=True)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert [type(end) for end in runner.run(both())] == [DeadlineError, DeadlineError]


async def test_a_request_is_size_key_version_correlation_client_tags_body() -> None:
    connection, transport = connected()
    ask(connection, b"body")
    assert transport.written == (
        b"\0\0\0\x11"  # 17 bytes follow
        b"\0\x1a\0\3"  # EndTxn v3
        b"\0\0\0\1"  # correlation 1
        b"\0\2me"  # client id
        b"\0"  # no tags
        b"body"
    )


async def test_an_old_request_has_no_tags_in_its_header() -> None:
    connection, transport = connected()
    connection.request(17, 1, (b"x",), body, flexible=False, deadline_s=LONG_S)
    assert transport.written.endswith(b"\0\2mex")


async def test_parts_are_handed_to_the_transport_uncopied() -> None:
    connection, transport = connected()
    payload = memoryview(bytearray(b"big"))
    ask(connection, b"head", payload)
    assert transport.parts[2] is payload


async def test_answers_go_to_requests_in_their_order() -> None:
    connection, _ = connected()
    first, second = ask(connection), ask(connection)
    answer(connection, 1, b"\0one")
    answer(connection, 2, b"\0two")
    assert (await first, await second) == (b"one", b"two")
    assert connection.in_flight == 0


async def test_tags_in_an_answers_header_are_skipped() -> None:
    connection, _ = connected()
    asked = ask(connection)
    answer(connection, 1, b"\1\0\2xxrest")
    assert await asked == b"rest"


async def test_the_answer_to_api_versions_never_has_tags() -> None:
    connection, _ = connected()
    asked = ask(connection, api=18)
    answer(connection, 1, b"\0\0")
    assert await asked == b"\0\0"


async def test_an_answer_out_of_order_ends_the_connection() -> None:
    connection, transport = connected()
    asked = ask(connection)
    answer(connection, 9, b"\0")
    with pytest.raises(ConnectionLostError, match="b:9092 answered out of order"):
        await asked
    assert transport.aborted


async def test_an_answer_that_cannot_be_read_ends_the_connection() -> None:
    def refuse(frame: bytes | bytearray, start: int) -> None:
        raise ValueError("nonsense")

    connection, _ = connected()
    asked = connection.request(26, 3, (), refuse, flexible=True, deadline_s=LONG_S)
    behind = ask(connection)
    answer(connection, 1, b"\0")
    with pytest.raises(
        ConnectionLostError, match=r"EndTxn v3 with bytes we cannot read: ValueError\('nonsense'\)"
    ):
        await asked
    with pytest.raises(ConnectionLostError):
        await behind


async def test_an_answer_that_is_read_without_memory_is_waited_for_by_nobody() -> None:
    """It fits, and what is made of it does not."""

    def refuse(frame: bytes | bytearray, start: int) -> None:
        raise MemoryError

    connection, transport = connected()
    asked = connection.request(26, 3, (), refuse, flexible=True, deadline_s=LONG_S)
    answer(connection, 1, b"\0")
    with pytest.raises(NoMemoryError, match="no memory for what b:9092 answered EndTxn v3 with"):
        async with asyncio.timeout(5):
            await asked
    assert transport.aborted


async def test_a_request_for_which_there_is_no_memory_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A part of it may be written: what follows would be taken for the rest."""

    def refuse(_parts: object) -> None:
        raise MemoryError

    connection, transport = connected()
    monkeypatch.setattr(transport, "writelines", refuse)
    asked = ask(connection)
    with pytest.raises(NoMemoryError, match="no memory for a request to b:9092"):
        await asked
    assert (transport.aborted, connection.closed) == (True, True)


async def test_an_answer_for_which_there_is_no_memory_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_self: FrameReader, _count: int) -> list[bytearray]:
        raise MemoryError

    connection, transport = connected()
    asked = ask(connection)
    monkeypatch.setattr(FrameReader, "received", refuse)
    answer(connection, 1, b"\0")
    with pytest.raises(NoMemoryError, match="no memory for an answer of b:9092"):
        await asked
    assert transport.aborted


async def test_a_lost_connection_fails_what_waits_and_refuses_what_comes() -> None:
    connection, _ = connected()
    asked = ask(connection)
    connection.connection_lost(None)
    with pytest.raises(ConnectionLostError, match="closed by the broker"):
        await asked
    with pytest.raises(ConnectionLostError):
        ask(connection)
    assert connection.closed


async def test_a_tls_alert_after_the_handshake_is_about_our_certificate() -> None:
    connection, _ = connected()
    asked = ask(connection)
    connection.connection_lost(ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] alert"))
    with pytest.raises(AuthenticationError, match="refused our certificate"):
        await asked


async def test_a_broker_that_speaks_tls_is_recognised() -> None:
    connection, _ = connected()
    asked = ask(connection)
    raw(connection, b"\x15\x03\x03\0\2\2\x46")
    with pytest.raises(ConnectionLostError, match="speaks TLS and we do not"):
        await asked


async def test_no_answer_in_time_ends_the_connection_for_all() -> None:
    connection, transport = connected()
    patient, hasty = ask(connection), ask(connection, deadline_s=0.0)
    with pytest.raises(DeadlineError, match=r"EndTxn v3 in time \(2 requests were waiting\)"):
        await hasty
    with pytest.raises(DeadlineError):
        await patient
    assert transport.aborted


async def test_an_answer_that_is_still_coming_in_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mirrorfleet.kafka.connection._COMING_S", 2.0)
    connection, _ = connected()
    asked = ask(connection, deadline_s=0.05)
    whole = (4 + 4).to_bytes(4, "big") + (1).to_bytes(4, "big") + b"\0one"
    for part in (whole[:3], whole[3:7], whole[7:]):
        raw(connection, part)
        await hold(0.06, reason="past its deadline")
    assert await asked == b"one"


async def test_an_answer_that_stops_coming_in_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mirrorfleet.kafka.connection._COMING_S", 0.05)
    connection, transport = connected()
    asked = ask(connection, deadline_s=0.05)
    raw(connection, b"\0\0")
    with pytest.raises(DeadlineError):
        await asked
    assert transport.aborted


async def test_no_time_out_counts_while_a_quota_wants_silence() -> None:
    connection, transport = connected()
    before = ask(connection, deadline_s=0.02)
    connection.throttle(150)
    during = ask(connection, deadline_s=0.02)
    began = time.monotonic()
    for waiting in (before, during):
        with pytest.raises(DeadlineError):
            await waiting
    assert 0.15 <= time.monotonic() - began < 1.0
    assert transport.aborted


async def test_a_caller_that_gave_up_does_not_disturb_the_order() -> None:
    connection, _ = connected()
    given_up, second = ask(connection), ask(connection)
    given_up.cancel()
    answer(connection, 1, b"\0one")
    answer(connection, 2, b"\0two")
    assert await second == b"two"


async def test_a_full_write_buffer_makes_ready_wait() -> None:
    connection, _ = connected()
    connection.pause_writing()
    assert connection.congested
    waiting = asyncio.ensure_future(connection.ready())
    await asyncio.sleep(0)
    assert not waiting.done()
    connection.resume_writing()
    await waiting


async def test_the_end_of_the_connection_wakes_who_waits_for_room() -> None:
    connection, _ = connected()
    connection.pause_writing()
    waiting = asyncio.ensure_future(connection.ready())
    await asyncio.sleep(0)
    connection.close()
    with pytest.raises(ConnectionLostError):
        await waiting


async def test_requests_made_while_authenticating_again_are_sent_after_it() -> None:
    connection, transport = connected()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def renew(same: Connection) -> Renewal | None:
        begun.set()
        await go_on.wait()
        same.request_ahead(36, 2, (b"sasl",), body, flexible=True, deadline_s=LONG_S)
        return None

    connection.renewal = Renewal(due=0.0, run=renew)
    renewing = asyncio.ensure_future(connection.ready())
    await begun.wait()
    ask(connection, b"produce")
    assert transport.written == b""
    go_on.set()
    await renewing
    assert transport.written.index(b"sasl") < transport.written.index(b"produce")
    assert connection.renewal is None


async def test_a_refused_renewal_ends_the_connection_and_what_was_held_back() -> None:
    connection, _ = connected()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def renew(_: Connection) -> Renewal | None:
        begun.set()
        await go_on.wait()
        raise AuthenticationError("the token has expired.")

    connection.renewal = Renewal(due=0.0, run=renew)
    renewing = asyncio.ensure_future(connection.ready())
    await begun.wait()
    held = ask(connection)
    go_on.set()
    for waiting in (renewing, held):
        with pytest.raises(MirrorfleetError, match="the token has expired"):
            await waiting


async def test_a_renewal_that_is_given_up_ends_the_connection_and_what_was_held_back() -> None:
    """The broker waits for the next step of it, and would take any other request for that."""
    connection, transport = connected()
    begun = asyncio.Event()

    async def renew(same: Connection) -> Renewal | None:
        same.request_ahead(17, 1, (b"handshake",), body, flexible=False, deadline_s=LONG_S)
        begun.set()
        await asyncio.Event().wait()
        return None

    connection.renewal = Renewal(due=0.0, run=renew)
    renewing, behind = (asyncio.ensure_future(connection.ready()) for _ in range(2))
    await begun.wait()
    held = ask(connection, b"produce")
    renewing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await renewing
    for waiting in (held, behind):
        with pytest.raises(ConnectionLostError, match="re-authentication was given up"):
            await waiting
    assert transport.written.endswith(b"handshake")
    assert transport.aborted
