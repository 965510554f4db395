"""A refused change is remembered, told, and tried again later; others are made meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.kafka.admin import NewTopic
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.configs import ConfigChange
from mirrorfleet.planning.configs import ConfigEdit
from mirrorfleet.planning.plan import Alteration, Creation, Growth, Plan
from mirrorfleet.planning.topics import Held, Reason
from mirrorfleet.policy.claims import Claim
from mirrorfleet.records.topics import TopicSpec
from mirrorfleet.syncing import making
from mirrorfleet.syncing.changes import Change, ChangeKind, Done
from mirrorfleet.syncing.making import FOR_NOW, TargetChanges
from mirrorfleet.syncing.settings import SyncSettings
from tests.fakes.clock import HandClock, NoDice
from tests.unit.planning.samples import LINK

A = Claim(LINK, "all", "a", "east.a")
B = Claim(LINK, "all", "b", "east.b")
DENIED = (
    "User:ANONYMOUS may not CREATE Topic:east.a on west. `mirrorfleet acls` prints what is needed."
)
UNSEEN = (
    "User:ANONYMOUS may not DESCRIBE Topic:east.a on west (or it is being deleted): it is there and"
    " not shown. `mirrorfleet acls` prints what is needed."
)


class Broker:
    """Answers changes of topics with what a test wants."""

    def __init__(self) -> None:
        self.refuses: dict[str, ErrorCode] = {}
        self.asked: list[list[str]] = []

    async def create_topics(
        self, cluster: Cluster, topics: Sequence[NewTopic], *, deadline_s: float
    ) -> dict[str, BrokerError | None]:
        return self.answer([topic.name for topic in topics])

    async def create_partitions(
        self, cluster: Cluster, counts: Mapping[str, int], *, deadline_s: float
    ) -> dict[str, BrokerError | None]:
        return self.answer(list(counts))

    async def alter_configs(
        self,
        cluster: Cluster,
        changes: Mapping[str, Sequence[ConfigChange]],
        *,
        deadline_s: float,
    ) -> dict[str, BrokerError | None]:
        return self.answer(list(changes))

    def answer(self, names: list[str]) -> dict[str, BrokerError | None]:
        self.asked.append(names)
        found: dict[str, BrokerError | None] = dict.fromkeys(names)
        for name in found.keys() & self.refuses.keys():
            found[name] = BrokerError(self.refuses[name], f"change {name}")
        return found


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    found = Broker()
    monkeypatch.setattr(making, "create_topics", found.create_topics)
    monkeypatch.setattr(making, "create_partitions", found.create_partitions)
    monkeypatch.setattr(making, "incremental_alter_configs", found.alter_configs)
    return found


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def made(clock: HandClock) -> TargetChanges:
    return changes(clock, SyncSettings(topics_a_request=2, retry_longest_s=3))


def changes(
    clock: HandClock, settings: SyncSettings, doubt: Callable[[], None] = lambda: None
) -> TargetChanges:
    cluster = Cluster(ClusterSettings(alias=ClusterAlias("west"), bootstrap=("nowhere:1",)))
    return TargetChanges(cluster, settings, clock, NoDice(), doubt)


def creating(*claims: Claim) -> Plan:
    return Plan(
        create=tuple(Creation(each, TopicSpec(each.target_topic, 3, 1, {})) for each in claims)
    )


def created(step: Plan) -> list[str]:
    return [each.spec.name for each in step.create]


async def make(made: TargetChanges, step: Plan) -> list[Done]:
    return [each async for part in made.make(LINK, step) for each in part]


async def test_what_was_made_is_told_with_its_size(made: TargetChanges, broker: Broker) -> None:
    (done,) = await make(made, made.next_step(LINK, creating(A), set()))

    assert done.change == Change(LINK, ChangeKind.CREATED, "a", "east.a")
    assert done.detail == "east.a with 3 partitions, replication factor 1"


async def test_a_copy_with_fewer_replicas_than_its_source_is_told_so(
    made: TargetChanges, broker: Broker
) -> None:
    plan = Plan(create=(Creation(A, TopicSpec("east.a", 3, 2, {}), source_replicas=3),))

    (done,) = await make(made, made.next_step(LINK, plan, set()))

    assert done.detail.endswith("replication factor 2, lower than the source's 3")


async def test_one_refused_topic_is_held_and_the_other_is_made(
    made: TargetChanges, broker: Broker
) -> None:
    broker.refuses["east.a"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    done = await make(made, made.next_step(LINK, creating(A, B), set()))

    assert [each.change.topic for each in done] == ["b"]
    assert made.held(LINK) == (Held("a", Reason.REFUSED, DENIED),)


async def test_a_topic_whose_config_is_refused_is_copied_and_held_by_another_word_than_growth(
    made: TargetChanges, broker: Broker
) -> None:
    broker.refuses = dict.fromkeys(("east.a", "east.b"), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    edit = ConfigEdit("retention.ms", None, "60000")
    plan = Plan(grow=(Growth(A, 4, 1),), alter=(Alteration(B, (edit,)),))

    await make(made, made.next_step(LINK, plan, set()))

    held = [(each.topic, each.reason) for each in made.held(LINK)]
    assert held == [("a", Reason.REFUSED), ("b", Reason.CONFIG_REFUSED)]


async def test_what_a_copy_needs_is_altered_though_the_target_refuses_what_goes_with_it(
    made: TargetChanges, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    async def no_retention(
        _: Cluster, changes: Mapping[str, Sequence[ConfigChange]], *, deadline_s: float
    ) -> dict[str, BrokerError | None]:
        (names,) = [[each.name for each in some] for some in changes.values()]
        asked.append(names)
        refused = BrokerError(ErrorCode.POLICY_VIOLATION, "configs of east.a")
        return dict.fromkeys(changes, refused if "retention.ms" in names else None)

    monkeypatch.setattr(making, "incremental_alter_configs", no_retention)
    size = ConfigEdit("max.message.bytes", "1048588", "5000000")
    kept = ConfigEdit("retention.ms", None, "60000")

    done = await make(made, Plan(alter=(Alteration(A, (size, kept)),)))
    again = await make(made, Plan(alter=(Alteration(A, (kept,)),)))

    assert asked == [[size.name, kept.name], [size.name], [kept.name], [kept.name]]
    assert [(each.change.topic, each.detail) for each in done] == [("a", f"east.a: {size}")]
    assert again == []
    assert [(each.topic, each.reason) for each in made.held(LINK)] == [("a", Reason.CONFIG_REFUSED)]


async def looks(made: TargetChanges, clock: HandClock, number: int = 40) -> list[float]:
    """So many, of which each wants the topic to be created: when it was asked for."""
    asked_at: list[float] = []
    for _ in range(number):
        step = made.next_step(LINK, creating(A), set())
        if step.changes_topics:
            asked_at.append(clock.seconds)
            await make(made, step)
        made.forget(LINK, creating(A))
        clock.seconds += 0.5
    return asked_at


async def test_a_refused_topic_is_asked_again_later_and_later(
    made: TargetChanges, broker: Broker, clock: HandClock
) -> None:
    broker.refuses["east.a"] = ErrorCode.POLICY_VIOLATION
    asked_at = await looks(made, clock)

    assert asked_at == [100.0, 101.0, 103.0, 106.0, 109.0, 112.0, 115.0, 118.0]


@pytest.mark.parametrize(
    "code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_REPLICATION_FACTOR]
)
async def test_what_is_refused_for_now_is_asked_again_soon_however_often(
    broker: Broker, clock: HandClock, code: ErrorCode
) -> None:
    broker.refuses["east.a"] = code
    asked_at = await looks(changes(clock, SyncSettings()), clock)

    assert asked_at == [100.0, 101.0, 103.0, 107.0, 111.0, 115.0, 119.0]


async def test_what_is_refused_for_now_for_minutes_is_asked_again_later_and_later(
    broker: Broker, clock: HandClock
) -> None:
    broker.refuses["east.a"] = ErrorCode.INVALID_REPLICATION_FACTOR
    asked_at = await looks(changes(clock, SyncSettings()), clock, 500)

    assert asked_at[FOR_NOW] - asked_at[FOR_NOW - 1] == 4.0
    assert asked_at[FOR_NOW + 1] - asked_at[FOR_NOW] == 60.0


async def test_success_ends_the_refusal(
    made: TargetChanges, broker: Broker, clock: HandClock
) -> None:
    broker.refuses["east.a"] = ErrorCode.POLICY_VIOLATION
    await make(made, made.next_step(LINK, creating(A), set()))
    broker.refuses.clear()
    clock.seconds += 5

    await make(made, made.next_step(LINK, creating(A), set()))

    assert made.held(LINK) == ()


async def test_a_topic_that_exists_already_is_no_refusal_and_was_not_made(
    made: TargetChanges, broker: Broker
) -> None:
    broker.refuses["east.a"] = ErrorCode.TOPIC_ALREADY_EXISTS

    assert await make(made, made.next_step(LINK, creating(A), set())) == []
    assert made.held(LINK) == ()


async def test_a_topic_that_exists_and_is_never_seen_is_held_with_the_right_that_is_missing(
    made: TargetChanges, broker: Broker, clock: HandClock
) -> None:
    broker.refuses["east.a"] = ErrorCode.TOPIC_ALREADY_EXISTS
    asked_at = await looks(made, clock)

    assert made.held(LINK) == (Held("a", Reason.REFUSED, UNSEEN),)
    assert asked_at == [100.0, 100.5, 101.5, 103.5, 106.5, 109.5, 112.5, 115.5, 118.5]


async def test_a_topic_that_was_seen_since_it_existed_already_is_no_refusal(
    made: TargetChanges, broker: Broker
) -> None:
    broker.refuses["east.a"] = ErrorCode.TOPIC_ALREADY_EXISTS
    await make(made, made.next_step(LINK, creating(A), set()))
    made.forget(LINK, Plan())

    await make(made, made.next_step(LINK, creating(A), set()))

    assert made.held(LINK) == ()


def test_a_step_takes_no_more_than_one_request_and_nothing_twice(made: TargetChanges) -> None:
    plan = creating(A, B, Claim(LINK, "all", "c", "east.c"))
    tried: set[Change] = set()

    steps = [created(made.next_step(LINK, plan, tried)) for _ in range(3)]

    assert steps == [["east.a", "east.b"], ["east.c"], []]


async def test_a_refusal_that_nobody_wants_any_more_is_forgotten(
    made: TargetChanges, broker: Broker
) -> None:
    broker.refuses["east.a"] = ErrorCode.POLICY_VIOLATION
    await make(made, made.next_step(LINK, creating(A), set()))

    made.forget(LINK, Plan(grow=(Growth(A, 4, 1),)))

    assert made.held(LINK) == ()


async def test_no_request_makes_more_records_than_a_controller_takes_at_once(
    broker: Broker, clock: HandClock
) -> None:
    """50 topics of 200 partitions would be refused, all of them, again and again."""
    large, tried = changes(clock, SyncSettings()), set[Change]()
    claims = [Claim(LINK, "all", f"t{number}", f"east.t{number}") for number in range(60)]
    specs = [TopicSpec(each.target_topic, 200, 1, {"retention.ms": "1"}) for each in claims]
    edit = ConfigEdit("retention.ms", None, "60000")
    plan = Plan(
        create=tuple(map(Creation, claims, specs)),
        grow=tuple(Growth(each, 300, 100) for each in claims),
        alter=tuple(Alteration(each, (edit,) * 100) for each in claims),
    )
    while (step := large.next_step(LINK, plan, tried)).changes_target:
        await make(large, step)

    sizes = [len(names) for names in broker.asked]
    assert max(sizes) <= 50  # 24 of 202 records, 50 of 100
    assert sizes.count(24) == 2
    assert sum(sizes) == 3 * 60
    assert len(large.next_step(LINK, creating(*claims), set()).create) == 50  # small ones
