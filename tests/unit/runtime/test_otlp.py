"""The exporter of traces, as it is made, and made anew."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.config.telemetry import TelemetrySettings, telemetry_settings
from mirrorfleet.runtime.otlp import OtlpSender
from mirrorfleet.runtime.spans import SendError
from tests.faultkit.collector import Mood, collector
from tests.unit.config.making import RIGHT, parse
from tests.unit.runtime.test_spans import span

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _loggers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the exporter changes for its process, put back afterwards."""
    for name in ("opentelemetry", "urllib3"):
        noisy = logging.getLogger(name)
        monkeypatch.setattr(noisy, "handlers", [])
        monkeypatch.setattr(noisy, "propagate", True)


def test_a_header_that_is_written_wrongly_is_told_without_its_value(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization: Bearer hunter2secret")

    OtlpSender(TelemetrySettings(endpoint="http://nowhere:1/v1/traces", traces_per_second=1), {})

    assert "OTEL_EXPORTER_OTLP_* is not understood" in caplog.text
    assert "hunter2secret" not in caplog.text


def test_a_header_in_a_file_is_read_for_each_delivery_and_the_last_one_kept_without_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    seen: list[str] = []
    with collector() as otlp:
        headers = "headers: {authorization: {file: token}}"
        estate = parse(
            f"{RIGHT}telemetry: {{endpoint: '{otlp.url}', {headers}}}\n", directory=tmp_path
        )
        settings = telemetry_settings(estate)
        assert settings is not None
        send = OtlpSender(settings, {})
        for held in ("first", "second", "", None):
            file.unlink()
            if held is not None:
                file.write_text(held)
            send([span()])
            seen.append(otlp.headers["authorization"])

    assert seen == ["first", "second", "second", "second"]


def test_spans_that_are_sent_to_an_address_that_redirects_are_not_delivered() -> None:
    with collector() as otlp:
        endpoint = f"{otlp.url}/v1/traces"
        send = OtlpSender(TelemetrySettings(endpoint=endpoint, traces_per_second=1), {})
        otlp.mood = Mood.MOVED
        with pytest.raises(SendError, match="308 Permanent Redirect: redirects are not followed"):
            send([span()])
        otlp.mood = Mood.TAKING
        send([span()])

        assert otlp.requests == 2
        assert len(otlp.spans()) == 1
