"""Secrets are found when a client is made, and never shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mirrorfleet.config.cluster_settings import Mechanism, Protocol, Security
from mirrorfleet.config.connect import cluster_settings
from mirrorfleet.core.errors import ConfigError, ConnectionLostError
from tests.unit.config.making import RIGHT, parse

CANARY = "c4n4ry-s3cret"


def test_a_cluster_without_security_needs_no_secret() -> None:
    settings = cluster_settings(parse(), "east", "me")
    assert (settings.alias, settings.bootstrap) == ("east", ("127.0.0.1:19092",))
    assert (settings.client_id, settings.security) == ("me", Security())


def test_a_password_comes_from_the_environment() -> None:
    security = cluster_settings(parse(env={"WEST_PASSWORD": CANARY}), "west").security
    assert (security.protocol, security.mechanism) == (Protocol.SASL_SSL, Mechanism.SCRAM_SHA_512)
    assert security.read_password() == CANARY


def test_a_line_end_is_no_part_of_a_secret_from_the_environment() -> None:
    security = cluster_settings(parse(env={"WEST_PASSWORD": f"{CANARY}\r\n"}), "west").security
    assert security.read_password() == CANARY
    with pytest.raises(ConfigError, match="WEST_PASSWORD is not set"):
        cluster_settings(parse(env={"WEST_PASSWORD": "\n"}), "west")


def test_a_secret_that_is_not_there_is_named_with_its_line() -> None:
    with pytest.raises(ConfigError) as caught:
        cluster_settings(parse(), "west")
    assert str(caught.value) == (
        "line 11 clusters.west.security.password: environment variable WEST_PASSWORD is not set."
        " export WEST_PASSWORD=..."
    )


def test_a_password_file_is_read_again_each_time(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(CANARY + "\n", encoding="utf-8")
    text = RIGHT.replace("{env: WEST_PASSWORD}", "{file: password}")
    security = cluster_settings(parse(text, directory=tmp_path), "west").security
    assert security.read_password() == CANARY
    secret.write_text("rotated", encoding="utf-8")
    assert security.read_password() == "rotated"
    secret.write_text("\n", encoding="utf-8")
    with pytest.raises(ConnectionLostError, match="password is empty"):
        security.read_password()


def test_the_other_secrets_in_files_are_read_again_each_time(tmp_path: Path) -> None:
    security = """{protocol: SASL_SSL, mechanism: OAUTHBEARER, token_url: "https://idp/token",
        token_client_id: mirror, token_client_secret: {file: client},
        cert_file: client, key_file: client, key_password: {file: key}}"""
    start, end = RIGHT.index("security:", RIGHT.index("west:")), RIGHT.index("links:")
    text = RIGHT[:start] + f"security: {security}\n" + RIGHT[end:]
    for name in ("client", "key"):
        (tmp_path / name).write_text(f"old {name}\n", encoding="utf-8")
    found = cluster_settings(parse(text, directory=tmp_path), "west").security
    assert (found.read_client_secret(), found.read_key_password()) == ("old client", "old key")

    for name in ("client", "key"):
        (tmp_path / name).write_text(f"new {name}\n", encoding="utf-8")
    assert (found.read_client_secret(), found.read_key_password()) == ("new client", "new key")
    (tmp_path / "client").write_text("\n", encoding="utf-8")  # for a moment, or it stays so
    with pytest.raises(ConnectionLostError, match="client is empty"):
        found.read_client_secret()


def test_a_file_that_is_not_there_is_named_with_its_line(tmp_path: Path) -> None:
    text = RIGHT.replace("{env: WEST_PASSWORD}", "{file: password}")
    with pytest.raises(ConfigError) as caught:
        cluster_settings(parse(text, directory=tmp_path), "west")
    assert str(caught.value) == (
        f"line 11 clusters.west.security.password: secret file {tmp_path}/password:"
        " No such file or directory. Check path and mode."
    )
    text = RIGHT.replace("username:", "ca_file: ca.pem\n      username:")
    with pytest.raises(ConfigError, match=r"line 10 clusters.west.security.ca_file: there is no"):
        cluster_settings(parse(text, directory=tmp_path, env={"WEST_PASSWORD": "x"}), "west")


@pytest.mark.parametrize("held", ["", "\n", "\r\n"])
def test_a_secret_file_that_is_empty_is_named_with_its_line(tmp_path: Path, held: str) -> None:
    (tmp_path / "password").write_text(held, encoding="utf-8")
    text = RIGHT.replace("{env: WEST_PASSWORD}", "{file: password}")
    with pytest.raises(ConfigError) as caught:
        cluster_settings(parse(text, directory=tmp_path), "west")
    assert str(caught.value) == (
        f"line 11 clusters.west.security.password: secret file {tmp_path}/password is empty."
        " Write the secret into it."
    )


@pytest.mark.parametrize("name", ['"a\\0b"', "sec\u00adret"], ids=["null", "not UTF-8"])
def test_a_secret_file_that_no_system_can_open_or_read_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "sec\u00adret").write_bytes(b"c4n4ry\xff")
    text = RIGHT.replace("{env: WEST_PASSWORD}", f"{{file: {name}}}")
    with pytest.raises(ConfigError, match=r"^line 11 clusters\.west\.security\.password: ") as told:
        cluster_settings(parse(text, directory=tmp_path), "west")
    assert "c4n4ry" not in str(told.value)
    assert "0xff" not in str(told.value)


def test_a_password_is_asked_for_only_where_there_is_one() -> None:
    with pytest.raises(ConfigError, match="no password is configured"):
        Security().read_password()


def test_secrets_are_in_no_text_of_settings() -> None:
    security = Security(
        protocol=Protocol.SASL_SSL,
        username="copier",
        password=CANARY,
        token_client_secret=CANARY,
        key_password=CANARY,
    )
    settings = replace(cluster_settings(parse(), "east"), security=security)
    for text in (repr(security), str(security), repr(settings), f"{settings}"):
        assert CANARY not in text
    assert "username='copier', password=***" in repr(security)


def test_secrets_are_in_no_text_of_an_estate() -> None:
    text = RIGHT + f"services: {{mirror: {{memory_mb: 64, token: {CANARY}}}}}\n"
    estate = parse(text, env={"WEST_PASSWORD": CANARY})
    assert estate.services["mirror"]["token"] == CANARY
    for shown in (repr(estate), str(estate), estate.model_dump_json(), repr(estate.model_dump())):
        assert CANARY not in shown
    assert estate.model_dump()["services"] == {"mirror": {"memory_mb": 64, "token": "***"}}


def test_secrets_are_known_as_they_are_now_also_those_in_files(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("password", "client", "key")}
    for name, file in files.items():
        file.write_text(f"first {name}\n")
    security = Security(
        password_file=str(files["password"]),
        token_client_secret_file=str(files["client"]),
        key_password_file=str(files["key"]),
    )
    assert security.secrets() == ("first password", "first client", "first key")

    files["password"].write_text("second")
    assert security.secrets()[0] == "second"
    assert Security(password="p", key_password="k").secrets() == ("p", "k")
    assert Security().secrets() == ()
