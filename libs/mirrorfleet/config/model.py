"""The estate: every cluster and every rule, as the operator wrote it in `estate.yaml`.

Frozen pydantic models; unknown keys are refused. What needs two parts of the file at once is in
`config.checks`, reading and error texts are in `config.load`. Secrets are never values here, only
where they are: `{env: NAME}` or `{file: path}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    StrictBool,
    StrictInt,
    StrictStr,
    field_serializer,
)

from mirrorfleet.config.keys import NO_SWITCH
from mirrorfleet.config.redaction import HIDDEN
from mirrorfleet.config.security import Secret, SecurityModel, Strict
from mirrorfleet.config.sizes import Throttle
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.core.ids import ClusterAlias, FleetName, Link
from mirrorfleet.planning.rules import Apply, ConfigPolicy
from mirrorfleet.policy.filters import compile_pattern
from mirrorfleet.policy.flows import AclPolicy
from mirrorfleet.policy.naming import Naming
from mirrorfleet.records.catalog import Priority

# No '.', because MM2 names end a hop at it; topic names and transactional ids hold these words.
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
# Kafka takes 249 letters; the longest of ours are `mm2-offset-syncs.<alias>.internal` and the like.
_LONGEST_WORD: Final = 200
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # a token of RFC 9110
_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:/@\[\]]+):(?P<port>[^:]+)")
_FIRST_MOMENT: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST: Final = 2**63 - 1
DEFAULT_SLOTS: Final = 16


def http_url(value: str) -> str:
    """An http or https address without a user or query in it. Raises: ValueError."""
    # first of all, because either may be a secret, and what follows repeats the address
    if any(sign in value for sign in "@?#"):
        raise ValueError("an address must not hold a user, '?' or '#'; use headers")
    try:
        url = urlsplit(value)
        complete = url.scheme in {"http", "https"} and url.hostname and (url.port or 1)
    except ValueError:
        complete = False
    if not complete:
        raise ValueError(f"{value!r} is not http://host:port")
    return value


def _word(value: str) -> str:
    if _WORD.fullmatch(value) is None:
        raise ValueError(f"{value!r} may hold letters, digits, '-' and '_' only, and no '.'")
    if len(value) > _LONGEST_WORD:
        raise ValueError(
            f"has {len(value)} letters; with more than {_LONGEST_WORD} of them topics of ours get"
            " names too long for Kafka"
        )
    return value


def _header_name(value: str) -> str:
    """With another one each export would fail, here or at the collector."""
    if _HEADER_NAME.fullmatch(value) is None:
        raise ValueError("a header's name has only letters, digits and !#$%&'*+.^_`|~-")
    return value


def _addresses(value: object) -> object:
    """A text with commas and a list are the same."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _address(value: str) -> str:
    match = _ADDRESS.fullmatch(value)
    if match is None:
        raise ValueError(f"{value!r} is not host:port")
    port = match["port"]
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"port {port!r} of {value!r} is not a number from 1 to 65535")
    try:
        match["host"].encode("idna")
    except UnicodeError:
        raise ValueError(
            f"{match['host']!r} of {value!r} is no host name: each part has 1 to 63 letters"
        ) from None
    return value


def _pattern(value: str) -> str:
    try:
        compile_pattern(value)
    except ConfigError as error:
        raise ValueError(error.message) from None
    if "," in value and re.search(r"[\[{(\\]", value) is None:
        raise ValueError(f"{value!r} has a comma, which no name has; write a list")
    return value


def _start(value: str) -> str:
    """Checks a start; a time in ISO 8601 with a zone becomes milliseconds."""
    kind, _, rest = value.partition(":")
    if value in {"earliest", "latest"}:
        return value
    if kind in {"timestamp", "offset"} and rest.isascii() and rest.isdigit():
        if len(rest.lstrip("0")) > len(str(_LARGEST)) or int(rest) > _LARGEST:
            raise ValueError(f"{value!r} is above {_LARGEST}, the largest number that Kafka takes")
        return f"{kind}:{int(rest)}"
    if kind == "timestamp":
        moment = _moment(rest)
        if moment is not None:
            return f"timestamp:{int(moment.timestamp() * 1000)}"
    raise ValueError(
        f"{value!r} is not earliest, latest, offset:N, timestamp:MS or timestamp:2026-01-31T12:00Z"
    )


