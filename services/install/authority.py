"""A throwaway certificate authority, for brokers and for clients with mTLS.

PEM files without passwords, valid for days, on one machine: for tests and demos only.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence

SLACK: Final = timedelta(hours=1)


class Authority:
    """Made anew in `directory` as `ca.pem`; its key is never written."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.ca_file = directory / "ca.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mirrorfleet local CA")])
        builder = self._builder(self._name, self._key.public_key(), timedelta(days=365))
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        certificate = builder.sign(self._key, hashes.SHA256())
        self.ca_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, hosts: Sequence[str], lifetime: timedelta) -> Path:
        """Write `<name>.pem` (certificate, then key) and `<name>.key`; returns the first.

        A negative `lifetime` gives a certificate that ended that long ago.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key.public_key(), lifetime)
        if hosts:
            alternatives = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(alternatives, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        encoded_key = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        key_file = self.directory / f"{name}.key"
        key_file.write_bytes(encoded_key)
        file = self.directory / f"{name}.pem"
        file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + encoded_key)
        for secret in (key_file, file):
            secret.chmod(0o600)
        return file

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        end = now + lifetime
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, end) - SLACK)
            .not_valid_after(end)
        )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
