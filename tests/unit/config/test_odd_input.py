"""Input that is odd rather than mistaken: it is told in words, too, and at its line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mirrorfleet.config.load import load_estate
from mirrorfleet.core.errors import ConfigError
from tests.unit.config.making import RIGHT, parse, problems

if TYPE_CHECKING:
    from pathlib import Path


def test_mistakes_of_one_place_are_all_told_in_the_order_of_their_words() -> None:
    itself = "  - {from: east, to: east, rules: [{name: a, topics: [a]}]}\n"
    assert problems(RIGHT + itself + itself).splitlines() == [
        "estate.yaml:22 links[1]: 'east' cannot be copied into itself.",
        "estate.yaml:23 links[2]: 'east' cannot be copied into itself.",
        "estate.yaml:23 links[2]: east->east is links[1] already; put its rules there.",
    ]
    assert problems(RIGHT.replace("estate: demo", "estate: demo\nzzz: 1\nzzz: 2")).splitlines() == [
        "estate.yaml:3 zzz: stands twice (first in line 2).",
        (
            "estate.yaml:3 zzz: unknown key; valid here:"
            " clusters, estate, links, never, services, telemetry."
        ),
    ]


@pytest.mark.parametrize("value", ["2026-13-45", "2026-02-31", "2026-01-01 25:00:00"])
def test_what_only_looks_like_a_time_is_named_at_its_line(value: str) -> None:
    said = problems(RIGHT.replace("priority: high", f"start: {value}"))
    assert said.startswith("estate.yaml:21 not YAML: ")


def test_a_tag_that_does_not_fit_is_named_at_its_line() -> None:
    for value in ("!!bool maybe", "!!timestamp maybe", "!!int ''", "!!float ''"):
        said = problems(RIGHT.replace("priority: high", f"priority: {value}"))
        assert said.startswith("estate.yaml:21 not YAML: "), value


@pytest.mark.parametrize("value", ["&self [*self]", "[" * 2_000 + "]" * 2_000])
def test_an_estate_that_never_ends_or_is_too_deep_is_refused(value: str) -> None:
    said = problems(RIGHT.replace("priority: high", f"priority: {value}"))
    assert "nested too deep, or an anchor that holds itself" in said


def test_tuning_that_no_service_would_read_is_refused() -> None:
    assert problems(RIGHT + "services:\n  sync: {}\n  mirorr: {x: 1}\n") == (
        "estate.yaml:24 services.mirorr: 'mirorr' is no service; did you mean 'mirror'."
    )


def test_a_number_too_large_to_be_written_out_is_named_at_its_line() -> None:
    said = problems(RIGHT.replace("to: west", f"to: west\n    slots: 0x{'f' * 5_000}"))
    assert said == (
        "estate.yaml:15 links[0].slots: should be less than or equal to 10000"
        " (found a number too long to show)."
    )


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ("telemetry: https://me:hunter2@c:4318", "telemetry"),
        ("telemetry: {endpoint: ['https://me:hunter2@c:4318']}", "telemetry.endpoint"),
        ("telemetry: {headers: api-key=hunter2}", "telemetry.headers"),
        ("services: {console: hunter2}", "services.console"),
        ("never: {security: {password: hunter2}}", "never"),
    ],
)
def test_what_may_be_a_secret_is_not_repeated(more: str, path: str) -> None:
    said = problems(f"{RIGHT}{more}\n")
    assert said.startswith(f"estate.yaml:22 {path}: should be a ")
    assert "hunter2" not in said


@pytest.mark.parametrize("value", ["!hunter2", "*hunter2", "!hunter2!x y"])
def test_a_secret_that_yaml_takes_for_a_tag_or_an_alias_is_not_repeated(value: str) -> None:
    said = problems(f"{RIGHT}services:\n  console:\n    token: {value}\n")
    assert said.startswith("estate.yaml:24 not YAML: ")
    assert said.endswith("; text that begins with '!', '*' or '&' is to stand in quotes.")
    assert "hunter" not in said


def test_a_word_that_would_make_a_name_too_long_for_kafka_is_refused() -> None:
    text = """
estate: WORD
clusters:
  WORD: {bootstrap: "h:1", fleet: WORD}
links:
  - {from: WORD, to: WORD, rules: [{name: WORD, topics: [a]}]}