def _moment(text: str) -> datetime | None:
    """A time with a zone; None for what is none, and before 1970, where Kafka has no times."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None and moment >= _FIRST_MOMENT else None


def _not_yet(value: object, reserved: Mapping[str, str]) -> object:
    if isinstance(value, str) and value in reserved:
        raise ValueError(f"{value!r} is not supported yet; {reserved[value]}")
    return value


def _naming(value: object) -> object:
    return _not_yet(value, {"template": "use 'prefix' or 'identity'"})


def _delivery(value: object) -> object:
    return _not_yet(value, {"at-least-once": "leave it out: delivery is exactly-once"})


def _replication_factor(value: object) -> object:
    """All of its forms in a sentence: of a union each member would complain by itself."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 32767:
        return value
    if value in ("source", "broker-default"):
        return value
    raise ValueError("should be a number from 1 to 32767, 'source' or 'broker-default'")


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(NO_SWITCH)
    return value


Word = Annotated[StrictStr, AfterValidator(_word)]
Address = Annotated[StrictStr, AfterValidator(_address)]
NamePattern = Annotated[StrictStr, AfterValidator(_pattern)]
ReplicationFactor = Annotated[
    StrictInt | Literal["source", "broker-default"], BeforeValidator(_replication_factor)
]
ConfigName = Annotated[StrictStr, Field(pattern=r"^[a-z][a-z0-9.]*$")]


class EstateCluster(Strict):
    """One cluster. `fleet` names the services that serve it as a target; the alias by default."""

    bootstrap: Annotated[tuple[Address, ...], BeforeValidator(_addresses), Field(min_length=1)]
    security: SecurityModel = SecurityModel()
    rack: StrictStr | None = None
    fleet: Word | None = None
    replication_factor: ReplicationFactor = "source"
    """Of new target topics here: a number, the source topic's, or the broker's default."""


class Rule(Strict):
    """A named flow rule: which topics of a link, and how. Patterns match whole names."""

    name: Word
    topics: Annotated[tuple[NamePattern, ...], Field(min_length=1)]
    exclude: tuple[NamePattern, ...] = ()
    groups: tuple[NamePattern, ...] = ()
    naming: Annotated[Naming, BeforeValidator(_naming)] = Naming.PREFIX
    on_source_loss: Literal["fail", "record-gap", "recopy"] = "fail"
    null_keys: Literal["fail", "drop-recorded"] = "fail"
    priority: Priority = Priority.NORMAL
    start: Annotated[StrictStr, AfterValidator(_start)] = "earliest"
    throttle: Throttle | None = None
    """Bytes a second of each partition, live or backlog, as the source stores them."""
    adopt: StrictBool = False
    """Whether a target topic that has records already is taken as it is."""
    replication_factor: ReplicationFactor | None = None
    """Of new target topics; the target cluster's by default."""
    configs: ConfigPolicy = ConfigPolicy.FOLLOW
    configs_exclude: tuple[ConfigName, ...] = ()
    """Topic configs that do not follow the source, beside those that never do.

    What makes a copy exact (compression, time limits) is left as it is on a topic that exists.
    Where `max.message.bytes` is one of them, what is larger stops its partition.
    """
    apply: Apply | None = None
    """Whether `sync` makes changes or only reports them; `services.sync.apply` by default."""


