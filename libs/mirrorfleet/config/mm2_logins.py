"""How MirrorMaker 2 logs in to a cluster, as the estate says it: PEM files, and no secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

LOGIN_KEYS: Final = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)
"""Of each cluster, or of all."""
_OPTION: Final = re.compile(
    r"""(\w+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))"""
)
_FILE: Final = "file://"
_INSIDE: Final = {
    "truststore": "ssl.truststore.certificates",
    "keystore": "ssl.keystore.key",
}
"""Where the properties themselves have what is in a store, as PEM."""


def security_of(alias: str, said: Mapping[str, str], notes: list[str]) -> dict[str, object]:
    """`security` of a cluster; empty for PLAINTEXT. `notes` get what is to be done for it."""
    protocol = said.get("security.protocol", "PLAINTEXT").strip().upper()
    found: dict[str, object] = {} if protocol == "PLAINTEXT" else {"protocol": protocol}
    if protocol.startswith("SASL"):
        found |= _sasl(alias, said, notes)
        if protocol == "SASL_PLAINTEXT" and found.get("mechanism") in {"PLAIN", "OAUTHBEARER"}:
            found["allow_insecure"] = True
            notes.append(f"{alias}: its secret is sent readable, as before: better use SASL_SSL.")
    if protocol.endswith("SSL"):
        found |= _trust(alias, said, notes) | _certificate(alias, said, notes)
    return found


def _sasl(alias: str, said: Mapping[str, str], notes: list[str]) -> dict[str, object]:
    mechanism = said.get("sasl.mechanism", "GSSAPI").strip()
    options = _options(said.get("sasl.jaas.config", ""))
    if mechanism == "OAUTHBEARER":
        return {"mechanism": mechanism, **_token(alias, said, options, notes)}
    env = _env(alias, "PASSWORD")
    notes.append(f"{alias}: set {env} to the password of sasl.jaas.config, or name a file.")
    user = options.get("username") or _placeholder(alias, "username", "USER", notes)
    return {"mechanism": mechanism, "username": user, "password": {"env": env}}


def _token(
    alias: str, said: Mapping[str, str], options: Mapping[str, str], notes: list[str]
) -> dict[str, object]:
    url = said.get("sasl.oauthbearer.token.endpoint.url", "")
    if url.startswith(_FILE):
        return {"token_file": url.removeprefix(_FILE)}
    if not url:
        return {"token_file": _placeholder(alias, "token_file", f"{alias}.token", notes)}
    env = _env(alias, "CLIENT_SECRET")
    notes.append(f"{alias}: set {env} to clientSecret of sasl.jaas.config, or name a file.")
    client = options.get("clientId") or _placeholder(alias, "token_client_id", "CLIENT", notes)
    found: dict[str, object] = {
        "token_url": url,
        "token_client_id": client,
        "token_client_secret": {"env": env},
    }
    return {**found, "token_scope": options["scope"]} if options.get("scope") else found


def _trust(alias: str, said: Mapping[str, str], notes: list[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    if said.get("ssl.endpoint.identification.algorithm") == "":
        found["check_hostname"] = False
    place, to = _pem(said, "truststore"), f"{alias}-ca.pem"
    if place is None and _INSIDE["truststore"] in said:
        notes.append(f"{alias}: write what ssl.truststore.certificates has to {to}.")
    elif place is None and "ssl.truststore.location" in said:
        notes.append(
            f"{alias}: {to} is to have what the truststore has: keytool -exportcert -rfc -keystore"
            f" STORE -alias ALIAS, for each alias in it."
        )
    if place is not None or _has(said, "truststore"):
        found["ca_file"] = place or to
    return found


def _certificate(alias: str, said: Mapping[str, str], notes: list[str]) -> dict[str, object]:
    place, cert, key = _pem(said, "keystore"), f"{alias}-cert.pem", f"{alias}-key.pem"
    if place is None and not _has(said, "keystore"):
        return {}
    found: dict[str, object] = {"cert_file": place or cert, "key_file": place or key}
    is_pem = place is not None or _INSIDE["keystore"] in said
    if place is None and is_pem:
        notes.append(
            f"{alias}: write what ssl.keystore.certificate.chain has to {cert}, and what"
            f" ssl.keystore.key has to {key}."
        )
    elif not is_pem:
        notes.append(
            f"{alias}: {cert} and {key} are to have what the keystore has: openssl pkcs12 -in STORE"
            f" -nokeys -out {cert}, and -nocerts -noenc -out {key}; a JKS store is made PKCS12 by"
            " keytool -importkeystore."
        )
    if is_pem and "ssl.key.password" in said:
        env = _env(alias, "KEY_PASSWORD")
        found["key_password"] = {"env": env}
        notes.append(f"{alias}: set {env} to ssl.key.password, or name a file.")
    return found


def _placeholder(alias: str, key: str, value: str, notes: list[str]) -> str:
    notes.append(f"{alias}: {key} {value} only holds the place: it was not to be found.")
    return value


def _has(said: Mapping[str, str], store: str) -> bool:
    """Whether there is such a store: a file, or PEM in the properties themselves."""
    return f"ssl.{store}.location" in said or _INSIDE[store] in said


def _pem(said: Mapping[str, str], store: str) -> str | None:
    """The file, where it is PEM already."""
    place = said.get(f"ssl.{store}.location", "")
    is_pem = said.get(f"ssl.{store}.type", "").upper() == "PEM" or place.endswith(".pem")
    return place if place and is_pem else None


def _options(jaas: str) -> dict[str, str]:
    """What a JAAS line sets, by name: one that stands in another one's value is none."""
    return {
        found[1]: re.sub(r"\\(.)", r"\1", found[2] or found[3] or "") or found[4] or ""
        for found in _OPTION.finditer(jaas)
    }


def _env(alias: str, what: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", f"{alias}_{what}".upper())
