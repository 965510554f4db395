"""From the estate's links to what the pure policies decide on."""

from __future__ import annotations

from mirrorfleet.config.model import Estate, EstateLink
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.policy.filters import NameFilter
from mirrorfleet.policy.flows import Flow, FlowRule


def flow_of(estate: Estate, entry: EstateLink) -> Flow:
    """The link with compiled filters; the estate's `never` and the link's are one."""
    rules = tuple(
        FlowRule(
            name=rule.name,
            topics=NameFilter(rule.topics, rule.exclude),
            groups=NameFilter(rule.groups),
            naming=rule.naming,
        )
        for rule in entry.rules
    )
    return Flow(entry.link, rules, NameFilter((*estate.never, *entry.never)), entry.acls)


def all_flows(estate: Estate) -> tuple[Flow, ...]:
    """Every link, in file order."""
    return tuple(flow_of(estate, entry) for entry in estate.links)


def find_link(estate: Estate, target: str, source: str | None) -> EstateLink:
    """The link between two clusters; `source` may be left out when there is only one.

    Raises: ConfigError naming the links, or the targets, that there are.
    """
    links = estate.links_into(target)
    found = [link for link in links if source in {None, link.source}]
    if len(found) == 1:
        return found[0]
    if not links:
        raise _no_link_into(estate, target)
    what = f"which link into {target} is meant?"
    if source is not None:
        what = f"no link copies from {source!r} into {target!r}."
    known = ", ".join(str(link.link) for link in links)
    raise ConfigError(what, path="--from", hint=f"Links: {known}.")


def targets_of(estate: Estate, target: str | None) -> tuple[str, ...]:
    """The targets that are meant: one, or all of the estate.

    Raises: ConfigError for one into which nothing is copied, naming those that there are.
    """
    if target is None:
        return tuple(estate.targets())
    if not estate.links_into(target):
        raise _no_link_into(estate, target)
    return (target,)


def _no_link_into(estate: Estate, target: str) -> ConfigError:
    known = ", ".join(estate.targets()) or "none"
    return ConfigError(f"no link copies into {target!r}.", hint=f"Targets: {known}.")
