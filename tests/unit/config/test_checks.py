"""What needs two parts of the estate: one cluster has one name, and its ACLs know ours."""

from __future__ import annotations

import pytest

from mirrorfleet.core.errors import ConfigError
from tests.unit.config.making import RIGHT, parse, problems


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        (
            "east",
            "twin",
            "links[1].to: 'west' and 'twin' have the same bootstrap 127.0.0.1:29093",
        ),
        (
            "again",
            "west",
            "links[1].from: 'east' and 'again' have the same bootstrap 127.0.0.1:19092",
        ),
    ],
    ids=["two targets", "two sources of one target"],
)
def test_one_cluster_under_two_names_is_refused_also_in_two_links(
    source: str, target: str, said: str
) -> None:
    twins = '  twin: {bootstrap: "127.0.0.1:29093"}\n  again: {bootstrap: "127.0.0.1:19092"}\n'
    link = f"  - {{from: {source}, to: {target}, rules: [{{name: more, topics: [a]}}]}}\n"

    with pytest.raises(ConfigError) as caught:
        parse(RIGHT.replace("links:\n", f"{twins}links:\n") + link)
    assert f"{said}: that is one cluster under two names." in caught.value.message


@pytest.mark.parametrize("host", ["b1..corp", "b" * 64])
def test_what_can_be_no_host_name_is_told_before_anybody_asks_for_it(host: str) -> None:
    said = (
        f"clusters.east.bootstrap[0]: '{host}' of '{host}:1' is no host name:"
        " each part has 1 to 63 letters."
    )
    assert problems(RIGHT.replace("127.0.0.1:19092", f"{host}:1")) == f"estate.yaml:4 {said}"


def test_a_cluster_may_have_another_name_for_the_way_back() -> None:
    twins = '  again: {bootstrap: "127.0.0.1:29092"}\n'
    link = "  - {from: again, to: east, rules: [{name: more, topics: [a]}]}\n"

    assert len(parse(RIGHT.replace("links:\n", f"{twins}links:\n") + link).links) == 2


MUTUAL = "protocol: SSL, cert_file: c, key_file: k"
TOKEN = "protocol: SASL_SSL, mechanism: OAUTHBEARER, token_file: t"


def following(policy: str, security: str) -> str:
    """An estate whose link follows ACLs of `east`, which is spoken to with `security`."""
    place = '    bootstrap: "127.0.0.1:19092"\n'
    text = RIGHT.replace(place, f"{place}    security: {{{security}}}\n")
    return text.replace("    to: west\n", f"    to: west\n    acls: {policy}\n")


@pytest.mark.parametrize("policy", ["add", "mirror"])
@pytest.mark.parametrize("security", [MUTUAL, TOKEN], ids=["certificate", "token"])
def test_acls_are_not_followed_while_nobody_says_which_of_them_are_our_own(
    policy: str, security: str
) -> None:
    assert problems(following(policy, security)) == (
        f"estate.yaml:16 links[0].acls: {policy} must leave out our own ACLs, and only 'east' knows"
        " whom our certificate or token means; write clusters.east.security.username: our name in"
        " its ACLs, without User:."
    )


@pytest.mark.parametrize(
    ("policy", "security"),
    [
        ("mirror", f"{MUTUAL}, username: CN=us"),
        ("add", f"{TOKEN}, username: us"),
        ("mirror", "protocol: SSL"),
        ("ignore", MUTUAL),
        ("ignore", TOKEN),
    ],
    ids=["certificate", "token", "anonymous", "no ACLs", "none with a token"],
)
def test_acls_are_followed_where_our_own_are_known(policy: str, security: str) -> None:
    assert parse(following(policy, security)).links[0].acls == policy
