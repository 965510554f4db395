"""Client credentials against an endpoint that says what it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mirrorfleet.config.cluster_settings import Security
from mirrorfleet.core.errors import (
    AuthenticationError,
    ConfigError,
    ConnectionLostError,
    DeadlineError,
    MirrorfleetError,
)
from mirrorfleet.kafka.tokens import ClientCredentialsTokens


class Endpoint:
    """An HTTP server of one page; keeps what it was sent."""

    def __init__(self) -> None:
        self.status = "200 OK"
        self.body = '{"access_token": "a.b.c", "expires_in": 60}'
        self.head = ""
        self.form = ""
        self.url = ""
        self.answers = True
        self.left = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
        writer.write(f"HTTP/1.1 {self.status}\r\nConnection: close\r\n\r\n{self.body}".encode())
        await writer.drain()
        writer.close()


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    made = Endpoint()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/oauth/token?tenant=1"
    yield made
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
