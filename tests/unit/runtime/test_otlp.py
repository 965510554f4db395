"""The exporter of traces, as it is made."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from mirrorfleet.config.telemetry import TelemetrySettings
from mirrorfleet.runtime.otlp import OtlpSender

if TYPE_CHECKING:
    import pytest


def test_a_header_that_is_written_wrongly_is_told_without_its_value(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization: Bearer hunter2secret")
    for name in ("opentelemetry", "urllib3"):
        noisy = logging.getLogger(name)
        monkeypatch.setattr(noisy, "handlers", [])
        monkeypatch.setattr(noisy, "propagate", True)

    OtlpSender(TelemetrySettings(endpoint="http://nowhere:1/v1/traces", traces_per_second=1), {})

    assert "OTEL_EXPORTER_OTLP_* is not understood" in caplog.text
    assert "hunter2secret" not in caplog.text