"""
    why = "has 201 letters; with more than 200 of them topics of ours get names too long for Kafka."

    assert "letters" not in problems(text.replace("WORD", "x" * 200))
    assert problems(text.replace("WORD", "x" * 201)).splitlines() == [
        f"estate.yaml:2 estate: {why}",
        f"estate.yaml:4 clusters.{'x' * 201}: {why}",
        f"estate.yaml:4 clusters.{'x' * 201}.fleet: {why}",
        f"estate.yaml:6 links[0].rules[0].name: {why}",
    ]


@pytest.mark.parametrize("url", ["https://", "https:///x", "https://h:99999/x", "https://[h/x"])
def test_a_token_url_without_a_host_or_with_a_port_that_is_none_is_refused(url: str) -> None:
    login = "token_client_id: a, token_client_secret: {env: X}"
    security = f"{{protocol: SASL_SSL, mechanism: OAUTHBEARER, token_url: '{url}', {login}}}"
    text = RIGHT.replace("  east:\n", f"  east:\n    security: {security}\n")
    assert problems(text) == (
        "estate.yaml:4 clusters.east.security: token_url is not https://host:port/path."
    )


@pytest.mark.parametrize("factor", ["three", "0", "32768", "1.5", "yes", "[3]"])
def test_a_replication_factor_that_is_none_is_one_problem_where_it_stands(factor: str) -> None:
    of_cluster = RIGHT.replace("    security:", f"    replication_factor: {factor}\n    security:")
    of_rule = RIGHT.replace("priority: high", f"replication_factor: {factor}")
    said = "replication_factor: should be a number from 1 to 32767, 'source' or 'broker-default'."

    assert problems(of_cluster) == f"estate.yaml:7 clusters.west.{said}"
    assert problems(of_rule) == f"estate.yaml:21 links[0].rules[0].{said}"


@pytest.mark.parametrize("factor", ["1", "32767", "source", "broker-default"])
def test_each_replication_factor_that_there_is_is_taken(factor: str) -> None:
    estate = parse(RIGHT.replace("priority: high", f"replication_factor: {factor}"))

    assert str(estate.links[0].rules[0].replication_factor) == factor


@pytest.mark.parametrize("header", ["authorization", "x.scope.id"])
def test_an_unknown_key_of_a_header_is_told_with_those_of_a_secret(header: str) -> None:
    def said(key: str) -> str:
        return problems(f"{RIGHT}telemetry: {{headers: {{{header}: {{{key}: X}}}}}}\n")

    path = f"estate.yaml:22 telemetry.headers.{header}"
    assert said("envv") == f"{path}.envv: unknown key; did you mean 'env'?."
    assert said("zzz") == f"{path}.zzz: unknown key; valid here: env, file."


def test_what_is_left_empty_or_is_no_mapping_is_told_without_names_of_our_classes() -> None:
    empty = RIGHT.replace('  east:\n    bootstrap: "127.0.0.1:19092"\n', "  east:\n")

    assert problems(empty) == "estate.yaml:3 clusters.east: should be a mapping (found None)."
    assert problems(f"{RIGHT}telemetry:\n") == "estate.yaml:22 telemetry: should be a mapping."
    assert problems(RIGHT.replace("rules:", "rules:\n      -")).startswith(
        "estate.yaml:16 links[0].rules[0]: should be a mapping (found None)."
    )


@pytest.mark.parametrize(
    ("alias", "taken"), [("no", "true or false"), ("7", "a number"), ("2026-02-31", "a time")]
)
def test_a_name_that_yaml_takes_for_something_else_is_named_where_it_stands(
    alias: str, taken: str
) -> None:
    text = RIGHT.replace("  east:", f"  {alias}:").replace("from: east", f'from: "{alias}"')

    assert problems(text) == (
        f"estate.yaml:3 clusters.{alias}: YAML takes this name for {taken}; write it in quotes."
    )
    assert set(parse(text.replace(f"  {alias}:", f'  "{alias}":')).clusters) == {alias, "west"}


def test_keys_that_are_merged_from_elsewhere_are_none_to_quote() -> None:
    both = 'bootstrap: ["127.0.0.1:29092", "127.0.0.1:29093"]'
    text = RIGHT.replace("east:", "east: &east", 1).replace(both, f"<<: *east\n    {both}")

    assert parse(text).clusters["west"].bootstrap == ("127.0.0.1:29092", "127.0.0.1:29093")


@pytest.mark.parametrize(
    ("character", "told"), [("\x07", "U+0007"), ("\0", "U+0000"), ("\ufffe", "U+FFFE")]
)
def test_a_character_that_no_yaml_holds_is_named_at_its_line(character: str, told: str) -> None:
    said = problems(RIGHT.replace("priority: high", f"priority: hi{character}gh"))

    assert said == (
        f"estate.yaml:21 not YAML: the character {told}: special characters are not allowed."
    )


def test_a_file_that_is_not_utf_8_is_to_be_saved_so_and_its_line_told(tmp_path: Path) -> None:
    file = tmp_path / "estate.yaml"
    file.write_bytes(RIGHT.replace("name: orders", "name: M\xfcller").encode("latin-1"))

    with pytest.raises(ConfigError) as caught:
        load_estate(file, {})

    assert str(caught.value) == (f"{file}:16 not UTF-8 text: byte 0xfc. Save the file as UTF-8.")
    assert caught.value.line == 16
