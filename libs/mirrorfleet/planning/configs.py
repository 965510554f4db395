"""What a target topic's configs must become: edits of single entries, and only real ones. No I/O.

Values set on the source topic follow; what was taken away there goes back to the target's
default. Three are decided by what they do: compression and time limits (the copy must stay
exact, whoever made or changed the topic), `max.message.bytes` (raised only), `cleanup.policy` (the
effective one must be the same, whoever set it, because it decides what is kept and whether records
need keys).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from mirrorfleet.planning.observed import (
    AFTER_MAX,
    BEFORE_MAX,
    CLEANUP,
    COMPRESSION,
    DIFFERENCE_MAX,
    TIMESTAMP_TYPE,
    SourceTopic,
    TargetTopic,
    TopicTerms,
)
from mirrorfleet.planning.rules import ConfigPolicy, RuleTerms
from mirrorfleet.policy.configs import MAX_BYTES, follows

_FOREVER: Final = str(2**63 - 1)
_EXACT: Final = {
    COMPRESSION: "producer",
    **dict.fromkeys((BEFORE_MAX, AFTER_MAX, DIFFERENCE_MAX), _FOREVER),
}
NEEDED: Final = frozenset({*_EXACT, MAX_BYTES})
"""What a copy needs to take the source's batches as they are; all else only follows the source."""


class ConfigEdit(NamedTuple):
    """One config entry of a target topic. `old` is what it is now, None when it is not set there.

    `new` None: the entry goes, and the target's default counts again.
    """

    name: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        return f"{self.name}: {self.old or 'default'} -> {self.new or 'default'}"


def first_configs(
    source: SourceTopic, terms: RuleTerms, defaults: Mapping[str, str]
) -> dict[str, str]:
    """The configs of a new target topic. `defaults`: what it would get without being asked.

    What decides whether a copy is exact is set whatever the default is, because defaults change.
    A name that the target does not know (its version is another) is left out, and so is the policy
    of a source that does not let us read it.
    """
    wanted = {
        name: value
        for name, value in _followed(source, terms).items()
        if not defaults or name in defaults
    }
    wanted |= {
        name: _EXACT[name] for name in _EXACT if defaults.get(name, _EXACT[name]) != _EXACT[name]
    }
    wanted |= {
        COMPRESSION: "producer",
        TIMESTAMP_TYPE: "CreateTime",
    }
    if source.overrides is not None and CLEANUP not in terms.configs_exclude:
        wanted[CLEANUP] = source.terms.cleanup_policy  # a copy must not keep what its source drops
    may_grow = MAX_BYTES not in terms.configs_exclude
    if may_grow and source.terms.max_message_bytes > TopicTerms.of(defaults).max_message_bytes:
        wanted[MAX_BYTES] = str(source.terms.max_message_bytes)
    return wanted


def config_edits(
    source: SourceTopic,
    target: TargetTopic,
    terms: RuleTerms,
    *,
    defaults: Mapping[str, str],
    assumed: Mapping[str, str] | None = None,
) -> tuple[ConfigEdit, ...]:
    """What must change on an existing target topic, sorted by name.

    `defaults` is what a topic gets there without being asked. `assumed` is what to take for a
    value that we may not read; without it such a value is taken for right.
    """
    edits = {edit.name: edit for edit in _fitting(source, target, terms, assumed or {})}
    if terms.configs is ConfigPolicy.FOLLOW and None not in (source.overrides, target.overrides):
        edits |= {edit.name: edit for edit in _following(source, target, terms, defaults)}
    return tuple(sorted(edits.values()))


def _fitting(
    source: SourceTopic, target: TargetTopic, terms: RuleTerms, assumed: Mapping[str, str]
) -> Iterator[ConfigEdit]:
    """What the topic needs to take the source's batches as they are.

    Asked of every copy at every look: what was refused once, or cut off by a crash, stays wanted.
    """
    for name, value in _EXACT.items():
        now = target.configs.get(name, assumed.get(name, value))
        if now != value and name not in terms.configs_exclude:
            yield ConfigEdit(name, now, value)
    biggest, is_known = source.terms.max_message_bytes, target.overrides is not None
    if not (is_known or assumed) or MAX_BYTES in terms.configs_exclude:
        return
    if biggest > target.terms.max_message_bytes:
        yield ConfigEdit(MAX_BYTES, str(target.terms.max_message_bytes), str(biggest))


def _following(
    source: SourceTopic, target: TargetTopic, terms: RuleTerms, defaults: Mapping[str, str]
) -> Iterator[ConfigEdit]:
    wanted, there = _followed(source, terms), target.overrides or {}
    for name in {*wanted, *there} - {CLEANUP}:
        old, new = there.get(name), wanted.get(name)
        known = name in target.configs
        if old != new and known and follows(name, terms.configs_exclude):
            yield ConfigEdit(name, old, new)
    policy = source.terms.cleanup_policy
    if CLEANUP in terms.configs_exclude or target.terms.cleanup_policy == policy:
        return
    goes_back = CLEANUP not in wanted and CLEANUP in there and defaults.get(CLEANUP) == policy
    yield ConfigEdit(CLEANUP, target.terms.cleanup_policy, None if goes_back else policy)


def _followed(source: SourceTopic, terms: RuleTerms) -> dict[str, str]:
    if terms.configs is ConfigPolicy.IGNORE:
        return {}
    return {
        name: value
        for name, value in (source.overrides or {}).items()
        if follows(name, terms.configs_exclude)
    }
