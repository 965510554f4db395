"""Where tokens come from."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from mirrorfleet.config.cluster_settings import Mechanism, Protocol, Security
from mirrorfleet.core.errors import ConfigError, ConnectionLostError
from mirrorfleet.kafka.sasl import SaslClient
from mirrorfleet.kafka.tokens import FileTokens, UnsecuredTokens, token_provider


def bearer(**more: str) -> Security:
    return Security(
        protocol=Protocol.SASL_PLAINTEXT,
        mechanism=Mechanism.OAUTHBEARER,
        **more,  # type: ignore[arg-type] # only strings
    )


async def test_a_token_file_is_read_anew_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    tokens = FileTokens(str(file))
    file.write_text("first\n")
    assert await tokens.token() == "first"
    file.write_text("second\n")
    assert await tokens.token() == "second"


async def test_an_empty_token_file_is_named_and_read_again_as_it_may_be_being_written(
    tmp_path: Path,
) -> None:
    file = tmp_path / "token"
    file.write_text("\n")
    with pytest.raises(ConnectionLostError, match=r"token file .*token is empty"):
        await FileTokens(str(file)).token()


async def test_a_client_secret_that_is_being_renewed_is_waited_for(tmp_path: Path) -> None:
    tokens = token_provider(
        bearer(
            token_url="https://localhost:1/token",
            token_client_id="mirror",
            token_client_secret_file=str(tmp_path / "secret"),
        )
    )
    with pytest.raises(ConnectionLostError, match="secret"):
        await tokens.token()


async def test_an_unsecured_token_has_whole_seconds() -> None:
    """A broker refuses a token that was issued in the future, if only by a millisecond."""
    _, claims, signature = (await UnsecuredTokens("alice", 60).token()).split(".")
    found = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert found["sub"] == "alice"
    assert isinstance(found["iat"], int)
    assert found["exp"] - found["iat"] == 60
    assert signature == ""


def test_no_source_of_tokens_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="needs token_file, or token_url"):
        token_provider(bearer())


def test_sasl_without_a_mechanism_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="SASL_SSL needs a mechanism"):
        SaslClient(Security(protocol=Protocol.SASL_SSL))


def test_a_password_mechanism_without_a_user_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="PLAIN needs a username"):
        SaslClient(Security(protocol=Protocol.SASL_SSL, mechanism=Mechanism.PLAIN))
