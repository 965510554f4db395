"""An estate out of MirrorMaker 2's properties: the same flows, no secret, nothing lost unsaid."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from mirrorfleet.config.from_mm2 import Converted, converted, estate_from
from mirrorfleet.config.load import parse_estate
from mirrorfleet.config.properties import properties
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.policy.filters import compile_pattern

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
OF_SOURCE = "primary.consumer.auto.offset.reset=latest"
PAIR = """
clusters = primary, backup
primary.bootstrap.servers = p1:9092, p2:9092
backup.bootstrap.servers = b1:9093
primary->backup.enabled = true
"""


def made(text: str = "", base: str = PAIR) -> Converted:
    return converted(properties(base + text), "mm2")


def rule(text: str = "") -> dict[str, object]:
    (link,) = cast("list[dict[str, list[dict[str, object]]]]", made(text).estate["links"])
    return link["rules"][0]


def security(text: str) -> object:
    clusters = cast("dict[str, dict[str, object]]", made(text).estate["clusters"])
    return clusters["backup"].get("security")


def test_the_pair_of_the_handbook_becomes_an_estate_that_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(PAIR)

    found = estate_from(file, "dr")

    estate = parse_estate(found.text, "e", directory=tmp_path, env={})
    (link,) = estate.links
    assert (estate.estate, str(link.link), link.acls) == ("dr", "primary->backup", "add")
    assert estate.clusters["primary"].bootstrap == ("p1:9092", "p2:9092")
    assert link.rules[0].topics == (".*",)
    assert found.problem == ""
    assert any("adopt: true" in note for note in found.notes)


def test_what_is_said_of_a_flow_counts_more_than_what_is_said_of_all() -> None:
    said = "topics = a.*\nprimary->backup.topics = b.*, c\nreplication.factor = 3"
    assert (rule(said)["topics"], rule(said)["replication_factor"]) == (["b.*", "c"], 3)
    assert rule("replication.factor=-1")["replication_factor"] == "broker-default"
    assert rule("topics.blacklist = x.*")["exclude"] == ["x.*"]


def test_only_flows_that_are_enabled_are_links() -> None:
    both = made("backup->primary.enabled = true").estate["links"]
    links = cast("list[dict[str, object]]", both)
    assert [(each["from"], each["to"]) for each in links] == [
        ("primary", "backup"),
        ("backup", "primary"),
    ]
    with pytest.raises(ConfigError, match="no flow is enabled") as caught:
        made(base=PAIR.replace("true", "false"))
    assert "primary->backup.enabled = true" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("group", "is_taken"),
    [("orders", True), ("console-consumer-7", False), ("connect-x", False), ("__hidden", False)],
)
def test_groups_that_mirror_maker_leaves_out_are_left_out(group: str, *, is_taken: bool) -> None:
    (pattern,) = cast("list[str]", rule("groups = .*")["groups"])
    assert (compile_pattern(pattern).fullmatch(group) is not None) is is_taken


@pytest.mark.parametrize(
    ("said", "key", "value"),
    [
        (f"replication.policy.class={IDENTITY}", "naming", "identity"),
        ("sync.topic.configs.enabled=false", "configs", "ignore"),
        ("primary.consumer.auto.offset.reset=latest", "start", "latest"),
        (r"config.properties.exclude=a\\.b, c.d", "configs_exclude", ["a.b", "c.d"]),
    ],
)
def test_what_a_flow_does_is_what_the_rule_does(said: str, key: str, value: object) -> None:
    assert rule(said)[key] == value
    assert key not in rule()


def test_without_checkpoints_no_group_crosses() -> None:
    assert "groups" not in rule("emit.checkpoints.enabled = false")
    assert not any("group" in note for note in made("sync.group.offsets.enabled=true").notes)


JAAS = """
backup.sasl.jaas.config = org.apache.kafka.X required username="alice" password="hunter2";
"""


STORES = """
backup.security.protocol=ssl
backup.ssl.truststore.location=/ca.pem
backup.ssl.keystore.location=/k.p12
backup.ssl.key.password=hunter2
backup.ssl.endpoint.identification.algorithm=
"""
TOKEN = """
backup.security.protocol=SASL_SSL
backup.sasl.mechanism=OAUTHBEARER
backup.sasl.oauthbearer.token.endpoint.url=https://id/token
backup.sasl.jaas.config=X required clientId='me' clientSecret="hunter2" scope=k;
"""


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("", None),
        ("security.protocol = SSL", {"protocol": "SSL"}),
        (
            f"backup.security.protocol=SASL_SSL\nbackup.sasl.mechanism=SCRAM-SHA-512{JAAS}",
            {
                "protocol": "SASL_SSL",
                "mechanism": "SCRAM-SHA-512",
                "username": "alice",
                "password": {"env": "BACKUP_PASSWORD"},
            },
        ),
        (
            f"backup.security.protocol=SASL_PLAINTEXT\nbackup.sasl.mechanism=PLAIN{JAAS}",
            {
                "protocol": "SASL_PLAINTEXT",
                "mechanism": "PLAIN",
                "username": "alice",
                "password": {"env": "BACKUP_PASSWORD"},
                "allow_insecure": True,
            },
        ),
        (
            STORES,
            {
                "protocol": "SSL",
                "check_hostname": False,
                "ca_file": "/ca.pem",
                "cert_file": "backup-cert.pem",
                "key_file": "backup-key.pem",
            },
        ),
        (
            TOKEN,
            {
                "protocol": "SASL_SSL",
                "mechanism": "OAUTHBEARER",
                "token_url": "https://id/token",
                "token_client_id": "me",
                "token_client_secret": {"env": "BACKUP_CLIENT_SECRET"},
                "token_scope": "k",
            },
        ),
    ],
    ids=["none", "TLS of all", "SCRAM", "readable", "stores", "token"],
)
def test_a_login_is_said_without_its_secret(said: str, found: object) -> None:
    assert security(said) == found
    assert "hunter2" not in str(made(said))


def test_what_is_not_carried_over_is_named_with_why_and_without_its_value() -> None:
    notes = "\n".join(made("tasks.max=10\nprimary.consumer.x=1\nweird.key=hunter2").notes)

    assert "side by side: tasks.max." in notes
    assert "primary.consumer.x" in notes
    assert "not carried over, for nothing here is like it: weird.key." in notes
    assert "hunter2" not in notes


def test_heartbeats_keep_their_pace_or_are_not_to_be_run() -> None:
    assert made("emit.heartbeats.interval.seconds=5").estate["services"] == {
        "heartbeat": {"period_s": 5}
    }
    off = made("primary->backup.emit.heartbeats.enabled=false")
    assert "services" not in off.estate
    assert any("do not run the service `heartbeat`" in note for note in off.notes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a=1", "no key `clusters`"),
        ("clusters=a,b\na->b.enabled=true", r"a\.bootstrap\.servers is missing"),
    ],
)
def test_what_makes_no_estate_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(base=text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PAIR.replace("primary", "pri.mary"), "may hold letters, digits"),
        (PAIR.replace("b1:9093", "${vault:b1}"), "is not a number from 1 to 65535"),
        (
            f"{PAIR}backup.security.protocol=SASL_SSL\nbackup.sasl.mechanism=GSSAPI",
            "should be 'PLAIN'",
        ),
    ],
    ids=["alias", "provider", "Kerberos"],
)
def test_what_is_not_possible_here_is_shown_all_the_same_with_what_is_wrong(
    text: str, said: str
) -> None:
    found = made(base=text)

    assert said in found.problem
    assert "bootstrap" in found.text
    assert found.notes


@pytest.mark.parametrize("word", ["TRUE", "True ", "true"])
def test_switches_are_read_in_any_case(word: str) -> None:
    base = PAIR.replace("true", word)
    switches = ("sync.topic.acls", "sync.topic.configs", "emit.checkpoints")
    off = "\n".join(f"{each}.enabled = fALSE" for each in switches)
    (link,) = cast("list[dict[str, object]]", made(off, base).estate["links"])
    (only,) = cast("list[dict[str, object]]", link["rules"])

    assert "acls" not in link
    assert (only["configs"], "groups" in only) == ("ignore", False)
    odd = made("sync.topic.acls.enabled=yes", base).notes
    assert "sync.topic.acls.enabled is neither true nor false: taken as true." in odd


def test_an_empty_list_is_one_and_not_the_default() -> None:
    assert "exclude" not in rule("topics.exclude=")
    assert rule("groups.exclude=")["groups"] == [".*"]
    assert "groups" not in rule("groups =")
    nothing = made("primary->backup.topics =")
    assert nothing.estate["links"] == []
    assert (
        "primary->backup: `topics` is empty: nothing is copied, and it has no link."
        in nothing.notes
    )


@pytest.mark.parametrize(
    ("said", "is_latest"),
    [
        ("consumer.auto.offset.reset=latest", False),
        (OF_SOURCE, True),
        ("primary->backup.consumer.auto.offset.reset=latest", True),
        (
            f"{OF_SOURCE}\nprimary->backup.consumer.auto.offset.reset=earliest",
            True,
        ),
        (
            f"{OF_SOURCE}\nprimary->backup.source.consumer.auto.offset.reset=earliest",
            False,
        ),
    ],
)
def test_a_backlog_is_left_out_where_mirror_maker_leaves_it_out_and_that_is_said(
    said: str, *, is_latest: bool
) -> None:
    assert ("start" in rule(said)) is is_latest
    assert any("is not copied." in note for note in made(said).notes) is is_latest


def test_copies_under_another_separator_are_copied_nowhere() -> None:
    both = "replication.policy.separator = _\nbackup->primary.enabled = true"
    for link in cast("list[dict[str, list[dict[str, object]]]]", made(both).estate["links"]):
        (only,) = link["rules"]
        patterns = [compile_pattern(each) for each in cast("list[str]", only["exclude"])]
        for topic, is_left in (("primary_orders", True), ("backup_x", True), ("orders", False)):
            assert any(p.fullmatch(topic) for p in patterns) is is_left
    identity = made(f"replication.policy.separator=_\nreplication.policy.class={IDENTITY}")
    assert not any("separator" in note or "'_'" in note for note in identity.notes)


@pytest.mark.parametrize("client", ["producer", "consumer", "admin"])
def test_a_login_of_one_client_is_the_clusters(client: str) -> None:
    said = f"backup.{client}.security.protocol=SASL_SSL\nbackup.{client}.sasl.mechanism=PLAIN"
    assert security(said) == {
        "protocol": "SASL_SSL",
        "mechanism": "PLAIN",
        "username": "USER",
        "password": {"env": "BACKUP_PASSWORD"},
    }
    several = made(f"{said}\nbackup.security.protocol=SSL").notes
    assert "backup: its clients have several values of security.protocol; one is taken." in several


@pytest.mark.parametrize(
    ("jaas", "user"),
    [
        ('x required password="a username=hunter2" username="alice";', "alice"),
        ("x required username='al' password='hunter2';", "al"),
        (r'x required username="al\\"ice" password="hunter2";', 'al"ice'),
        ("x required password=hunter2;", "USER"),
    ],
)
def test_no_part_of_a_secret_is_taken_for_a_name(jaas: str, user: str) -> None:
    login = "backup.security.protocol=SASL_SSL\nbackup.sasl.mechanism=PLAIN"
    said = f"{login}\nbackup.sasl.jaas.config={jaas}"

    assert cast("dict[str, object]", security(said))["username"] == user
    assert "hunter2" not in str(made(said))


def test_lines_of_a_key_that_was_pasted_are_counted_and_not_told() -> None:
    pasted = (
        "backup.ssl.keystore.key=-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEF/+=="
    )
    notes = "\n".join(made(pasted).notes)

    assert "2 lines begin with what is no key" in notes
    assert "MIIE" not in notes
    assert "hkiG" not in notes


def test_a_value_of_a_config_provider_is_to_be_written_in() -> None:
    notes = made("topics=${file:/o:topics}\nreplication.factor=${file:/o:f}").notes

    assert [
        note for note in notes if note.startswith("topics: its value comes of a config provider")
    ]
    assert "primary->backup: replication.factor is no number, and is left out." in notes


@pytest.mark.parametrize("said", [STORES, TOKEN])
def test_acls_do_not_follow_where_nobody_knows_who_we_are(said: str) -> None:
    found = made(said)

    assert "acls" not in cast("list[dict[str, object]]", found.estate["links"])[0]
    assert any("write clusters.backup.security.username" in note for note in found.notes)
    assert found.problem == ""


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.properties: No such file"):
        estate_from(tmp_path / "nowhere.properties", "mm2")
