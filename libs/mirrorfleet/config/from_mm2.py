"""An estate out of the properties that MirrorMaker 2 runs with (MirrorMakerConfig, KIP-382).

    clusters, ALIAS.bootstrap.servers, logins      clusters; secrets as {env: NAME}, never values
    A->B.enabled=true, topics, groups, policies    a link with one rule
    the rest                                       named, with why it is left out

What is said of a flow counts more than what is said of all (`A->B.topics`, `topics`), and what is
said of a cluster more than what is said of all (`A.ssl.*`, `ssl.*`). An empty list is one: of an
empty `topics` nothing is copied. No value is told of a key that is left out: it may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from mirrorfleet.config.load import parse_estate
from mirrorfleet.config.mm2_logins import LOGIN_KEYS, security_of
from mirrorfleet.config.properties import properties
from mirrorfleet.core.errors import ConfigError

_TOPICS_EXCLUDED: Final = r".*[\-\.]internal,.*\.replica,__.*"
_GROUPS_EXCLUDED: Final = "console-consumer-.*,connect-.*,__.*"
_OLD_NAMES: Final = {
    "topics.exclude": "topics.blacklist",
    "groups.exclude": "groups.blacklist",
    "config.properties.exclude": "config.properties.blacklist",
}
"""As they were called before Kafka 4.0."""
_CLIENTS: Final = ("producer", "consumer", "admin")
"""Each may have a login of its own."""
_RESET: Final = "auto.offset.reset"
_WHO: Final = "username"
_POLICIES: Final = {
    "org.apache.kafka.connect.mirror.DefaultReplicationPolicy": "prefix",
    "org.apache.kafka.connect.mirror.IdentityReplicationPolicy": "identity",
}
_NEEDLESS: Final = (
    ("tasks.max", "workers share the slots; `slots` of the link is the most that run side by side"),
    (r"(refresh|sync|emit)\..*\.interval\.seconds|offset\.lag\.max", "changes are seen in seconds"),
    (
        r"(offset-syncs|checkpoints|heartbeats|offsets|status|config|offset)\.(storage|topic)\..*",
        "control topics have names of their own, and the target's replication factor",
    ),
    (r"exactly\.once\..*|transaction\.boundary.*", "each record is copied exactly once"),
    (
        r"(.*\.)?(producer|consumer|admin)\..*|.*\.override\..*",
        "what a client of Kafka's is tuned by is measured here",
    ),
    (
        r"((key|value|header)\.converter|listeners|rest|dedicated|metric|config\.providers|task).*",
        "there is no Kafka Connect",
    ),
    (r"group\.id|client\.id|plugin\.path|worker\..*|.*timeout\.ms", "there is no Kafka Connect"),
)
"""Keys that have no counterpart, and why none is missed."""
_RAREST_S: Final = 60
"""Between two heartbeats: with fewer the topology would look broken."""
_UNKNOWN: Final = "for nothing here is like it"
_CONFIG: Final = re.compile(r"[a-z][a-z0-9.]*")
_A_KEY: Final = re.compile(r"[\w>-]+(\.[\w>-]+)+")


@dataclass(frozen=True, slots=True)
class Converted:
    """The estate as plain data, and what a person is to know or do."""

    estate: dict[str, object]
    notes: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The estate file."""
        return yaml.safe_dump(self.estate, sort_keys=False, allow_unicode=True)

    @property
    def problem(self) -> str:
        """Why it is not valid as it is; "" where it is."""
        try:
            parse_estate(self.text, "estate", directory=Path(), env={})
        except ConfigError as error:
            return error.message
        return ""


class _Flow(NamedTuple):
    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


class _Keys:
    """Keys that are asked for; which were not is told at the end."""

    def __init__(self, said: Mapping[str, str]) -> None:
        self._said = said
        self._asked: set[str] = set()
        self.notes: list[str] = []
        """What a person is to know or do."""

    def get(self, *names: str) -> str | None:
        """What the first of these says that is there. All are dealt with."""
        self._asked.update(names)
        name = next((name for name in names if name in self._said), None)
        if name is None:
            return None
        if "${" in self._said[name]:
            self.notes.append(
                f"{name}: its value comes of a config provider, which there is none of here:"
                " write what it stands for."
            )
        return self._said[name]

    def of_flow(self, flow: _Flow, key: str) -> str | None:
        """Of a flow, or of all; also under the name of before."""
        old = _OLD_NAMES.get(key, key)
        return self.get(f"{flow}.{key}", f"{flow}.{old}", key, old)

    def is_on(self, flow: _Flow, key: str, *, otherwise: bool) -> bool:
        """A switch of a flow, or of all."""
        return self.switch(self.of_flow(flow, key), key, otherwise=otherwise)

    def switch(self, value: str | None, key: str, *, otherwise: bool) -> bool:
        """As Kafka reads it: in any case of letters."""
        word = "" if value is None else value.strip().lower()
        if word not in {"", "true", "false"}:
            self.notes.append(
                f"{key} is neither true nor false: taken as {str(otherwise).lower()}."
            )
        return word == "true" if word in {"true", "false"} else otherwise

    def login(self, alias: str, key: str) -> str | None:
        """Of a cluster, of one of its clients, or of all."""
        clients = [f"{alias}.{client}.{key}" for client in _CLIENTS]
        said = {self._said[name] for name in (f"{alias}.{key}", *clients) if name in self._said}
        if len(said) > 1:
            self.notes.append(f"{alias}: its clients have several values of {key}; one is taken.")
        return self.get(f"{alias}.{key}", *clients, key)

    def left(self) -> list[str]:
        """Keys that nobody asked for."""
        return sorted(self._said.keys() - self._asked)


