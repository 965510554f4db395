"""When a session is renewed, and that it outlives a secret that cannot be had for a moment."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.static.primitive import i64Timedelta

from mirrorfleet.config.cluster_settings import Mechanism, Protocol, Security
from mirrorfleet.core.errors import AuthenticationError, ConfigError, ConnectionLostError
from mirrorfleet.kafka.codec import encode
from mirrorfleet.kafka.connection import Connection
from mirrorfleet.kafka.frames import Frame
from mirrorfleet.kafka.sasl import SaslClient, renewed_after
from tests.faultkit.waiting import until
from tests.unit.kafka.transport import MemoryTransport, answer, connected

if TYPE_CHECKING:
    from pathlib import Path

SESSION_S: Final = 3_600.0


@pytest.mark.parametrize(
    ("lifetime_s", "earliest_s", "latest_s"),
    [
        (1.0, 0.85, 0.95),
        (2.0, 1.5, 1.5),
        (5.0, 2.5, 2.5),
        (20.0, 10.0, 10.0),
        (60.0, 50.0, 50.0),
        (3_600.0, 3_060.0, 3_420.0),
    ],
)
def test_a_session_is_renewed_in_time_for_what_is_in_flight_also_when_it_is_short(
    lifetime_s: float, earliest_s: float, latest_s: float
) -> None:
    assert renewed_after(lifetime_s, 0.85) == pytest.approx(earliest_s)
    assert renewed_after(lifetime_s, 0.95) == pytest.approx(latest_s)


# -- a connection of which the broker is played


class Lots:
    """Dice that give what lies so far between the ends."""

    def __init__(self, part: float = 0.5) -> None:
        self._part = part

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self._part


class Source:
    """A provider of tokens that does as it is told."""

    def __init__(self) -> None:
        self.away: ConnectionLostError | None = None
        self.hangs = False
        self.beyond_s: list[float] = []
        self.dropped: list[str] = []

    def refused(self, token: str) -> None:
        self.dropped.append(token)

    async def token(self, beyond_s: float = 0.0) -> str:
        self.beyond_s.append(beyond_s)
        if self.hangs:
            await asyncio.Event().wait()
        if self.away is not None:
            raise self.away
        return "t"

    async def newest(self) -> str:
        return await self.token()


def client(tokens: Source | None, part: float = 0.5, **more: str) -> SaslClient:
    """A client of OAUTHBEARER, or of PLAIN without a provider."""
    mechanism = Mechanism.PLAIN if "username" in more else Mechanism.OAUTHBEARER
    security = Security(
        protocol=Protocol.SASL_SSL,
        mechanism=mechanism,
        **more,  # type: ignore[arg-type] # only strings
    )
    return SaslClient(security, tokens, Lots(part))


async def accept(
    connection: Connection,
    mechanism: str,
    lifetime_s: float = SESSION_S,
    code: ErrorCode = ErrorCode.none,
) -> None:
    """Answer handshake and token, which are the next two requests."""
    handshake = SaslHandshakeResponse(error_code=ErrorCode.none, mechanisms=(mechanism,))
    authenticated = SaslAuthenticateResponse(
        error_code=code,
        error_message=None,
        auth_bytes=b"",
        session_lifetime=i64Timedelta.parse(dt.timedelta(seconds=lifetime_s)),
    )
    for body in (encode(handshake), b"\0" + encode(authenticated)):
        await until(lambda: connection.in_flight == 1, deadline_s=5, what="a step of the login")
        answer(connection, connection._correlation, body)


async def logged_in(
    sasl: SaslClient, mechanism: str = "OAUTHBEARER", lifetime_s: float = SESSION_S
) -> tuple[Connection, MemoryTransport]:
    """A connection that is authenticated; what was written for that is forgotten."""
    connection, transport = connected()
    login = asyncio.ensure_future(sasl.authenticate(connection, 10))
    await accept(connection, mechanism, lifetime_s)
    await login
    transport.parts.clear()
    return connection, transport


def make_due(connection: Connection) -> None:
    """Have the time of its renewal come."""
    assert connection.renewal is not None
    connection.renewal = connection.renewal._replace(due=0.0)


def produce(connection: Connection) -> asyncio.Future[None]:
    def read(_: Frame, __: int) -> None:
        pass

    return connection.request(0, 12, (b"produce",), read, flexible=True, deadline_s=30)


def due_in_s(connection: Connection) -> float:
    assert connection.renewal is not None
    return connection.renewal.due - asyncio.get_running_loop().time()


# -- renewals


@pytest.mark.parametrize(("part", "after_s"), [(0.0, 3_060), (1.0, 3_420)])
async def test_sessions_that_begin_together_are_not_renewed_together(
    part: float, after_s: float
) -> None:
    connection, _ = await logged_in(client(Source(), part))
    assert due_in_s(connection) == pytest.approx(after_s, abs=5)


async def check_put_off(connection: Connection, transport: MemoryTransport) -> None:
    """Its renewal fails, and nothing but that: it is for later, and the session goes on."""
    make_due(connection)
    renewing = asyncio.ensure_future(connection.ready())
    await asyncio.sleep(0)
    produce(connection)
    async with asyncio.timeout(3):
        await renewing
    assert not connection.closed
    assert transport.written.endswith(b"produce")
    assert transport.written.count(b"me") == 1  # our client id, in the head of each request
    assert 1 < due_in_s(connection) < 10


async def test_a_session_goes_on_while_the_source_of_tokens_is_away() -> None:
    tokens = Source()
    connection, transport = await logged_in(client(tokens))
    tokens.away = ConnectionLostError("token endpoint: status 503.")
    await check_put_off(connection, transport)
    tokens.away = None
    make_due(connection)
    renewing = asyncio.ensure_future(connection.ready())
    answer(connection, connection._correlation, b"\0")  # of what was produced
    await accept(connection, "OAUTHBEARER")
    await renewing
    assert due_in_s(connection) > SESSION_S / 2


async def test_a_session_goes_on_while_the_source_of_tokens_hangs() -> None:
    tokens = Source()
    connection, transport = await logged_in(client(tokens))
    tokens.hangs = True
    await check_put_off(connection, transport)


@pytest.mark.parametrize("text", [None, ""], ids=["missing", "empty"])
async def test_a_session_goes_on_while_its_token_file_is_written_anew(
    tmp_path: Path, text: str | None
) -> None:
    file = tmp_path / "token"
    file.write_text("t")
    connection, transport = await logged_in(client(None, token_file=str(file)))
    file.unlink()
    if text is not None:
        file.write_text(text)
    await check_put_off(connection, transport)


@pytest.mark.parametrize("text", [None, ""], ids=["missing", "empty"])
async def test_a_session_goes_on_while_its_password_file_is_written_anew(
    tmp_path: Path, text: str | None
) -> None:
    file = tmp_path / "password"
    file.write_text("p")
    sasl = client(None, username="u", password_file=str(file))
    connection, transport = await logged_in(sasl, "PLAIN")
    file.unlink()
    if text is not None:
        file.write_text(text)
    await check_put_off(connection, transport)


async def test_a_session_that_is_about_to_end_without_a_secret_ends_with_the_reason() -> None:
    tokens = Source()
    connection, transport = await logged_in(client(tokens), lifetime_s=0.5)
    tokens.away = ConnectionLostError("token endpoint: status 503.")
    make_due(connection)
    with pytest.raises(ConnectionLostError, match="status 503"):
        await connection.ready()
    assert connection.closed
    assert transport.written == b""


async def test_who_gives_up_waiting_for_a_token_leaves_the_connection_to_the_others() -> None:
    tokens = Source()
    connection, _ = await logged_in(client(tokens), lifetime_s=0.5)
    tokens.hangs = True
    make_due(connection)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await connection.ready()
    assert not connection.closed
    tokens.hangs = False
    renewing = asyncio.ensure_future(connection.ready())
    await accept(connection, "OAUTHBEARER")
    await renewing


@pytest.mark.parametrize(
    "make",
    [
        lambda: client(None, token_file="/nowhere/token"),
        lambda: client(None, username="u", password_file="/nowhere/password"),
    ],
)
async def test_a_first_login_without_a_secret_fails_before_it_begins(
    make: Callable[[], SaslClient],
) -> None:
    connection, transport = connected()
    with pytest.raises(ConfigError, match="secret file /nowhere"):
        async with asyncio.timeout(3):
            await make().authenticate(connection, 10)
    assert transport.written == b""


# -- what a provider of tokens is told


async def test_a_renewal_asks_for_a_token_that_outlasts_what_is_left_of_the_session() -> None:
    tokens = Source()
    connection, _ = await logged_in(client(tokens))
    make_due(connection)
    renewing = asyncio.ensure_future(connection.ready())
    await accept(connection, "OAUTHBEARER")
    await renewing
    assert tokens.beyond_s == [0.0, pytest.approx(SESSION_S, abs=5)]
    assert not tokens.dropped


async def test_a_token_that_a_broker_refuses_is_told_to_its_source() -> None:
    tokens, (connection, _) = Source(), connected()
    login = asyncio.ensure_future(client(tokens).authenticate(connection, 10))
    await accept(connection, "OAUTHBEARER", code=ErrorCode.sasl_authentication_failed)
    with pytest.raises(AuthenticationError):
        await login
    assert tokens.dropped == ["t"]
