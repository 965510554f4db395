"""A config that Kafka 4.3 refuses and 3.9 takes: the rest of a copy's configs follows."""

from __future__ import annotations

from mirrorfleet.core.ids import ClusterAlias, Link
from mirrorfleet.planning.configs import ConfigEdit
from mirrorfleet.planning.plan import Alteration, Creation, Plan
from mirrorfleet.planning.topics import Reason
from mirrorfleet.policy.claims import Claim
from mirrorfleet.records.topics import TopicSpec
from mirrorfleet.runtime.clock import SystemClock, SystemDice
from mirrorfleet.syncing.making import TargetChanges
from mirrorfleet.syncing.settings import SyncSettings
from tests.faultkit.waiting import until
from tests.integration.sync.fleet import PROMISED_S, Hand, fresh

LINK = Link(ClusterAlias("east"), ClusterAlias("west"))
SMALL = "524288"
"""`segment.bytes` below 1 MiB (KIP-1030)."""


async def shows(hand: Hand, topic: str, wanted: dict[str, str]) -> None:
    """Wait for exactly these overrides; a broker hears of a topic a moment after it is made."""

    async def same() -> bool:
        return await hand.overrides(topic) == wanted

    await until(same, deadline_s=PROMISED_S, what=f"{wanted}", ignoring=(AssertionError,))


async def make(changes: TargetChanges, step: Plan) -> list[str]:
    return [each.detail async for some in changes.make(LINK, step) for each in some]


async def test_a_segment_size_that_is_refused_holds_up_no_other_config_new_or_changed(
    on_west: Hand,
) -> None:
    topic = fresh("small")
    claim = Claim(LINK, "all", topic, f"east.{topic}")
    settings, clock, doubts = SyncSettings(), SystemClock(), list[None]()
    changes = TargetChanges(
        on_west.cluster, settings, clock, SystemDice(), lambda: doubts.append(None)
    )
    kept = {"cleanup.policy": "compact", "retention.ms": "1000000"}
    spec = TopicSpec(claim.target_topic, 1, 1, {**kept, "segment.bytes": SMALL})

    (made,) = await make(changes, Plan(create=(Creation(claim, spec),)))

    assert "without segment.bytes for now" in made
    assert changes.held(LINK) == ()
    assert len(doubts) == 1
    await shows(on_west, claim.target_topic, kept)

    segment = ConfigEdit("segment.bytes", None, SMALL)
    longer = ConfigEdit("retention.ms", "1000000", "-1")
    flush = ConfigEdit("flush.ms", None, "60000")
    edits = (flush, longer, segment)

    altered = await make(changes, Plan(alter=(Alteration(claim, edits),)))

    assert altered == [f"{claim.target_topic}: {each}" for each in (longer, flush)]
    await shows(on_west, claim.target_topic, {**kept, "retention.ms": "-1", "flush.ms": "60000"})
    (held,) = changes.held(LINK)
    assert held.reason is Reason.CONFIG_REFUSED
    assert held.detail.startswith(f"{segment}: ")