def estate_from(file: Path, name: str) -> Converted:
    """An estate of that name for the properties of a file. Raises: ConfigError, as `converted`."""
    try:
        said = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}.") from None
    return converted(properties(said), name)


def converted(said: Mapping[str, str], name: str) -> Converted:
    """An estate of that name. Raises: ConfigError where there is none to be made of it."""
    keys = _Keys(said)
    aliases = _list(keys.get("clusters"))
    if not aliases:
        raise ConfigError(
            "no key `clusters`: this is not what connect-mirror-maker.sh runs with.",
            hint="Of connectors on Kafka Connect: write clusters=SOURCE,TARGET above their keys.",
        )
    clusters = {alias: _cluster(keys, alias) for alias in aliases}
    flows = [_Flow(*pair) for pair in permutations(aliases, 2)]
    wanted = [(flow, f"{flow}.enabled") for flow in flows]
    enabled = [flow for flow, key in wanted if keys.switch(keys.get(key), key, otherwise=False)]
    if not enabled:
        raise ConfigError(
            "no flow is enabled.", hint=f"One is by: {aliases[0]}->{aliases[-1]}.enabled = true"
        )
    links = [link for flow in enabled if (link := _link(keys, flow, aliases, clusters))]
    estate: dict[str, object] = {"estate": name, "clusters": clusters, "links": links}
    if beats := _heartbeats(keys, enabled):
        estate["services"] = {"heartbeat": beats}
    return Converted(estate, list(dict.fromkeys([*keys.notes, *_left(keys, flows)])))


def _cluster(keys: _Keys, alias: str) -> dict[str, object]:
    servers = keys.get(f"{alias}.bootstrap.servers", "bootstrap.servers")
    if not servers:
        raise ConfigError(f"{alias}.bootstrap.servers is missing.")
    login = {key: value for key in LOGIN_KEYS if (value := keys.login(alias, key)) is not None}
    security = security_of(alias, login, keys.notes)
    return {"bootstrap": _list(servers), **({"security": security} if security else {})}


def _link(
    keys: _Keys, flow: _Flow, aliases: Sequence[str], clusters: Mapping[str, Mapping[str, object]]
) -> dict[str, object]:
    """Empty where it copies nothing."""
    topics = _list(keys.of_flow(flow, "topics"), ".*")
    rule: dict[str, object] = {"name": "all", "topics": topics}
    excluded = _list(keys.of_flow(flow, "topics.exclude"), _TOPICS_EXCLUDED)
    groups = _groups(keys, flow)
    naming, theirs = _naming(keys, flow, aliases)
    if excluded or theirs:
        rule["exclude"] = excluded + theirs
    rule |= groups | naming | _terms(keys, flow)
    if not topics:
        keys.notes.append(f"{flow}: `topics` is empty: nothing is copied, and it has no link.")
        return {}
    found: dict[str, object] = {"from": flow.source, "to": flow.target, "rules": [rule]}
    if keys.is_on(flow, "sync.topic.acls.enabled", otherwise=True):
        found |= _acls(keys, flow, clusters)
    if not keys.is_on(flow, "refresh.topics.enabled", otherwise=True):
        keys.notes.append(f"{flow}: new topics are looked for; `apply: manual` only reports them.")
    keys.notes.append(
        f"{flow}: copies that MirrorMaker 2 made are refused until the rule says `adopt: true`;"
        " docs/migrating.md says how to go on exactly where it ended."
    )
    return found


def _acls(
    keys: _Keys, flow: _Flow, clusters: Mapping[str, Mapping[str, object]]
) -> dict[str, object]:
    """They follow where it is known who we are: our own grants are left alone."""
    logins = {alias: clusters[alias].get("security") for alias in flow}
    unnamed = [a for a, login in logins.items() if isinstance(login, dict) and not login.get(_WHO)]
    for alias in unnamed:
        keys.notes.append(
            f"{flow}: no ACL follows: write clusters.{alias}.security.{_WHO}, what ACLs have after"
            " User: for us, and `acls: add` in the link."
        )
    return {} if unnamed else {"acls": "add"}


