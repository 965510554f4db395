"""The rules, by Prometheus's own checker: their form, and each alert for what it is made for."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

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


@pytest.mark.parametrize(
    ("known", "unknown", "shown"),
    [("5", 0, 12), ("_", 3, -1)],
    ids=["both workers know their part", "one does not"],
)
def test_the_dashboard_shows_no_sum_of_what_is_behind_when_a_part_is_not_known(
    tmp_path: Path, known: str, unknown: int, shown: int
) -> None:
    dashboard = json.loads((ROOT / "deploy/dashboards/copying.json").read_text("utf-8"))
    (panel,) = [each for each in dashboard["panels"] if each["title"] == "Records behind"]
    told = {
        'record_lag{link="x", topic="t", instance="a"}': f"{known}x8",
        'record_lag_unknown{link="x", topic="t", instance="a"}': f"{unknown}x8",
        'record_lag{link="x", topic="t", instance="b"}': "7x8",
        'record_lag_unknown{link="x", topic="t", instance="b"}': "0x8",
    }
    asked = {
        "expr": panel["targets"][0]["expr"].replace("$link", ".*"),
        "eval_time": "1m",
        "exp_samples": [{"labels": '{link="x"}', "value": shown}],
    }
    case = {
        "interval": "15s",
        "input_series": [
            {"series": f"mirrorfleet_{series}", "values": values} for series, values in told.items()
        ],
        "promql_expr_test": [asked],
    }
    shutil.copy(ROOT / RULES, tmp_path / "rules.yml")
    cases = {"rule_files": ["rules.yml"], "evaluation_interval": "15s", "tests": [case]}
    (tmp_path / "cases.yml").write_text(yaml.safe_dump(cases), "utf-8")

    assert "SUCCESS" in promtool("test", "rules", str(tmp_path / "cases.yml"))
    assert panel["fieldConfig"]["defaults"]["mappings"][0]["options"]["-1"]["text"] == "unknown"


def test_the_scrape_configuration_is_well_formed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "deploy/rules", tmp_path / "rules")
    shutil.copy(ROOT / "deploy/prometheus/prometheus.yml", tmp_path)

    assert "SUCCESS" in promtool("check", "config", str(tmp_path / "prometheus.yml"))
