"""What `sync` tells: events for what is new, `/status`, and gauges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mirrorfleet.planning.pending import PlannedChange, planned_changes
from mirrorfleet.planning.topics import Held, Reason
from mirrorfleet.policy.flows import AclPolicy
from mirrorfleet.records.events import EventKind
from mirrorfleet.runtime import metric_names as names
from mirrorfleet.syncing.changes import ChangeKind

if TYPE_CHECKING:
    from mirrorfleet.core.ids import ClusterId, Link, SlotNumber
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.planning.plan import Plan
    from mirrorfleet.policy.claims import Claim
    from mirrorfleet.runtime.metrics import Metrics

_Samples = list[tuple[tuple[str, ...], float]]

SHOWN: Final = 200
"""Held topics, and changes that wait, in one `/status`."""

_EVENTS: Final[Mapping[Reason, EventKind]] = {
    Reason.CLAIMED: EventKind.CLAIM_REFUSED,
    Reason.SOURCE_GONE: EventKind.TOPIC_VANISHED,
    Reason.TARGET_GONE: EventKind.TOPIC_VANISHED,
    Reason.ACL_REFUSED: EventKind.ACL_REFUSED,
}

_CHANGES: Final = {
    ChangeKind.CREATED: EventKind.TOPIC_CREATED,
    ChangeKind.GROWN: EventKind.PARTITIONS_ADDED,
    ChangeKind.ALTERED: EventKind.CONFIG_CHANGED,
    ChangeKind.ACL_ADDED: EventKind.ACL_ADDED,
    ChangeKind.ACL_REMOVED: EventKind.ACL_REMOVED,
}
_LISTED: Final = 5
"""Changes that wait, in one event."""


@dataclass(slots=True)
class LinkReport:
    """The last look at a link. `looked_at` is monotonic, None before the first one in full."""

    link: Link
    source_cluster: ClusterId | None = None
    slots: tuple[SlotNumber, ...] = ()
    claims: tuple[Claim, ...] = ()
    held: tuple[Held, ...] = ()
    skipped: int = 0
    pending: int = 0
    entries: int = 0
    looked_at: float | None = None
    took_s: float = 0.0
    trouble: str = ""
    acl_policy: AclPolicy = AclPolicy.IGNORE
    acl_trouble: str = ""
    loop_trouble: str = ""
    drift: tuple[PlannedChange, ...] = ()
    """Changes that wait for somebody to say yes."""
    told: frozenset[tuple[str, Reason]] = frozenset()
    """Held topics that an event was written for."""
    seen: frozenset[tuple[str, Reason]] = frozenset()
    """Held topics of the look before."""

    def news(self, held: Sequence[Held]) -> list[Held]:
        """What of `held` deserves an event now; remembers it.

        What one look may be mistaken about is told when a second look says the same.
        """
        keys = frozenset((each.topic, each.reason) for each in held)
        fresh = [
            each
            for each in held
            if (each.topic, each.reason) not in self.told
            and (not each.reason.may_pass or (each.topic, each.reason) in self.seen)
        ]
        self.told = (self.told & keys) | {(each.topic, each.reason) for each in fresh}
        self.seen = keys
        self.held = tuple(sorted(held))
        return fresh

    def news_of_drift(self, waiting: Plan) -> list[tuple[EventKind, str]]:
        """The event that what waits for a yes deserves now; remembers it."""
        before, self.drift = self.drift, tuple(planned_changes(self.link, waiting))
        drift = self.drift
        if drift and drift != before:
            text = "; ".join(f"{each.kind} {each.what} {each.detail}" for each in drift[:_LISTED])
            detail = f"{len(drift)} changes wait for `mirrorfleet apply`: {text}"
            return [(EventKind.DRIFT_FOUND, detail)]
        return [(EventKind.DRIFT_ENDED, "in step")] if before and not drift else []

    def status(self, now: float) -> dict[str, object]:
        """One link in `/status`."""
        return {
            "link": str(self.link),
            "source_cluster": self.source_cluster,
            "slots": list(self.slots),
            "topics": len(self.claims),
            "partitions": self.entries,
            "skipped": self.skipped,
            "pending_changes": self.pending,
            "seconds_since_look": self.age_s(now),
            "look_seconds": round(self.took_s, 3),
            "trouble": self.trouble,
            "acls": {"policy": self.acl_policy, "trouble": self.acl_trouble},
            "loops": {"trouble": self.loop_trouble},
            "drift": [
                {"kind": each.kind, "what": each.what, "detail": each.detail}
                for each in self.drift[:SHOWN]
            ],
            "drift_changes": len(self.drift),
            "held": [
                {"topic": each.topic, "reason": each.reason, "detail": each.detail}
                for each in self.held[:SHOWN]
            ],
            "held_topics": len(self.held),
        }

    def notes(self) -> str:
        """What `/readyz` says although the service does its job."""
        parts = [
            f"{len(self.drift)} changes wait for `mirrorfleet apply`" if self.drift else "",
            f"ACLs do not follow: {self.acl_trouble}" if self.acl_trouble else "",
            f"loops are not all seen: {self.loop_trouble}" if self.loop_trouble else "",
            f"{len(self.held)} held, the first: {self.held[0].detail}" if self.held else "",
        ]
        return "; ".join(filter(None, parts))

    def age_s(self, now: float) -> float | None:
        """Seconds since the last look in full."""
        return None if self.looked_at is None else round(now - self.looked_at, 3)

    def held_by_reason(self) -> Iterable[tuple[str, int]]:
        """For the gauge; every reason, so that one that ends shows 0."""
        count = Counter(each.reason for each in self.held)
        return [(reason.value, count[reason]) for reason in Reason]


def event_kind(reason: Reason) -> EventKind:
    """The event for a held topic."""
    return _EVENTS.get(reason, EventKind.TOPIC_REFUSED)


def change_kind(kind: ChangeKind) -> EventKind:
    """The event for a change that was made."""
    return _CHANGES[kind]


def register_gauges(metrics: Metrics, clock: Clock, reports: Collection[LinkReport]) -> None:
    """Show the links' reports, as they are then, at each scrape."""

    def by_link(value: Callable[[LinkReport], float]) -> Callable[[], _Samples]:
        return lambda: [((str(each.link),), value(each)) for each in reports]

    def ages() -> _Samples:
        found = [(each.link, each.age_s(clock.monotonic())) for each in reports]
        return [((str(link),), age) for link, age in found if age is not None]

    def topics() -> _Samples:
        copied = [((str(each.link), "copied"), float(len(each.claims))) for each in reports]
        skipped = [((str(each.link), "skipped"), float(each.skipped)) for each in reports]
        return [*copied, *skipped]

    def faults() -> _Samples:
        return [
            ((str(each.link), reason), float(count))
            for each in reports
            for reason, count in each.held_by_reason()
        ]

    metrics.on_scrape(names.SYNC_PENDING, by_link(lambda each: each.pending))
    metrics.on_scrape(names.SYNC_DRIFT, by_link(lambda each: len(each.drift)))
    metrics.on_scrape(names.CATALOG_ENTRIES, by_link(lambda each: each.entries))
    metrics.on_scrape(names.SYNC_AGE, ages)
    metrics.on_scrape(names.SYNC_TOPICS, topics)
    metrics.on_scrape(names.SYNC_FAULTS, faults)
