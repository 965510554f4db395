"""Incremental fetch sessions: what each request says, after each answer."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.ids import NO_TOPIC_ID
from mirrorfleet.kafka.fetch_session import FetchPlan, FetchSession
from mirrorfleet.wire.k01_fetch import FetchPoint
from mirrorfleet.wire.topic_refs import TopicRef

ORDERS = UUID("00000000-0000-4000-8000-00000000000a")
AGAIN = UUID("00000000-0000-4000-8000-00000000000b")
SESSION = 4711


def at(partition: int, offset: int, topic_id: UUID = ORDERS) -> FetchPoint:
    return FetchPoint(topic="orders", topic_id=topic_id, partition=partition, offset=offset)


def asked(plan: FetchPlan) -> list[tuple[int, int]]:
    return [(point.partition, point.offset) for point in plan.points]


def session(*points: FetchPoint, version: int = 17) -> FetchSession:
    made = FetchSession(version)
    for point in points:
        made.want(point)
    return made


def established(*points: FetchPoint, version: int = 17) -> FetchSession:
    """A session whose first full request was answered."""
    made = session(*points, version=version)
    made.plan()
    assert made.accept(ErrorCode.NONE, SESSION)
    return made


def test_the_first_request_asks_for_a_session_with_everything() -> None:
    plan = session(at(0, 5), at(1, 6)).plan()
    assert (plan.version, plan.session_id, plan.session_epoch) == (17, 0, 0)
    assert asked(plan) == [(0, 5), (1, 6)]
    assert plan.forgotten == []


def test_later_requests_say_only_what_changed() -> None:
    fetching = established(at(0, 5), at(1, 6))
    fetching.want(at(1, 9))
    plan = fetching.plan()
    assert (plan.session_id, plan.session_epoch) == (SESSION, 1)
    assert asked(plan) == [(1, 9)]


def test_without_a_session_every_request_is_whole_and_the_broker_keeps_nothing() -> None:
    fetching = FetchSession(17, kept=False)
    fetching.want(at(0, 5))
    first = fetching.plan()
    assert fetching.accept(ErrorCode.NONE, 0)
    fetching.forget(ORDERS, 0)
    fetching.want(at(1, 7))
    second = fetching.plan()

    assert (first.session_id, first.session_epoch, asked(first)) == (0, -1, [(0, 5)])
    assert (second.session_id, second.session_epoch, asked(second)) == (0, -1, [(1, 7)])
    assert second.forgotten == []


def test_nothing_changed_is_an_empty_request_of_the_next_epoch() -> None:
    fetching = established(at(0, 5))
    assert fetching.plan()[1:] == (SESSION, 1, [], [])
    fetching.accept(ErrorCode.NONE, SESSION)
    assert fetching.plan()[1:] == (SESSION, 2, [], [])


@pytest.mark.parametrize("field", ["leader_epoch", "last_fetched_epoch", "max_bytes"])
def test_every_field_of_a_point_counts_as_a_change(field: str) -> None:
    fetching = established(at(0, 5))
    changed = at(0, 5)
    setattr(changed, field, 77)
    fetching.want(changed)
    assert asked(fetching.plan()) == [(0, 5)]


def test_a_forgotten_partition_is_named_once() -> None:
    fetching = established(at(0, 5), at(1, 6))
    fetching.forget(ORDERS, 1)
    assert fetching.plan().forgotten == [(TopicRef("orders", ORDERS), 1)]
    fetching.accept(ErrorCode.NONE, SESSION)
    assert fetching.plan().forgotten == []


def test_a_new_partition_and_a_forgotten_one_go_together() -> None:
    fetching = established(at(0, 5), at(1, 6))
    fetching.forget(ORDERS, 1)
    fetching.want(at(2, 7))
    plan = fetching.plan()
    assert asked(plan) == [(2, 7)]
    assert plan.forgotten == [(TopicRef("orders", ORDERS), 1)]


def test_a_partition_forgotten_and_wanted_again_stays() -> None:
    fetching = established(at(0, 5))
    fetching.forget(ORDERS, 0)
    fetching.want(at(0, 8))
    plan = fetching.plan()
    assert (asked(plan), plan.forgotten) == ([(0, 8)], [])


def test_what_an_unanswered_request_said_is_said_again() -> None:
    fetching = established(at(0, 5))
    fetching.want(at(0, 6))
    fetching.plan()
    assert asked(fetching.plan()) == [(0, 6)]


def test_a_session_that_the_broker_dropped_is_made_anew() -> None:
    fetching = established(at(0, 5))
    fetching.plan()
    assert not fetching.accept(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    plan = fetching.plan()
    assert (plan.session_id, plan.session_epoch, asked(plan)) == (0, 0, [(0, 5)])


@pytest.mark.parametrize(
    "error", [ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR]
)
def test_a_session_out_of_step_is_closed_by_the_request_that_begins_a_new_one(
    error: ErrorCode,
) -> None:
    fetching = established(at(0, 5))
    fetching.plan()
    assert not fetching.accept(error, 0)
    plan = fetching.plan()
    assert (plan.session_id, plan.session_epoch, asked(plan)) == (SESSION, 0, [(0, 5)])


def test_another_error_of_the_whole_request_is_left_to_the_caller() -> None:
    fetching = established(at(0, 5))
    fetching.plan()
    assert fetching.accept(ErrorCode.UNKNOWN_SERVER_ERROR, 0)
    assert fetching.plan().session_epoch == 0


def test_a_broker_without_room_for_a_session_gets_full_requests() -> None:
    fetching = session(at(0, 5))
    for _ in range(2):
        plan = fetching.plan()
        assert (plan.session_id, plan.session_epoch, asked(plan)) == (0, 0, [(0, 5)])
        fetching.accept(ErrorCode.NONE, 0)


def test_without_room_for_a_session_what_an_answer_brought_is_asked_for_last() -> None:
    """A broker fills its answer in the order of the request: the first would take all of each."""
    fetching = session(*(at(partition, 0) for partition in range(5)))
    brought = []
    for offset in range(1, 6):
        first_two = [partition for partition, _ in asked(fetching.plan())][:2]
        fetching.accept(ErrorCode.NONE, 0)
        for partition in first_two:
            fetching.want(at(partition, offset))
        brought += first_two
    assert brought == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]


def test_epochs_begin_again_at_1_because_0_means_a_new_session() -> None:
    fetching = established(at(0, 5))
    fetching._epoch = 2**31 - 1
    fetching.plan()
    fetching.accept(ErrorCode.NONE, SESSION)
    assert fetching.plan().session_epoch == 1


def test_one_topic_without_id_makes_a_new_session_by_name() -> None:
    fetching = established(at(0, 5))
    fetching.want(FetchPoint(topic="old", topic_id=NO_TOPIC_ID, partition=0, offset=1))
    plan = fetching.plan()
    assert (plan.version, plan.session_epoch, asked(plan)) == (12, 0, [(0, 5), (0, 1)])


def test_by_id_a_recreated_topic_is_another_partition() -> None:
    fetching = established(at(0, 5))
    fetching.forget(ORDERS, 0)
    fetching.want(at(0, 0, AGAIN))
    plan = fetching.plan()
    assert asked(plan) == [(0, 0)]
    assert plan.forgotten == [(TopicRef("orders", ORDERS), 0)]


def test_by_name_a_recreated_topic_needs_a_new_session() -> None:
    """In one request the broker would add the name and then forget it."""
    fetching = established(at(0, 5), version=12)
    fetching.forget(ORDERS, 0)
    fetching.want(at(0, 0, AGAIN))
    plan = fetching.plan()
    assert (plan.session_epoch, asked(plan), plan.forgotten) == (0, [(0, 0)], [])


def test_topics_are_known_by_what_answers_call_them() -> None:
    by_id, by_name = session(at(0, 5)), session(at(0, 5), version=12)
    by_id.plan()
    by_name.plan()
    assert by_id.names == {ORDERS.bytes: TopicRef("orders", ORDERS)}
    assert by_name.names == {b"orders": TopicRef("orders", ORDERS)}


Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["want", "want", "forget", "plan", "answered", "lost"]),
        st.integers(0, 3),
        st.integers(0, 2),
    ),
    max_size=40,
)


@given(STEPS)
def test_each_request_tells_the_broker_all_that_it_does_not_know_and_nothing_else(
    steps: list[Step],
) -> None:
    """Whatever was wanted and forgotten, planned and never answered in between."""
    fetching = FetchSession(17)
    wanted: dict[int, int] = {}
    broker: dict[int, int] = {}
    plan: FetchPlan | None = None
    for step, partition, offset in steps:
        if step == "want":
            wanted[partition] = offset
            fetching.want(at(partition, offset))
        elif step == "forget":
            wanted.pop(partition, None)
            fetching.forget(ORDERS, partition)
        elif step == "plan":
            plan = fetching.plan()
            known = {} if plan.session_epoch == 0 else broker
            assert dict(asked(plan)) == dict(wanted.items() - known.items())
            assert {number for _, number in plan.forgotten} == known.keys() - wanted.keys()
            told = dict(wanted)
        elif plan is not None and step == "answered":
            assert fetching.accept(ErrorCode.NONE, SESSION)
            broker, plan = told, None
        elif plan is not None:
            assert not fetching.accept(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
            plan = None
