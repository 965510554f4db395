"""How a fleet is kept in step: the `services.sync` subtree of the estate, and its rules' words."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from mirrorfleet.config.model import EstateCluster, EstateLink, Rule
from mirrorfleet.config.tuning import parse_tuning
from mirrorfleet.planning.rules import Apply, ReplicationPolicy, RuleTerms


class SyncSettings(BaseModel):
    """All of them have a default that shows a change on the target within 5 s; that the source took
    an ACL back shows 30 s later.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    apply: Apply = Apply.AUTO
    period_s: float = Field(default=2.0, ge=0.2, le=60)
    """Between two looks at a link: two metadata answers each."""
    confirm_s: float = Field(default=0.7, ge=0.1, le=10)
    """A topic of a source that is itself the target of a fleet is looked at again after this, so
    that the other fleet can say first that it is a copy."""
    configs_a_look: int = Field(default=1_000, ge=1)
    """Topics whose configs are read again in one look (1.2 MB); new topics always are. With more,
    they take turns, and a change is seen that much later."""
    acls_period_s: float = Field(default=3.0, ge=0.2, le=3600)
    """Between two looks at the ACLs of a link, if no topic is new; each lists all of both
    clusters."""
    topics_a_request: int = Field(default=50, ge=1)
    """Topics created in one request: their entries are published before the next one."""
    change_s: float = Field(default=3.0, gt=0, le=30)
    """Deadline of a request that changes topics; what is refused for now is asked again later."""
    retry_longest_s: float = Field(default=60.0, gt=0)
    """A topic that the target refuses is tried again after 1 s, 2 s, ... and at most this; 4 s
    where it refuses for now."""

    @property
    def patience_s(self) -> float:
        """For a look that others wait for; not below `confirm_s`, because one that is given up may
        have confirmed topics, and the next one must not come too soon.
        """
        return max(self.change_s, self.confirm_s)


def parse(subtree: Mapping[str, object]) -> SyncSettings:
    """The settings. Raises: ConfigError naming every problem."""
    return parse_tuning(SyncSettings, "sync", subtree)


def terms_of(link: EstateLink, target: EstateCluster, apply: Apply) -> Mapping[str, RuleTerms]:
    """Each rule of a link by its name; `apply` is what counts where a rule does not say it."""
    return {rule.name: _terms(rule, target, apply) for rule in link.rules}


def _terms(rule: Rule, target: EstateCluster, apply: Apply) -> RuleTerms:
    wanted = rule.replication_factor or target.replication_factor
    return RuleTerms(
        start=rule.start,
        on_source_loss=rule.on_source_loss,
        null_keys=rule.null_keys,
        priority=rule.priority,
        throttle=rule.throttle,
        adopt=rule.adopt,
        replication=wanted if isinstance(wanted, int) else ReplicationPolicy(wanted),
        configs=rule.configs,
        configs_exclude=frozenset(rule.configs_exclude),
        apply=rule.apply or apply,
    )