class EstateLink(Strict):
    """One source copied into one target. `slots` may grow, never shrink."""

    source: Annotated[ClusterAlias, Field(alias="from")]
    target: Annotated[ClusterAlias, Field(alias="to")]
    rules: Annotated[tuple[Rule, ...], Field(min_length=1)]
    never: tuple[NamePattern, ...] = ()
    slots: Annotated[StrictInt, Field(ge=1, le=10_000)] = DEFAULT_SLOTS
    acls: AclPolicy = AclPolicy.IGNORE
    delivery: Annotated[Literal["exactly-once"], BeforeValidator(_delivery)] = "exactly-once"

    @property
    def link(self) -> Link:
        """Both aliases."""
        return Link(self.source, self.target)


class TelemetryModel(Strict):
    """Traces of sampled batches, by OTLP over HTTP.

    Without `endpoint` the standard OTEL_EXPORTER_OTLP_ENDPOINT counts; without both it is off.
    """

    endpoint: Annotated[StrictStr, AfterValidator(http_url)] | None = None
    """Of a collector; `/v1/traces` is added."""
    traces_per_second: Annotated[float, BeforeValidator(_number), Field(ge=0, le=100)] = 1.0
    """Most traces that a process begins; those of the fleet before it are always joined."""
    headers: Mapping[Annotated[StrictStr, AfterValidator(_header_name)], Secret] = {}
    """Sent with each export, such as `authorization`."""


class Estate(Strict):
    """The whole file. `never`: topics that no rule of any link may copy."""

    estate: Word
    clusters: Annotated[dict[Word, EstateCluster], Field(min_length=1)]
    links: tuple[EstateLink, ...] = ()
    never: tuple[NamePattern, ...] = ()
    services: dict[str, dict[str, object]] = Field(default_factory=dict, repr=False)
    """Tuning by service, read by each service's own settings."""
    telemetry: TelemetryModel = TelemetryModel()

    _directory: Path = PrivateAttr(default_factory=Path)
    _environment: Mapping[str, str] = PrivateAttr(default_factory=dict)
    _lines: Mapping[str, int] = PrivateAttr(default_factory=dict)

    @field_serializer("services")
    def _hide_words(self, services: dict[str, dict[str, object]]) -> dict[str, object]:
        """A dump shows numbers and switches of the tuning; any text may be a secret."""
        return {
            name: {
                key: value if isinstance(value, (bool, int, float)) else HIDDEN
                for key, value in tuning.items()
            }
            for name, tuning in services.items()
        }

    def bind(self, directory: Path, env: Mapping[str, str], lines: Mapping[str, int]) -> Self:
        """Says where the estate was read: for relative files, secrets and error lines."""
        self._directory, self._environment, self._lines = directory, env, lines
        return self

    @property
    def directory(self) -> Path:
        """Relative files start here: the folder of the estate file."""
        return self._directory

    @property
    def environment(self) -> Mapping[str, str]:
        """Where `{env: NAME}` looks; never shown."""
        return self._environment

    def line_of(self, path: str) -> int:
        """The line of the nearest written part of a path like `links[0].rules[1]`; 0 unknown."""
        while path:
            if path in self._lines:
                return self._lines[path]
            path = re.sub(r"(?:^|\.)[^.\[\]]*$|\[[^\]]*\]$", "", path)
        return 0

    def cluster(self, alias: str) -> EstateCluster:
        """The cluster of an alias.

        Raises: ConfigError naming the aliases that there are.
        """
        found = self.clusters.get(alias)
        if found is None:
            known = ", ".join(sorted(self.clusters))
            raise ConfigError(f"{alias!r} is no cluster of the estate.", hint=f"Known: {known}.")
        return found

    def fleet_of(self, target: str) -> FleetName:
        """The fleet that serves a target cluster."""
        return FleetName(self.cluster(target).fleet or target)

    def links_into(self, target: str) -> tuple[EstateLink, ...]:
        """The links of a fleet, in file order."""
        self.cluster(target)
        return tuple(link for link in self.links if link.target == target)

    def targets(self) -> tuple[ClusterAlias, ...]:
        """Every cluster that some link copies into, in file order."""
        return tuple(dict.fromkeys(link.target for link in self.links))
