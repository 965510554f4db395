"""The command line without a cluster: exit codes and words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mirrorfleet.core.errors import DeadlineError, leaf_error
from services.cli.__main__ import main

ESTATE = """\
estate: demo
clusters:
  east: {bootstrap: "127.0.0.1:1"}
  west:
    bootstrap: "127.0.0.1:2"
    security:
      protocol: SASL_SSL
      mechanism: PLAIN
      username: copier
      password: {env: WEST_PASSWORD}
links:
  - {from: east, to: west, rules: [{name: orders, topics: ["orders.*"], groups: ["g"]}]}
"""

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def estate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "estate.yaml"
    file.write_text(ESTATE, encoding="utf-8")
    monkeypatch.setenv("MIRRORFLEET_ESTATE", str(file))
    monkeypatch.setenv("WEST_PASSWORD", "c4n4ry")
    return file


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What `execv` was asked to become."""
    found: list[str] = []
    monkeypatch.setattr("os.execv", lambda _, argv: found.extend(argv[1:]))
    return found


def test_a_right_estate_is_valid(estate: Path, capsys: Captured) -> None:
    assert main(["validate"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-1] == f"{estate} is valid."
    assert "read_committed" in shown.err


def test_validate_answers_in_json(estate: Path, capsys: Captured) -> None:
    assert main(["validate", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "ok": True,
        "problems": [],
        "warnings": [],
        "clusters": [],
        "rules": [
            {"link": "east->west", "rule": "orders", "patterns": ["orders.*"], "naming": "prefix"}
        ],
    }


def test_a_wrong_estate_is_an_error_with_every_line(estate: Path, capsys: Captured) -> None:
    estate.write_text(ESTATE.replace("topics", "topcis").replace("mechanism", "mechansim"))
    assert main(["validate"]) == 1
    meant = "did you mean 'mechanism'?."
    assert capsys.readouterr().err.splitlines() == [
        f"error: {estate}:8 clusters.west.security.mechansim: unknown key; {meant}",
        f"{estate}:12 links[0].rules[0].topcis: unknown key; did you mean 'topics'?.",
        f"{estate}:12 links[0].rules[0].topics: is missing.",
    ]


def test_an_absent_secret_is_an_error(
    estate: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEST_PASSWORD")
    assert main(["validate"]) == 1
    assert "line 10 clusters.west.security.password: environment variable WEST_PASSWORD is not" in (
        capsys.readouterr().err
    )


def test_an_absent_secret_of_traces_is_an_error(estate: Path, capsys: Captured) -> None:
    header = "headers: {authorization: {env: NOT_THERE}}"
    estate.write_text(ESTATE + f"telemetry: {{endpoint: 'http://c:4318', {header}}}\n")
    assert main(["validate"]) == 1
    assert "line 13 telemetry.headers.authorization: environment variable NOT_THERE is not" in (
        capsys.readouterr().err
    )


def test_a_name_is_shown_as_it_is_written(estate: Path, capsys: Captured) -> None:
    estate.write_text(ESTATE.replace('"orders.*"', '"orders[a-z]*", "a[/]", "x:bug:"'))
    assert main(["validate"]) == 0
    assert "orders[a-z]*, a[/], x:bug:" in capsys.readouterr().out


def test_tuning_of_a_service_that_does_not_exist_is_an_error(
    estate: Path, capsys: Captured
) -> None:
    estate.write_text(ESTATE + "services: {mirorr: {x: 1}}\n")
    assert main(["validate"]) == 1
    assert f"{estate}:13 services.mirorr: 'mirorr' is no service; did you mean 'mirror'." in (
        capsys.readouterr().err
    )


def test_an_estate_without_links_is_valid_with_a_warning(estate: Path, capsys: Captured) -> None:
    estate.write_text("estate: a\nclusters: {b: {bootstrap: 'c:1'}}\n")
    assert main(["validate"]) == 0
    assert "warning: no link: nothing will be copied." in capsys.readouterr().err


def test_a_link_of_which_no_rule_takes_groups_is_valid_with_a_warning(
    estate: Path, capsys: Captured
) -> None:
    estate.write_text(ESTATE.replace(', groups: ["g"]', ""))
    assert main(["validate"]) == 0
    said = "warning: no rule of east->west has `groups`: no consumer group's offsets cross."
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["validate", "--estate", "/nowhere/e.yaml"],
            "cannot read the estate file /nowhere/e.yaml",
        ),
        (
            ["validate", "--target", "wset"],
            "'wset' is no cluster of the estate. Known: east, west.",
        ),
        (["validate", "--target", "east"], "no link copies into 'east'. Targets: west."),
        (["validate", "--lvie"], "No such option: --lvie"),
        (["frobnicate"], "No such command 'frobnicate'"),
        (["acls", "--target", "east"], "no link copies into 'east'. Targets: west."),
        (["acls", "--target", "west", "--service", "mirorr"], "Did you mean 'mirror'?"),
        (["acls", "--target", "west", "--principal", "x"], "is not of the form User:NAME"),
        (["acls"], "Missing option '--target'"),
        (["run", "mirorr", "--target", "west"], "Did you mean 'mirror'?"),
        (["run", "cli", "--target", "west"], "'cli' is no service of this release."),
        (["run", "mirror", "--target", "east"], "copies into 'east'. Targets: west."),
        (["status", "--target", "east"], "no link copies into 'east'. Targets: west."),
        (["format", "--target", "east"], "no link copies into 'east'. Targets: west."),
        (["inspect", "orders"], "orders: on which cluster? Add --cluster: east, west."),
        (["inspect", "orders", "--cluster", "mars"], "'mars' is no cluster of the estate."),
        (["inspect", "orders", "--limit", "0"], "Invalid value for '--limit'"),
        (["inspect", "orders", "--limit", "1" + "0" * 30], "Invalid value for '--limit'"),
        (["validate", "-o", "xml"], "Invalid value for '--output'"),
        (
            ["resolve", "a-0", "--target", "west", "--seek", str(2**63)],
            f"Input should be less than or equal to {2**63 - 1}",
        ),
        (
            ["offsets", "translate", "a-0", str(2**63), "--target", "west"],
            f"Input should be less than or equal to {2**63 - 1}",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_error_and_exit_1(
    estate: Path, capsys: Captured, arguments: list[str], said: str
) -> None:
    assert main(arguments) == 1
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.err.startswith("error: ")
    assert "Traceback" not in shown.err
    assert shown.out == ""


@pytest.mark.parametrize(
    ("arguments", "first", "last"),
    [
        ([], "Usage: mirrorfleet [OPTIONS] COMMAND", "positions  Where"),
        (["positions"], "Usage: mirrorfleet positions [OPTIONS] COMMAND", "import  Put positions"),
        (["offsets"], "Usage: mirrorfleet offsets [OPTIONS] COMMAND", "translate  Translate"),
    ],
    ids=["mirrorfleet", "positions", "offsets"],
)
def test_a_command_alone_answers_with_its_help(
    capsys: Captured, arguments: list[str], first: str, last: str
) -> None:
    assert main(arguments) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.startswith(first)
    assert shown.out.splitlines()[-1].strip().startswith(last)
    assert main([*arguments, "--help"]) == 0
    assert capsys.readouterr().out == shown.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["frobnicate"], "No such command 'frobnicate'. See: mirrorfleet --help"),
        (
            ["positions", "exprt"],
            "No such command 'exprt'. Did you mean 'export'? See: mirrorfleet positions --help",
        ),
        (["acls"], "Missing option '--target'. See: mirrorfleet acls --help"),
        (
            ["validate", "--lvie"],
            "No such option: --lvie (Possible options: --live). See: mirrorfleet validate --help",
        ),
        (
            ["offsets", "translate", "a-0", "-5"],
            "No such option: -5. See: mirrorfleet offsets translate --help",
        ),
        (
            ["inspect", "orders", "--limit", "0"],
            (
                "Invalid value for '--limit': Input should be greater than or equal to 1."
                " See: mirrorfleet inspect --help"
            ),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistyped_command_line_is_told_with_the_help_of_its_command(
    capsys: Captured, arguments: list[str], said: str
) -> None:
    assert main(arguments) == 1
    assert capsys.readouterr().err == f"error: {said}\n"


def test_grants_are_for_the_estates_user_on_each_cluster(estate: Path, capsys: Captured) -> None:
    assert main(["acls", "--target", "west", "--service", "mirror"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# west (target), for mirror"
    assert lines[-3] == "# east (source), for mirror"
    assert "--bootstrap-server 127.0.0.1:2" in lines[1]
    assert "--allow-principal 'User:copier'" in lines[1]
    assert lines[-1] == (
        "kafka-acls.sh --bootstrap-server 127.0.0.1:1 --command-config admin.properties --add"
        " --allow-principal 'User:ANONYMOUS' --allow-host '*' --operation Read --topic 'orders'"
        " --resource-pattern-type prefixed"
    )


def test_grants_in_json_name_principal_resource_and_operation(
    estate: Path, capsys: Captured
) -> None:
    arguments = ["acls", "--target", "west", "--service", "mirror", "--principal", "User:x"]
    assert main([*arguments, "--host", "10.0.0.1", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[1] == {
        "cluster": "east",
        "service": "mirror",
        "principal": "User:x",
        "host": "10.0.0.1",
        "resource_type": "TOPIC",
        "pattern_type": "PREFIXED",
        "name": "orders",
        "operation": "Read",
        "permission": "ALLOW",
    }


def test_mutual_tls_has_no_name_in_the_estate(estate: Path, capsys: Captured) -> None:
    tls = "security: {protocol: SSL, cert_file: a, key_file: b}\nlinks"
    head = ESTATE[: ESTATE.index("    security")]
    estate.write_text(head + "    " + tls + ESTATE[ESTATE.index("links") + 5 :])
    assert main(["acls", "--target", "west"]) == 1
    assert "which principal we are on 'west'. Say it: mirrorfleet acls --principal User:NAME" in (
        capsys.readouterr().err
    )


def test_grants_are_for_the_name_that_the_estate_gives_our_certificate(
    estate: Path, capsys: Captured
) -> None:
    tls = "security: {protocol: SSL, cert_file: a, key_file: b, username: 'CN=us,O=we'}\nlinks"
    head = ESTATE[: ESTATE.index("    security")]
    estate.write_text(head + "    " + tls + ESTATE[ESTATE.index("links") + 5 :])
    assert main(["acls", "--target", "west", "--service", "mirror"]) == 0
    assert "--allow-principal 'User:CN=us,O=we'" in capsys.readouterr().out


def test_run_becomes_the_service(estate: Path, became: list[str]) -> None:
    main(["run", "mirror", "--target", "west", "--http-port", "0"])
    assert became == [
        *["-m", "services.mirror", "--estate", str(estate), "--target", "west"],
        *["--http-port", "0"],
    ]


def test_local_hands_everything_on(became: list[str]) -> None:
    main(["local", "up", "--ports", "auto", "--help"])
    assert became == ["-m", "services.local", "up", "--ports", "auto", "--help"]


def test_an_error_inside_task_groups_is_found() -> None:
    error = DeadlineError("late")
    group = ExceptionGroup("outer", [ExceptionGroup("inner", [ValueError("bug"), error])])
    assert leaf_error(group) is error
    with pytest.raises(ExceptionGroup):
        leaf_error(ExceptionGroup("outer", [ValueError("bug")]))


def test_help_does_not_load_the_kafka_client() -> None:
    code = (
        "import sys; from services.cli.__main__ import main; main(['--help']);"
        "heavy = {'kio', 'aiokafka', 'pydantic', 'rich'};"
        "print(sorted(heavy & {name.split('.')[0] for name in sys.modules}))"
    )
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_tables_are_plain_without_a_terminal(estate: Path, capsys: Captured) -> None:
    main(["validate"])
    assert "\x1b" not in capsys.readouterr().out
