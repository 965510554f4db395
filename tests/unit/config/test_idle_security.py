"""Keys of `security` that nothing would read are refused: an operator would believe in them."""

from __future__ import annotations

import re

import pytest

from tests.unit.config.making import RIGHT, parse, problems

SCRAM = "protocol: SASL_SSL, mechanism: SCRAM-SHA-512, username: a, password: {env: X}"
BY_FILE = "protocol: SASL_SSL, mechanism: OAUTHBEARER, token_file: t"
BY_URL = (
    "protocol: SASL_SSL, mechanism: OAUTHBEARER, token_url: 'https://x/y',"
    " token_client_id: a, token_client_secret: {env: X}"
)
MUTUAL = "protocol: SSL, cert_file: c, key_file: k"


def with_security(security: str) -> str:
    place = '    bootstrap: "127.0.0.1:19092"\n'
    return RIGHT.replace(place, f"{place}    security: {{{security}}}\n")


@pytest.mark.parametrize(
    ("security", "said"),
    [
        ("protocol: SSL, token_file: t", "protocol SSL has no SASL, so token_file does nothing"),
        ("token_scope: s", "protocol PLAINTEXT has no SASL, so token_scope does nothing"),
        (
            "token_url: 'https://x/y', token_client_id: a, token_client_secret: {env: X}",
            "token_url and token_client_id and token_client_secret do nothing",
        ),
        (f"{SCRAM}, token_url: 'https://x/y'", "has no token, so token_url does nothing"),
        (f"{SCRAM}, token_file: t", "has no token, so token_file does nothing"),
        (f"{BY_FILE}, password: {{env: X}}", "logs in with a token, so password does nothing"),
        (f"{BY_URL}, password: {{env: X}}", "logs in with a token, so password does nothing"),
        (f"{BY_FILE}, token_scope: s", "is in token_file, so token_scope does nothing"),
        (f"{BY_FILE}, token_client_id: a", "is in token_file, so token_client_id does nothing"),
        (
            "protocol: SSL, key_password: {env: X}",
            "there is no key_file, so key_password does nothing",
        ),
        (f"{MUTUAL}, username: a, password: {{env: X}}", "has no SASL, so password does nothing"),
        (f"{MUTUAL}, username: 'User:CN=a'", "username is what ACLs have after User:, without it"),
        (f"{BY_FILE}, username: 'User:a'", "username is what ACLs have after User:, without it"),
        (f"{BY_FILE}, username: ''", "username is what ACLs have after User:, without it"),
        ("key_password: {env: X}", "has no TLS, so key_password does nothing"),
        ("check_hostname: false", "has no TLS, so check_hostname does nothing"),
        (
            "cert_file: c, key_file: k",
            "protocol PLAINTEXT has no TLS, so cert_file and key_file do nothing",
        ),
    ],
)
def test_a_key_that_does_nothing_is_refused_and_named(security: str, said: str) -> None:
    found = problems(with_security(security))

    assert found.startswith("estate.yaml:5 clusters.east.security: ")
    assert said in found


@pytest.mark.parametrize(
    "security",
    [
        SCRAM,
        f"{SCRAM}, cert_file: c, key_file: k, key_password: {{env: X}}, check_hostname: false",
        f"{BY_FILE}, username: a",
        f"{BY_URL}, token_scope: s, ca_file: c",
        f"{MUTUAL}, username: 'CN=a,O=b'",
        f"{MUTUAL}, key_password: {{env: X}}, ca_file: a",
        "protocol: SSL, check_hostname: false",
        "check_hostname: true",
    ],
)
def test_a_key_that_is_read_is_taken(security: str) -> None:
    taken = parse(with_security(security)).clusters["east"].security

    assert taken.model_fields_set == set(re.findall(r"(\w+): ", re.sub(r"\{.*?\}", "", security)))
