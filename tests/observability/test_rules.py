"""The rules, by Prometheus's own checker: their form, and each alert for what it is made for."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faultkit.process import ROOT

HERE = Path(__file__).parent
RULES = "deploy/rules/mirrorfleet.yml"


def promtool(*arguments: str) -> str:
    program = shutil.which("promtool")
    assert program, "no promtool on PATH: `make test-observability` installs Debian's Prometheus"
    answer = subprocess.run(
        [program, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def test_the_rules_are_well_formed() -> None:
    assert "SUCCESS" in promtool("check", "rules", RULES)


def test_every_alert_speaks_for_its_fault_and_is_silent_before() -> None:
    assert "SUCCESS" in promtool("test", "rules", str(HERE / "rules.test.yml"))


def test_a_rule_with_another_threshold_fails_its_test(tmp_path: Path) -> None:
    rules = (ROOT / RULES).read_text("utf-8")
    (tmp_path / "rules.yml").write_text(rules.replace("< 3600", "< 36"), "utf-8")
    cases = (HERE / "rules.test.yml").read_text("utf-8").replace(f"../../{RULES}", "rules.yml")
    (tmp_path / "cases.yml").write_text(cases, "utf-8")

    with pytest.raises(AssertionError, match="MirrorfleetRetentionNear"):
        promtool("test", "rules", str(tmp_path / "cases.yml"))


def test_the_scrape_configuration_is_well_formed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "deploy/rules", tmp_path / "rules")
    shutil.copy(ROOT / "deploy/prometheus/prometheus.yml", tmp_path)

    assert "SUCCESS" in promtool("check", "config", str(tmp_path / "prometheus.yml"))
