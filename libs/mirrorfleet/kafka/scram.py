"""SCRAM (RFC 5802, RFC 7677) as Kafka speaks it, sans-IO: three messages out, two in.

Kafka does no SASLprep: names and passwords are UTF-8 as they are (ScramFormatter).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_LEAST_ITERATIONS: Final = 4096
"""Kafka's own minimum (ScramMechanism.minIterations)."""
_MOST_ITERATIONS: Final = 1_000_000
"""Above it the proof would hold up the loop for a second; no server needs that."""


class ScramError(Exception):
    """Raised when the server's side of the exchange is wrong or refuses."""


class ScramExchange:
    """One exchange: `first`, `final` of the server's first answer, `check` of its last."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        """`nonce` is printable ASCII without commas, new for each exchange."""
        self._hash = _HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        self._bare = f"n={_escape(username)},r={nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        """The client's first message."""
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """The client's last message, with its proof. Raises: ScramError."""
        fields = _fields(challenge)
        nonce, salt, iterations = _parameters(fields)
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramError("the server's nonce does not continue ours")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        without_proof = f"c=biws,r={nonce}"
        signed = b",".join((self._bare.encode(), challenge, without_proof.encode()))
        signature = self._hmac(stored_key, signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, last: bytes) -> None:
        """Check that the server knows the password too. Raises: ScramError."""
        fields = _fields(last)
        if "e" in fields:
            raise ScramError(fields["e"])
        if not hmac.compare_digest(_decoded(fields.get("v", "")), self._server_signature):
            raise ScramError("the server's signature is wrong: it does not know the password")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self._hash).digest()


def _escape(username: str) -> str:
    return username.replace("=", "=3D").replace(",", "=2C")


def _fields(message: bytes) -> dict[str, str]:
    """The `x=...` parts of a message. Raises: ScramError."""
    try:
        parts = [part.partition("=") for part in message.decode().split(",")]
    except UnicodeDecodeError:
        raise ScramError("the server's message is not UTF-8") from None
    return {name: value for name, _, value in parts}


def _parameters(fields: dict[str, str]) -> tuple[str, bytes, int]:
    """Nonce, salt and iterations of the server's first message. Raises: ScramError."""
    if "e" in fields:
        raise ScramError(fields["e"])
    try:
        nonce, salt, iterations = fields["r"], _decoded(fields["s"]), int(fields["i"])
    except (KeyError, ValueError):
        raise ScramError("the server's first message is not SCRAM") from None
    if not _LEAST_ITERATIONS <= iterations <= _MOST_ITERATIONS:
        raise ScramError(f"the server wants {iterations} iterations")
    return nonce, salt, iterations


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ScramError("the server's message has bad base64") from None
