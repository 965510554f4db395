"""TLS: client contexts from PEM files, and what a failed handshake means for the operator."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Final

from mirrorfleet.config.cluster_settings import Security
from mirrorfleet.core.errors import AuthenticationError, ConfigError

# OpenSSL's verification results (x509_vfy.h)
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_HOST_MISMATCH: Final = 62
_ADDRESS_MISMATCH: Final = 64
_UNKNOWN_ISSUER: Final = frozenset({2, 7, 18, 19, 20, 21})
"""7: the CA has the name of one that we trust, and another key."""

SYSTEM_S: Final = 60.0
"""The system's CAs are read again after so long."""
FileVersions = tuple[tuple[int, ...], ...]

_log = logging.getLogger(__name__)  # as `runtime.log` does, which is no layer below


def make_context(security: Security) -> ssl.SSLContext:
    """A client context: our certificate for mTLS, the CA of `ca_file` or the system's.

    Raises: ConfigError naming the file that cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=security.ca_file)
    except OSError as error:
        raise _bad_file("ca_file", security.ca_file, error) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = security.check_hostname
    if security.cert_file is not None:
        # an empty password: without one OpenSSL would ask at the terminal
        password = security.read_key_password() or ""
        try:
            context.load_cert_chain(security.cert_file, security.key_file, password)
        except OSError as error:
            files = f"{security.cert_file}, {security.key_file or 'no key_file'}"
            raise _bad_file("cert_file", files, error) from error
    return context


class TlsContexts:
    """The context of one cluster's connections, made again when a file of it was renewed.

    It takes 30 ms to read the system's CAs, and connections to a source far away come in dozens.
    Certificate and key are replaced one after the other: between, the context before serves on.
    """

    def __init__(
        self, security: Security, *, first: ssl.SSLContext | None = None, now: float = 0.0
    ) -> None:
        """`first` is a context that was made of these files just `now`."""
        self._security = security
        self._context = first
        self._tried_at, self._files = now, file_versions(security)
        self._trouble = ""

    def current(self, now: float) -> ssl.SSLContext:
        """The context for a connection; `now` in seconds, monotonic.

        Raises: ConfigError when there never was one.
        """
        files = file_versions(self._security)
        is_old = now - self._tried_at > SYSTEM_S or files != self._files
        if self._context is not None and not is_old:
            return self._context
        try:
            self._context, self._trouble = make_context(self._security), ""
        except ConfigError as error:
            if self._context is None:
                raise
            self._tell(str(error))
        self._tried_at, self._files = now, files
        return self._context

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            _log.warning("TLS goes on with the files read before", extra={"error": trouble})
        self._trouble = trouble


def file_versions(security: Security) -> FileVersions:
    """What changes when one of its PEM files is renewed, or the password of the key."""
    named = (
        security.ca_file,
        security.cert_file,
        security.key_file,
        security.key_password_file,
    )
    return tuple(_version(file) for file in named if file)


def _version(path: str) -> tuple[int, ...]:
    """What changes when a file is replaced or written; nothing of one that is not there."""
    try:
        found = Path(path).stat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns


def explain_tls(peer: str, error: ssl.SSLError, security: Security) -> AuthenticationError:
    """Why the handshake failed, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_verification(peer, error, security)
    return explain_alert(peer, error)


def explain_alert(peer: str, error: ssl.SSLError) -> AuthenticationError:
    """What the peer's refusal of *our* side means; in TLS 1.3 it comes after the handshake."""
    # an SSLError that the loop made itself has no reason
    reason = str(getattr(error, "reason", None) or error).upper()
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return AuthenticationError(
            f"{peer} refused our certificate: {_words(reason)}.",
            hint="Check cert_file and key_file: valid now, and signed by a CA the broker trusts.",
        )
    if "WRONG_VERSION_NUMBER" in reason or "HTTP_REQUEST" in reason:
        return AuthenticationError(
            f"{peer} does not speak TLS.",
            hint="Set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or use the TLS port.",
        )
    return AuthenticationError(
        f"{peer}: TLS failed: {_words(reason)}.",
        hint="Check that the listener speaks TLS 1.2 or newer.",
    )


def _explain_verification(
    peer: str, error: ssl.SSLCertVerificationError, security: Security
) -> AuthenticationError:
    code = error.verify_code
    if code in (_HOST_MISMATCH, _ADDRESS_MISMATCH):
        host = peer.rpartition(":")[0]
        return AuthenticationError(
            f"{peer}: the broker's certificate is not for {host}.",
            hint="Use a name that the certificate has, or have it issued with this name.",
        )
    if code in (_EXPIRED, _NOT_YET_VALID):
        when = "has expired" if code == _EXPIRED else "is not valid yet"
        return AuthenticationError(
            f"{peer}: the broker's certificate {when}.",
            hint="Renew it at the broker, or check this machine's clock.",
        )
    if code in _UNKNOWN_ISSUER:
        trusted = security.ca_file or "the system's CAs"
        return AuthenticationError(
            f"{peer}: the broker's certificate is signed by a CA we do not know"
            f" ({error.verify_message}); we trust {trusted}.",
            hint="Set security.ca_file to the CA that signed the broker's certificate.",
        )
    return AuthenticationError(
        f"{peer}: the broker's certificate is refused: {error.verify_message}.",
        hint="Check the broker's certificate and security.ca_file.",
    )


def _bad_file(name: str, path: str | None, error: OSError) -> ConfigError:
    reason = error.strerror or str(error)
    return ConfigError(
        f"security.{name} ({path}): {reason}.",
        path=f"security.{name}",
        hint="It must be a readable PEM file; an encrypted key needs key_password.",
    )


def _words(reason: str) -> str:
    return reason.lower().replace("_", " ")
