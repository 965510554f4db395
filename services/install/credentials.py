"""Throwaway secrets of a local region: certificates, passwords and tokens, as files of a folder.

ca.pem  broker.pem  <user>.pem  <user>.key      with TLS
<user>.password  <user>.token                   with SASL
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from services.install.authority import Authority

LIFETIME: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to write. The brokers' certificate may be a wrong one: other `hosts`, ended long ago."""

    directory: Path
    hosts: tuple[str, ...]
    lifetime_days: int
    certificates: tuple[str, ...]
    """Users with a certificate of their own; the brokers have one if `hosts` are given."""
    passwords: Mapping[str, str]
    """By user."""


def write(wanted: Wanted) -> None:
    """Write all of it, readable for this user only."""
    directory = wanted.directory
    directory.mkdir(parents=True, exist_ok=True)
    if wanted.hosts:
        authority = Authority(directory)
        authority.issue("broker", wanted.hosts, timedelta(days=wanted.lifetime_days))
        for user in wanted.certificates:
            authority.issue(user, (), LIFETIME)
    for user, password in wanted.passwords.items():
        texts = {"token": unsecured_token(user, datetime.now(UTC)), "password": password}
        for suffix, text in texts.items():
            file = directory / f"{user}.{suffix}"
            file.touch(mode=0o600)
            file.write_text(text, encoding="utf-8")


def unsecured_token(subject: str, now: datetime, lifetime: timedelta = LIFETIME) -> str:
    """A JSON web token that nobody signed, as Kafka's unsecured validator takes it (KIP-255)."""
    issued = int(now.timestamp())
    claims = {"sub": subject, "iat": issued, "exp": issued + int(lifetime.total_seconds())}
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts]
    return b".".join([*coded, b""]).decode()
