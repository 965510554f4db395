"""Client credentials against an endpoint that says what it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError

from mirrorfleet.config.cluster_settings import ClusterSettings, Mechanism, Protocol, Security
from mirrorfleet.core.errors import (
    AuthenticationError,
    ConfigError,
    ConnectionLostError,
    DeadlineError,
    MirrorfleetError,
)
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.kafka.aiokafka_options import client_options, token_trouble, tokens_of
from mirrorfleet.kafka.tokens import ClientCredentialsTokens
from tests.faultkit.waiting import until


class Endpoint:
    """An HTTP server of one page; keeps what it was sent."""

    def __init__(self) -> None:
        self.status = "200 OK"
        self.body = '{"access_token": "a.b.c", "expires_in": 60}'
        self.head = ""
        self.form = ""
        self.url = ""
        self.answers = True
        self.asked = 0
        self.left = asyncio.Event()
        self.serving = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        self.serving += 1
        try:
            await self._serve(reader, writer)
        finally:
            self.serving -= 1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.answers:
            await reader.read(-1)  # until the client has gone
            writer.close()
            await writer.wait_closed()
            self.left.set()
            return
        self.head = (await reader.readuntil(b"\r\n\r\n")).decode()
        (length,) = (
            int(line.partition(":")[2])
            for line in self.head.splitlines()
            if line.lower().startswith("content-length")
        )
        self.form = (await reader.readexactly(length)).decode()
        body = self.body.replace("NUMBER", str(self.asked))
        writer.write(f"HTTP/1.1 {self.status}\r\nConnection: close\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    made = Endpoint()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/oauth/token?tenant=1"
    yield made
    await until(lambda: not made.serving, deadline_s=5, what="clients that leave")
    server.close()
    await server.wait_closed()


def tokens(url: str) -> ClientCredentialsTokens:
    security = Security(
        token_url=url, token_client_id="mirror", token_client_secret="s:ecret", token_scope="kafka"
    )
    return ClientCredentialsTokens(security, url)


async def test_a_token_is_asked_for_as_rfc_6749_says(endpoint: Endpoint) -> None:
    assert await tokens(endpoint.url).token() == "a.b.c"
    assert endpoint.head.startswith("POST /oauth/token?tenant=1 HTTP/1.1\r\n")
    assert "Authorization: Basic bWlycm9yOnMlM0FlY3JldA==\r\n" in endpoint.head  # mirror:s%3Aecret
    assert "Content-Type: application/x-www-form-urlencoded\r\n" in endpoint.head
    assert endpoint.form == "grant_type=client_credentials&scope=kafka"


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        ("400 Bad Request", "{}", "status 400"),
        ("401 Unauthorized", "{}", "status 401"),
        ("302 Found", "", "status 302"),
        ("200 OK", "{}", "KeyError"),
        ("200 OK", "not json", "JSONDecodeError"),
        ("200 OK", "[]", "TypeError"),
    ],
)
async def test_no_token_names_endpoint_and_client_and_never_the_secret(
    endpoint: Endpoint, status: str, body: str, why: str
) -> None:
    endpoint.status, endpoint.body = status, body
    with pytest.raises(AuthenticationError, match=why) as caught:
        await tokens(endpoint.url).token()
    assert endpoint.url in str(caught.value)
    assert "client mirror" in str(caught.value)
    assert "s:ecret" not in str(caught.value)


def check_away(error: MirrorfleetError, url: str) -> None:
    """It passes by itself; and it says what is away and where, never the secret."""
    assert error.retriable
    assert f"{url}: no token for client mirror" in str(error)
    assert "s:ecret" not in str(error)


@pytest.mark.parametrize(
    "status", ["429 Too Many Requests", "500 Internal Server Error", "503 Service Unavailable"]
)
async def test_an_endpoint_that_is_busy_or_broken_is_asked_again(
    endpoint: Endpoint, status: str
) -> None:
    endpoint.status = status
    with pytest.raises(ConnectionLostError, match=f"status {status[:3]}") as caught:
        await tokens(endpoint.url).token()
    check_away(caught.value, endpoint.url)


async def test_an_endpoint_that_is_not_there_is_named_and_asked_again() -> None:
    url = "http://127.0.0.1:1/token"
    with pytest.raises(ConnectionLostError) as caught:
        await tokens(url).token()
    check_away(caught.value, url)


async def test_an_answer_that_is_no_http_is_named_and_asked_for_again(endpoint: Endpoint) -> None:
    endpoint.status = "nonsense"
    with pytest.raises(ConnectionLostError, match="BadStatusLine") as caught:
        await tokens(endpoint.url).token()
    check_away(caught.value, endpoint.url)


async def test_an_endpoint_that_does_not_answer_is_given_up_in_time_and_asked_again(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirrorfleet.kafka.tokens._HTTP_TIMEOUT_S", 0.2)
    endpoint.answers = False
    with pytest.raises(DeadlineError, match=r"no answer within 0.2 s") as caught:
        await tokens(endpoint.url).token()
    check_away(caught.value, endpoint.url)
    await endpoint.left.wait()


async def test_a_ca_file_that_is_not_there_is_a_config_error() -> None:
    url = "https://127.0.0.1:1/token"
    security = Security(
        token_url=url, token_client_id="a", token_client_secret="b", ca_file="/nowhere/ca.pem"
    )
    with pytest.raises(ConfigError, match=r"ca_file \(/nowhere/ca.pem\): No such file"):
        await ClientCredentialsTokens(security, url).token()


async def test_only_http_and_https_are_spoken() -> None:
    with pytest.raises(ConfigError, match="is not http or https"):
        await tokens("file:///etc/passwd").token()


# -- one token for all connections

NUMBERED = '{"access_token": "NUMBER", "expires_in": 60}'


def grow_older(provider: ClientCredentialsTokens, seconds: float) -> None:
    """Have its token been asked for so long ago."""
    kept = provider._kept
    assert kept is not None
    provider._kept = kept._replace(since=kept.since - seconds, ends=kept.ends - seconds)


async def test_fifty_logins_at_once_make_one_request_and_those_after_them_none(
    endpoint: Endpoint,
) -> None:
    endpoint.body, provider = NUMBERED, tokens(endpoint.url)
    assert set(await asyncio.gather(*(provider.token() for _ in range(50)))) == {"1"}
    assert await provider.token() == "1"
    assert endpoint.asked == 1


async def test_a_token_is_asked_for_anew_after_most_of_its_life_or_to_outlast_a_session(
    endpoint: Endpoint,
) -> None:
    endpoint.body, provider = NUMBERED, tokens(endpoint.url)
    await provider.token()
    grow_older(provider, 30)
    assert await provider.token(beyond_s=10) == "1"
    assert await provider.token(beyond_s=30) == "2"
    assert await provider.token(beyond_s=30) == "2"
    grow_older(provider, 50)
    assert await provider.token() == "3"


async def test_while_the_endpoint_is_away_a_token_is_used_as_long_as_it_lasts(
    endpoint: Endpoint,
) -> None:
    endpoint.body, provider = NUMBERED, tokens(endpoint.url)
    await provider.token()
    grow_older(provider, 50)
    endpoint.status = "503 Service Unavailable"
    assert await provider.token() == "1"
    with pytest.raises(ConnectionLostError, match="status 503"):
        await provider.token(beyond_s=10)  # a session that ends with it gains nothing
    grow_older(provider, 8)
    with pytest.raises(ConnectionLostError, match="status 503"):
        await provider.token()


async def test_while_the_endpoint_hangs_a_token_is_used_and_no_more_requests_are_made(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirrorfleet.kafka.tokens._HTTP_TIMEOUT_S", 3.0)
    endpoint.body, provider = NUMBERED, tokens(endpoint.url)
    await provider.token()
    grow_older(provider, 50)
    endpoint.answers = False
    async with asyncio.timeout(2):
        assert await provider.token() == "1"
        assert await provider.token() == "1"
    assert endpoint.asked == 2
    await endpoint.left.wait()


async def test_endpoints_that_hang_do_not_delay_another(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty: more than threads in the pool that asyncio shares; all of them hang before it asks."""
    monkeypatch.setattr("mirrorfleet.kafka.tokens._HTTP_TIMEOUT_S", 10.0)
    endpoint.answers = False
    stuck = [asyncio.ensure_future(tokens(endpoint.url).token()) for _ in range(40)]
    await until(lambda: endpoint.asked >= len(stuck), deadline_s=5, what="all of them to hang")
    endpoint.answers = True
    async with asyncio.timeout(4):
        assert await tokens(endpoint.url).token() == "a.b.c"
    await asyncio.wait(stuck)
    assert {type(each.exception()) for each in stuck} == {DeadlineError}