def _groups(keys: _Keys, flow: _Flow) -> dict[str, object]:
    wanted = _list(keys.of_flow(flow, "groups"), ".*")
    excluded = "|".join(_list(keys.of_flow(flow, "groups.exclude"), _GROUPS_EXCLUDED))
    synced = keys.is_on(flow, "sync.group.offsets.enabled", otherwise=False)
    if not wanted or not keys.is_on(flow, "emit.checkpoints.enabled", otherwise=True):
        return {}
    if not synced:
        keys.notes.append(
            f"{flow}: MirrorMaker 2 set no group's offsets on {flow.target}"
            " (sync.group.offsets.enabled); here `checkpoint` keeps each group of the rule in its"
            " place. Take `groups` out where that is not wanted."
        )
    return {"groups": [f"(?!(?:{excluded})$)(?:{each})" if excluded else each for each in wanted]}


def _naming(
    keys: _Keys, flow: _Flow, aliases: Sequence[str]
) -> tuple[dict[str, object], list[str]]:
    """How copies are named, and the names that MirrorMaker 2 gave which are no copies here."""
    policy = keys.of_flow(flow, "replication.policy.class") or ""
    separator = keys.of_flow(flow, "replication.policy.separator") or "."
    keys.of_flow(flow, "replication.policy.internal.topic.separator.enabled")
    if _POLICIES.get(policy) == "identity":
        return {"naming": "identity"}, []
    if policy and policy not in _POLICIES:
        keys.notes.append(
            f"{flow}: replication.policy.class is one of your own: copies get the name"
            f" `{flow.source}.TOPIC` here, or TOPIC with `naming: identity`."
        )
    if separator == ".":
        return {}, []
    keys.notes.append(
        f"{flow}: copies are named with '.' here; those that MirrorMaker 2 named with {separator!r}"
        " stay beside, and are copied nowhere (`exclude`)."
    )
    return {}, [f"{re.escape(alias + separator)}.*" for alias in aliases]


def _terms(keys: _Keys, flow: _Flow) -> dict[str, object]:
    """Configs, copies of new topics, and where copying begins."""
    found: dict[str, object] = {}
    if not keys.is_on(flow, "sync.topic.configs.enabled", otherwise=True):
        found["configs"] = "ignore"
    names = [n.replace("\\.", ".") for n in _list(keys.of_flow(flow, "config.properties.exclude"))]
    if plain := [each for each in names if _CONFIG.fullmatch(each)]:
        found["configs_exclude"] = plain
    if patterns := [each for each in names if each not in plain]:
        keys.notes.append(
            f"{flow}: config.properties.exclude has patterns, and `configs_exclude` takes names:"
            f" {', '.join(patterns)}."
        )
    factor = keys.of_flow(flow, "replication.factor")
    if factor is not None and re.fullmatch(r"-?\d+", factor):
        found["replication_factor"] = int(factor) if int(factor) > 0 else "broker-default"
    elif factor is not None:
        keys.notes.append(f"{flow}: replication.factor is no number, and is left out.")
    # as MirrorSourceConfig looks for it; nothing is read of what is said of all
    reset = keys.get(
        f"{flow}.source.consumer.{_RESET}",
        f"{flow.source}.consumer.{_RESET}",
        f"{flow}.consumer.{_RESET}",
    )
    if reset == "latest":
        keys.notes.append(f"{flow}: what a partition has when it is first seen is not copied.")
        found["start"] = "latest"
    return found


def _heartbeats(keys: _Keys, flows: Sequence[_Flow]) -> dict[str, object]:
    on = {keys.is_on(flow, "emit.heartbeats.enabled", otherwise=True) for flow in flows}
    if on == {False}:
        keys.notes.append("emit.heartbeats.enabled=false: do not run the service `heartbeat`.")
    every_s = keys.get("emit.heartbeats.interval.seconds")
    if every_s is None or every_s == "1":
        return {}
    if every_s.isdigit() and 1 < int(every_s) <= _RAREST_S:
        return {"period_s": int(every_s)}
    keys.notes.append(f"heartbeats are written each second, at most each {_RAREST_S} s.")
    return {}


def _left(keys: _Keys, flows: Sequence[_Flow]) -> Iterator[str]:
    """Keys that are not carried over, by the reason; of what looks like no key how many."""
    owners = [f"{flow}." for flow in flows] + [f"{flow.source}." for flow in flows]
    why: dict[str, list[str]] = {}
    strange = 0
    for key in keys.left():
        if _A_KEY.fullmatch(key) is None:
            strange += 1
            continue
        bare = key.removeprefix(next((each for each in owners if key.startswith(each)), ""))
        reason = next((each for like, each in _NEEDLESS if re.fullmatch(like, bare)), _UNKNOWN)
        why.setdefault(reason, []).append(key)
    for reason, names in why.items():
        yield f"not carried over, {reason}: {', '.join(names)}."
    if strange:
        yield f"{strange} lines begin with what is no key: is a value of several lines cut there?"


def _list(text: str | None, otherwise: str = "") -> list[str]:
    """Its parts; those of `otherwise` only where nothing was said."""
    said = otherwise if text is None else text
    return [part.strip() for part in said.split(",") if part.strip()]
