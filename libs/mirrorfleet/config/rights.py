"""The grants of a fleet under the names that its services have, as lines to paste or as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirrorfleet.core.errors import ConfigError
from mirrorfleet.policy.acls import Grant, kafka_acls_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorfleet.config.model import Estate
    from mirrorfleet.core.ids import ClusterAlias


@dataclass(frozen=True, slots=True)
class Grantee:
    """Whom rights are for: `principal` (None: the estate's user of each cluster), from `host`."""

    estate: Estate
    target: str
    principal: str | None
    host: str

    def lines(self, cluster: ClusterAlias, found: Sequence[Grant]) -> list[str]:
        """The commands for one cluster, under a heading. Raises: ConfigError."""
        side = "target" if cluster == self.target else "source"
        services = ", ".join(sorted({grant.service for grant in found}))
        if not found:
            return [f"# {cluster} ({side}): nothing is needed"]
        return [
            f"# {cluster} ({side}), for {services}",
            *kafka_acls_lines(
                found,
                principal=self.name_on(cluster),
                host=self.host,
                bootstrap=",".join(self.estate.cluster(cluster).bootstrap),
            ),
        ]

    def as_json(self, grant: Grant) -> dict[str, str]:
        """One grant in Kafka's own words. Raises: ConfigError."""
        return {
            "cluster": grant.cluster,
            "service": grant.service,
            "principal": self.name_on(grant.cluster),
            "host": self.host,
            "resource_type": grant.resource.replace("-", "_").upper(),
            "pattern_type": grant.pattern.upper(),
            "name": grant.name,
            "operation": grant.operation,
            "permission": "ALLOW",
        }

    def name_on(self, cluster: ClusterAlias) -> str:
        """Who the services are for the broker, as far as it is said. Raises: ConfigError."""
        if self.principal is not None:
            if not self.principal.startswith("User:") or self.principal == "User:":
                raise ConfigError(
                    f"--principal {self.principal!r} is not of the form User:NAME.",
                    hint="For mTLS it is User: and the certificate's distinguished name.",
                )
            return self.principal
        said = self.estate.cluster(cluster).security.acl_principal
        if said is not None:
            return said
        raise ConfigError(
            f"the estate does not say which principal we are on {cluster!r}.",
            path=f"clusters.{cluster}.security",
            hint="Say it: mirrorfleet acls --principal User:NAME ..., or there as username.",
        )
