"""What a denial limits is made after it, and not while it is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from mirrorfleet.core.access import AclBinding, show
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.planning.access import AclEdit, AclStep
from mirrorfleet.planning.plan import Plan
from mirrorfleet.planning.topics import Reason
from mirrorfleet.syncing import making
from mirrorfleet.syncing.changes import Change
from mirrorfleet.syncing.making import ACLS, TargetChanges
from mirrorfleet.syncing.settings import SyncSettings
from tests.fakes.clock import HandClock
from tests.unit.planning.samples import LINK
from tests.unit.policy.test_crossing import an_acl
from tests.unit.syncing.test_making import A, B, Broker, changes, creating, make

DENIED = an_acl("DENY User:z READ TOPIC LITERAL east.a")
ALL = an_acl("ALLOW User:* READ TOPIC PREFIXED east.")
OTHER = an_acl("ALLOW User:y READ TOPIC LITERAL east.a")
PLAN = replace(
    creating(A, B), acls=tuple(AclEdit(AclStep.ADD, each) for each in (DENIED, OTHER, ALL))
)


class Guarded(Broker):
    """Answers for ACLs, too."""

    def __init__(self) -> None:
        super().__init__()
        self.denials: ErrorCode | None = None
        """What it says of them."""
        self.made: list[str | AclBinding] = []

    async def create_acls(
        self, _: Cluster, bindings: Sequence[AclBinding], *, deadline_s: float
    ) -> dict[AclBinding, BrokerError | None]:
        found: dict[AclBinding, BrokerError | None] = dict.fromkeys(bindings)
        if self.denials is not None and DENIED in found:
            found[DENIED] = BrokerError(self.denials, "create")
        self.made += [each for each, error in found.items() if error is None]
        return found

    def answer(self, names: list[str]) -> dict[str, BrokerError | None]:
        self.made += names
        return super().answer(names)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Guarded:
    found = Guarded()
    monkeypatch.setattr(making, "create_topics", found.create_topics)
    monkeypatch.setattr(making, "create_acls", found.create_acls)
    return found


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def made(clock: HandClock) -> TargetChanges:
    return changes(clock, SyncSettings())


async def look(made: TargetChanges, plan: Plan = PLAN) -> None:
    """Steps until none is left, of a plan that stays as it is."""
    tried: set[Change] = set()
    while (step := made.next_step(LINK, plan, tried)).changes_target:
        await make(made, step)
    made.forget(LINK, plan)


@pytest.mark.parametrize(
    "code", [ErrorCode.POLICY_VIOLATION, ErrorCode.REQUEST_TIMED_OUT], ids=["refused", "unanswered"]
)
async def test_what_a_denial_limits_waits_while_the_target_does_not_take_it(
    broker: Guarded, made: TargetChanges, clock: HandClock, code: ErrorCode
) -> None:
    broker.denials = code
    await look(made)
    first = list(broker.made)
    broker.made.clear()
    await look(made, replace(PLAN, acls=tuple(e for e in PLAN.acls if e.binding != OTHER)))
    at_once = list(broker.made)
    clock.seconds += 60
    broker.denials = None
    await look(made)

    assert first == [OTHER, "east.b"]
    assert at_once == ["east.b"]  # nobody says that it is there
    assert broker.made[1:] == [DENIED, OTHER, ALL, "east.a", "east.b"]
    assert made.held(LINK) == ()


async def test_a_topic_that_waits_for_a_denial_is_held_with_it_and_is_not_said_to_be_unseen(
    broker: Guarded, made: TargetChanges
) -> None:
    broker.denials = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    await look(made)
    made.hold_unseen(creating(A))

    topic, acls = made.held(LINK)
    assert (topic.topic, topic.reason) == ("a", Reason.REFUSED)
    assert show(DENIED) in topic.detail
    assert (acls.topic, acls.reason) == (ACLS, Reason.ACL_REFUSED)
    assert made.refused(LINK) == {"east.a", show(DENIED), show(ALL)}


async def test_a_topic_that_is_refused_itself_is_held_once(
    broker: Guarded, made: TargetChanges
) -> None:
    broker.refuses["east.a"] = ErrorCode.INVALID_REPLICATION_FACTOR
    await look(made, creating(A))
    broker.denials = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    await look(made)

    assert [each.topic for each in made.held(LINK)].count(A.source_topic) == 1


async def test_nothing_waits_for_a_denial_that_was_made_and_is_not_listed_yet(
    broker: Guarded, made: TargetChanges
) -> None:
    tried: set[Change] = set()
    only = replace(PLAN, create=())
    await make(made, made.next_step(LINK, only, tried))

    await make(made, made.next_step(LINK, PLAN, tried))

    assert broker.made == [DENIED, OTHER, ALL, "east.a", "east.b"]


async def test_a_topic_waits_for_a_denial_that_is_in_a_later_request(
    broker: Guarded, made: TargetChanges
) -> None:
    many = [DENIED._replace(principal=f"User:{number}") for number in range(20_000)]
    plan = replace(creating(A, B), acls=tuple(AclEdit(AclStep.ADD, each) for each in many))

    await look(made, plan)

    order = [broker.made.index(each) for each in ("east.b", many[-1], "east.a")]
    assert order == sorted(order)