async def test_a_token_that_was_refused_is_not_used_again(endpoint: Endpoint) -> None:
    endpoint.body, provider = NUMBERED, tokens(endpoint.url)
    refused = await provider.token()
    provider.refused(refused)
    assert await provider.token() == "2"
    provider.refused(refused)  # by another connection, which tells it late
    assert await provider.token() == "2"


async def test_a_token_of_which_nobody_says_how_long_it_lasts_is_used_once(
    endpoint: Endpoint,
) -> None:
    endpoint.body, provider = '{"access_token": "NUMBER"}', tokens(endpoint.url)
    assert [await provider.token(), await provider.token()] == ["1", "2"]


async def test_who_gives_up_leaves_the_request_to_the_others(endpoint: Endpoint) -> None:
    provider = tokens(endpoint.url)
    first, second = (asyncio.ensure_future(provider.token()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == "a.b.c"
    assert first.cancelled()
    assert endpoint.asked == 1


# -- aiokafka, which tells of no refusal


def by_token(url: str) -> ClusterSettings:
    security = Security(
        protocol=Protocol.SASL_PLAINTEXT,
        mechanism=Mechanism.OAUTHBEARER,
        token_url=url,
        token_client_id="mirror",
        token_client_secret="s",
    )
    return ClusterSettings(alias=ClusterAlias("west"), bootstrap=("b:1",), security=security)


def source_of(options: Mapping[str, object]) -> AbstractTokenProvider:
    source = options["sasl_oauth_token_provider"]
    assert isinstance(source, AbstractTokenProvider)
    return source


async def test_aiokafka_which_tells_of_no_refusal_gets_a_new_token_each_time(
    endpoint: Endpoint,
) -> None:
    endpoint.body = NUMBERED
    source = source_of(client_options(by_token(endpoint.url)))
    assert [await source.token(), await source.token()] == ["1", "2"]


async def test_while_no_token_is_given_the_one_before_does_for_the_next_aiokafka_client_too(
    endpoint: Endpoint,
) -> None:
    endpoint.body, settings = NUMBERED, by_token(endpoint.url)
    shared = tokens_of(settings)

    async def given() -> object:
        options = client_options(settings, shared)
        found: object = await source_of(options).token()
        assert token_trouble(options) == ""
        return found

    assert [await given(), await given()] == ["1", "2"], "a new one for each connection"
    endpoint.status = "503 Service Unavailable"
    assert await given() == "2"
    endpoint.status = "200 OK"
    assert await given() == "4", "the third was not given"


async def test_while_the_endpoint_hangs_aiokafka_waits_for_it_once_and_not_for_long(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirrorfleet.kafka.tokens._HTTP_TIMEOUT_S", 3.0)
    endpoint.body = NUMBERED
    source = source_of(client_options(by_token(endpoint.url)))
    await source.token()
    endpoint.answers = False
    async with asyncio.timeout(2):
        assert await source.token() == "1"
    assert endpoint.asked == 2
    await endpoint.left.wait()


async def test_without_a_token_that_lasts_aiokafka_is_told_so(endpoint: Endpoint) -> None:
    endpoint.status = "503 Service Unavailable"
    options = client_options(by_token(endpoint.url))
    with pytest.raises(KafkaConnectionError, match="status 503"):
        await source_of(options).token()
    assert "status 503" in token_trouble(options)
    assert endpoint.asked == 1
