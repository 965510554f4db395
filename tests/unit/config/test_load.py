"""Reading the estate: what is right, and each way of being wrong, at its path and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorfleet.config.load import load_estate
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.core.ids import ClusterAlias, Link
from mirrorfleet.policy.naming import Naming
from mirrorfleet.records.catalog import Priority
from tests.unit.config.making import RIGHT, parse, problems


def test_the_estate_of_the_design_is_read() -> None:
    estate = parse()
    link = estate.links[0]
    rule = link.rules[0]
    assert estate.estate == "demo"
    assert estate.clusters["west"].bootstrap == ("127.0.0.1:29092", "127.0.0.1:29093")
    assert link.link == Link(ClusterAlias("east"), ClusterAlias("west"))
    assert (rule.name, rule.topics, rule.naming) == ("orders", ("orders.*",), Naming.PREFIX)
    assert (rule.priority, rule.start, rule.null_keys) == (Priority.HIGH, "earliest", "fail")
    assert (link.slots, link.delivery) == (16, "exactly-once")


def test_a_fleet_is_named_after_its_target_unless_told() -> None:
    assert parse().fleet_of("west") == "west"
    named = RIGHT.replace("    security:", "    fleet: main\n    security:")
    assert parse(named).fleet_of("west") == "main"


def test_links_are_found_by_their_target() -> None:
    estate = parse()
    assert estate.links_into("west") == estate.links
    assert estate.links_into("east") == ()
    assert estate.targets() == ("west",)
    with pytest.raises(ConfigError, match="'wst' is no cluster of the estate"):
        estate.links_into("wst")


def test_a_config_with_a_number_in_its_name_can_be_excluded() -> None:
    wanted = RIGHT.replace("naming: prefix", "configs_exclude: [compression.lz4.level]")

    (rule,) = parse(wanted).links[0].rules
    assert rule.configs_exclude == ("compression.lz4.level",)


def test_addresses_may_be_one_text() -> None:
    text = RIGHT.replace('"127.0.0.1:19092"', '"a:1, b:2,[::1]:3"')
    assert parse(text).clusters["east"].bootstrap == ("a:1", "b:2", "[::1]:3")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "topics:",
            "topcis:",
            (
                "estate.yaml:16 links[0].rules[0].topics: is missing.\n"
                "estate.yaml:17 links[0].rules[0].topcis: unknown key; did you mean 'topics'?."
            ),
        ),
        (
            "    rules:",
            "    rulez: []\n    rules:",
            "estate.yaml:15 links[0].rulez: unknown key; did you mean 'rules'?.",
        ),
        (
            "estate: demo",
            "estate: demo\nzzz: 1",
            (
                "estate.yaml:2 zzz: unknown key; valid here:"
                " clusters, estate, links, never, services, telemetry."
            ),
        ),
        (
            "protocol:",
            "protocl:",
            "estate.yaml:8 clusters.west.security.protocl: unknown key; did you mean 'protocol'?.",
        ),
        (
            "{env: W",
            "{evn: W",
            "estate.yaml:11 clusters.west.security.password.evn: unknown key; did you mean 'env'?.",
        ),
        (
            '["orders.*"]',
            "orders",
            "estate.yaml:17 links[0].rules[0].topics: should be a list (found 'orders').",
        ),
        ('["orders.*"]', "[]", "estate.yaml:17 links[0].rules[0].topics: is empty."),
        (
            '["orders.*"]',
            "[7]",
            "estate.yaml:17 links[0].rules[0].topics[0]: should be a string (found 7).",
        ),
        (
            '["orders.*"]',
            '["orders("]',
            (
                "estate.yaml:17 links[0].rules[0].topics[0]: 'orders(' is not a usable pattern:"
                " missing ), unterminated subpattern at position 6."
            ),
        ),
        (
            '["orders.*"]',
            '["a,b"]',
            (
                "estate.yaml:17 links[0].rules[0].topics[0]: 'a,b' has a comma, which no name has;"
                " write a list."
            ),
        ),
        (
            "priority: high",
            "priority: higher",
            (
                "estate.yaml:21 links[0].rules[0].priority: should be 'high', 'normal' or 'low'"
                " (found 'higher')."
            ),
        ),
        (
            "naming: prefix",
            "naming: template",
            (
                "estate.yaml:19 links[0].rules[0].naming: 'template' is not supported yet;"
                " use 'prefix' or 'identity'."
            ),
        ),
        (
            "    rules:",
            "    delivery: at-least-once\n    rules:",
            (
                "estate.yaml:15 links[0].delivery: 'at-least-once' is not supported yet;"
                " leave it out: delivery is exactly-once."
            ),
        ),
        (
            "to: west",
            "to: wset",
            "estate.yaml:14 links[0].to: 'wset' is no cluster of the estate; did you mean 'west'.",
        ),
        (
            "to: west",
            "to: mars",
            "estate.yaml:14 links[0].to: 'mars' is no cluster of the estate; known: east, west.",
        ),
        ("to: west", "to: east", "estate.yaml:13 links[0]: 'east' cannot be copied into itself."),
        (
            "127.0.0.1:29093",
            "127.0.0.1:19092",
            (
                "estate.yaml:13 links[0]: 'east' and 'west' have the same bootstrap"
                " 127.0.0.1:19092: that is one cluster under two names."
            ),
        ),
        (
            "127.0.0.1:19092",
            "127.0.0.1:kafka",
            (
                "estate.yaml:4 clusters.east.bootstrap[0]: port 'kafka' of '127.0.0.1:kafka' is"
                " not a number from 1 to 65535."
            ),
        ),
        (
            "127.0.0.1:19092",
            "127.0.0.1:65536",
            (
                "estate.yaml:4 clusters.east.bootstrap[0]: port '65536' of '127.0.0.1:65536' is"
                " not a number from 1 to 65535."
            ),
        ),
        (
            "127.0.0.1:19092",
            "localhost",
            "estate.yaml:4 clusters.east.bootstrap[0]: 'localhost' is not host:port.",
        ),
        (
            "{env: WEST_PASSWORD}",
            "hunter2",
            (
                "estate.yaml:11 clusters.west.security.password: a secret is never written here;"
                " write {env: NAME} or {file: path}."
            ),
        ),
        (
            "SCRAM-SHA-512",
            "GSSAPI",
            (
                "estate.yaml:9 clusters.west.security.mechanism: should be 'PLAIN',"
                " 'SCRAM-SHA-256', 'SCRAM-SHA-512' or 'OAUTHBEARER'."
            ),
        ),
        (
            "  west:\n",
            "  we.st:\n",
            (
                "estate.yaml:5 clusters.we.st: 'we.st' may hold letters, digits, '-' and '_' only,"
                " and no '.'."
            ),
        ),
        ("estate: demo\n", "", "estate.yaml:1 estate: is missing."),
        (
            "estate: demo",
            "estate: demo\nestate: demo",
            "estate.yaml:2 estate: stands twice (first in line 1).",
        ),
    ],
    ids=lambda value: value.split(": ", 1)[-1][:40].strip() if "estate.yaml" in value else "-",
)
def test_each_mistake_is_named_at_its_line(old: str, new: str, said: str) -> None:
    assert old in RIGHT
    assert problems(RIGHT.replace(old, new)) == said


def test_all_mistakes_are_listed_at_once() -> None:
    text = RIGHT.replace("naming:", "nameing:").replace("19092", "x").replace("from:", "form:")
    assert [line.split(": ")[0] for line in problems(text).splitlines()] == [
        "estate.yaml:4 clusters.east.bootstrap[0]",
        "estate.yaml:13 links[0].form",
        "estate.yaml:13 links[0].from",
        "estate.yaml:19 links[0].rules[0].nameing",
    ]


@pytest.mark.parametrize(
    ("security", "said"),
    [
        (
            "{protocol: SSL, username: a}",
            "protocol SSL has no SASL, so username does nothing; did you mean protocol SASL_SSL?",
        ),
        ("{protocol: SASL_SSL}", "protocol SASL_SSL needs a mechanism: PLAIN, "),
        (
            "{protocol: SASL_SSL, mechanism: PLAIN, username: a}",
            "mechanism PLAIN needs username and password",
        ),
        (
            "{protocol: SASL_PLAINTEXT, mechanism: PLAIN, username: a, password: {env: X}}",
            "PLAIN without TLS sends the password readable",
        ),
        (
            "{protocol: SASL_PLAINTEXT, mechanism: OAUTHBEARER, token_file: t}",
            "OAUTHBEARER without TLS sends the token readable; use SASL_SSL (or allow_insecure)",
        ),
        (
            "{protocol: SASL_SSL, mechanism: OAUTHBEARER}",
            "OAUTHBEARER needs either token_file or token_url",
        ),
        (
            "{protocol: SASL_SSL, mechanism: OAUTHBEARER, token_url: 'https://x/y'}",
            "token_url needs token_client_id and token_client_secret",
        ),
        (
            (
                "{protocol: SASL_SSL, mechanism: OAUTHBEARER, token_url: 'http://x/y',"
                " token_client_id: a, token_client_secret: {env: X}}"
            ),
            "token_url must be https",
        ),
        (
            (
                "{protocol: SASL_SSL, mechanism: OAUTHBEARER, token_url: 'https://a:b@x/y',"
                " token_client_id: a, token_client_secret: {env: X}}"
            ),
            "token_url must not hold a user",
        ),
        ("{protocol: SSL, cert_file: a.pem}", "cert_file and key_file belong together"),
        ("{ca_file: a.pem}", "protocol PLAINTEXT has no TLS, so ca_file does nothing"),
        (
            "{protocol: SASL_SSL, mechanism: PLAIN, username: a, password: {env: X, file: y}}",
            "write either {env: NAME} or {file: path}",
        ),
    ],
)
def test_security_that_cannot_work_is_refused(security: str, said: str) -> None:
    text = RIGHT.replace(
        '    bootstrap: "127.0.0.1:19092"', f'    bootstrap: "a:1"\n    security: {security}'
    )
    assert said in problems(text)


@pytest.mark.parametrize(
    "login",
    [
        "mechanism: PLAIN, username: a, password: {env: X}, allow_insecure: true",
        "mechanism: OAUTHBEARER, token_file: t, allow_insecure: true",
    ],
)
def test_a_readable_secret_without_tls_is_possible_for_those_who_ask(login: str) -> None:
    security = f"{{protocol: SASL_PLAINTEXT, {login}}}"
    text = RIGHT.replace(
        '    bootstrap: "127.0.0.1:19092"', f'    bootstrap: "a:1"\n    security: {security}'
    )
    assert parse(text).clusters["east"].security.allow_insecure


def test_links_and_rules_stand_once() -> None:
    again = "  - {from: east, to: west, rules: [{name: b, topics: [b]}, {name: b, topics: [c]}]}\n"
    assert problems(RIGHT + again).splitlines() == [
        "estate.yaml:22 links[1]: east->west is links[0] already; put its rules there.",
        "estate.yaml:22 links[1].rules[1].name: 'b' is the name of rules[0] already.",
    ]


def test_rules_that_overlap_are_refused_with_both_named() -> None:
    text = RIGHT + "      - {name: late, topics: [orders-late]}\n"
    assert problems(text) == (
        "estate.yaml:22 links[0].rules[1].topics: 'orders-late': east->west (orders),"
        " east->west (late): both rules take it, so it would be copied twice."
    )


def test_the_same_names_both_ways_are_refused() -> None:
    text = RIGHT.replace("naming: prefix", "naming: identity") + (
        '  - {from: west, to: east, rules: [{name: back, topics: [".*"], naming: identity}]}\n'
    )
    assert "east->west (orders), west->east (back): the same name both ways" in problems(text)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("latest", "latest"),
        ("offset:7", "offset:7"),
        ("timestamp:1700000000000", "timestamp:1700000000000"),
        ("timestamp:2023-11-14T22:13:20Z", "timestamp:1700000000000"),
        ("timestamp:2023-11-14T23:13:20+01:00", "timestamp:1700000000000"),
    ],
)
def test_a_start_is_kept_in_one_form(written: str, kept: str) -> None:
    text = RIGHT.replace("priority: high", f'start: "{written}"')
    assert parse(text).links[0].rules[0].start == kept


@pytest.mark.parametrize(
    "written",
    [
        "first",
        "offset:-1",
        "offset:",
        "timestamp:2023-11-14T22:13:20",
        "timestamp:0001-01-01T00:00+14:00",
        "timestamp:1969-12-31T23:59:59.999Z",
    ],
)
def test_a_start_that_is_none_is_refused(written: str) -> None:
    text = RIGHT.replace("priority: high", f'start: "{written}"')
    assert f"{written!r} is not earliest, latest, offset:N" in problems(text)


@pytest.mark.parametrize("kind", ["timestamp", "offset"])
@pytest.mark.parametrize("number", ["9223372036854775808", "9" * 5000])
def test_a_start_that_no_request_can_hold_is_refused(kind: str, number: str) -> None:
    largest = f"{kind}:9223372036854775807"
    text = RIGHT.replace("priority: high", f'start: "{kind}:{number}"')

    assert "is above 9223372036854775807, the largest number that Kafka takes" in problems(text)
    assert parse(text.replace(f"{kind}:{number}", largest)).links[0].rules[0].start == largest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [b", "estate.yaml:1 not YAML: expected ',' or ']', but got '<stream end>'."),
        (
            "a: b\n\tc: d",
            "estate.yaml:2 not YAML: found character '\\t' that cannot start any token.",
        ),
        ("- a", "estate.yaml:1 an estate is a mapping with 'estate', 'clusters' and 'links'."),
        ("", "estate.yaml:1 an estate is a mapping with 'estate', 'clusters' and 'links'."),
        (
            "a: !!python/object:os.system {}",
            "estate.yaml:1 not YAML: could not determine a constructor",
        ),
    ],
    ids=["unclosed", "tab", "list", "empty", "tag"],
)
def test_text_that_is_no_estate_is_refused(text: str, said: str) -> None:
    assert problems(text).startswith(said)


def test_a_missing_file_says_how_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_estate(tmp_path / "estate.yaml", {})
    assert str(caught.value) == (
        f"cannot read the estate file {tmp_path}/estate.yaml: No such file or directory."
        " Name it with --estate FILE."
    )


def test_a_line_is_known_for_every_path() -> None:
    estate = parse()
    assert estate.line_of("clusters.west.security.password") == 11
    assert estate.line_of("links[0].rules[0].topics[0]") == 17
    assert estate.line_of("links[0].rules[0].start") == 16
    assert estate.line_of("nothing.here") == 0
