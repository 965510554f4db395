"""What a failed handshake tells the operator."""

from __future__ import annotations

import ssl
from datetime import timedelta
from pathlib import Path

import pytest

from mirrorfleet.config.cluster_settings import Protocol, Security
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.kafka import tls
from mirrorfleet.kafka.tls import SYSTEM_S, TlsContexts, explain_alert, explain_tls, make_context
from services.install.authority import Authority

TLS = Security(protocol=Protocol.SSL, ca_file="/etc/kafka/ca.pem")


def refused(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, message
    return error


@pytest.mark.parametrize(
    ("code", "message", "text"),
    [
        (10, "expired", "b.example:9093: the broker's certificate has expired. Renew it"),
        (9, "not yet", "b.example:9093: the broker's certificate is not valid yet. Renew it"),
        (62, "mismatch", "b.example:9093: the broker's certificate is not for b.example. Use"),
        (
            20,
            "unable to get local issuer certificate",
            "(unable to get local issuer certificate); we trust /etc/kafka/ca.pem. Set security.ca",
        ),
        (7, "certificate signature failure", "signed by a CA we do not know (certificate sig"),
        (23, "certificate revoked", "the broker's certificate is refused: certificate revoked."),
    ],
)
def test_a_certificate_that_we_refuse(code: int, message: str, text: str) -> None:
    assert text in str(explain_tls("b.example:9093", refused(code, message), TLS))


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "refused our certificate"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", "refused our certificate: sslv3 alert bad certificate."),
        ("TLSV1_ALERT_UNKNOWN_CA", "refused our certificate"),
        ("WRONG_VERSION_NUMBER", "b:9093 does not speak TLS."),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "TLS failed: tlsv1 alert protocol version."),
    ],
)
def test_a_handshake_that_the_broker_refuses(reason: str, text: str) -> None:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    assert text in str(explain_alert("b:9093", error))


def test_a_file_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match=r"security.ca_file \(/nowhere/ca.pem\): No such file"):
        make_context(Security(protocol=Protocol.SSL, ca_file="/nowhere/ca.pem"))


def test_a_certificate_file_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    file = tmp_path / "client.pem"
    file.write_text("not a certificate")
    with pytest.raises(ConfigError, match=r"security.cert_file \(.*client.pem, no key_file\)"):
        make_context(Security(protocol=Protocol.SSL, cert_file=str(file)))


def test_the_host_name_is_checked_unless_told_otherwise() -> None:
    assert make_context(Security(protocol=Protocol.SSL)).check_hostname
    assert not make_context(Security(protocol=Protocol.SSL, check_hostname=False)).check_hostname


def test_a_context_is_made_once_until_a_file_is_renewed_or_the_systems_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "make_context", lambda _: object())
    system = TlsContexts(Security(protocol=Protocol.SSL))
    first = system.current(100.0)
    assert system.current(100.0 + SYSTEM_S) is first
    assert system.current(101.0 + SYSTEM_S) is not first

    key_file = tmp_path / "key.pem"
    key_file.write_text("one")
    contexts = TlsContexts(Security(protocol=Protocol.SSL, key_file=str(key_file)))
    first = contexts.current(100.0)
    assert contexts.current(101.0) is first
    renewed = tmp_path / "new.pem"
    renewed.write_text("two")
    renewed.replace(key_file)
    second = contexts.current(102.0)
    assert second is not first
    key_file.unlink()
    assert contexts.current(103.0) is not second

    password = tmp_path / "password"
    password.write_text("one")
    contexts = TlsContexts(Security(protocol=Protocol.SSL, key_password_file=str(password)))
    first = contexts.current(100.0)
    password.write_text("another")
    assert contexts.current(101.0) is not first


def test_while_certificate_and_key_are_replaced_the_context_before_serves_and_it_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    old, new = (authority.issue(name, (), timedelta(days=1)) for name in ("old", "new"))
    security = Security(
        protocol=Protocol.SSL,
        ca_file=str(authority.ca_file),
        cert_file=str(old),
        key_file=str(old.with_suffix(".key")),
    )
    contexts = TlsContexts(security)
    first = contexts.current(100.0)

    old.write_bytes(new.read_bytes())
    between = [contexts.current(at) for at in (101.0, 102.0, 103.0 + SYSTEM_S)]
    new.with_suffix(".key").replace(old.with_suffix(".key"))
    renewed = contexts.current(104.0 + SYSTEM_S)

    assert between == [first, first, first]
    assert renewed is not first
    (said,) = caplog.records
    assert "security.cert_file" in said.error  # type: ignore[attr-defined] # a field of the line


def test_a_first_context_lasts_until_a_file_is_renewed(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    security = Security(protocol=Protocol.SSL, ca_file=str(authority.ca_file))
    first = make_context(security)
    contexts = TlsContexts(security, first=first, now=100.0)
    assert contexts.current(101.0) is first
    Authority(tmp_path)
    assert contexts.current(102.0) is not first
