"""What an operator is told about a link, and how often."""

from __future__ import annotations

import pytest

from mirrorfleet.planning.pending import Kind, PlannedChange
from mirrorfleet.planning.topics import Held, Reason
from mirrorfleet.records.events import EventKind
from mirrorfleet.runtime.metrics import Exposition, Metrics
from services.sync.report import LinkReport, event_kind, register_gauges
from tests.fakes.clock import HandClock
from tests.unit.planning.samples import CLAIM, LINK

NAME = Held("a", Reason.NAME, "too long")
GONE = Held("b", Reason.SOURCE_GONE, "gone")


def test_a_held_topic_is_news_once() -> None:
    report = LinkReport(LINK)

    assert [report.news([NAME]), report.news([NAME])] == [[NAME], []]
    assert report.held == (NAME,)


def test_a_topic_that_was_free_in_between_is_news_again() -> None:
    report = LinkReport(LINK)
    report.news([NAME])
    report.news([])

    assert report.news([NAME]) == [NAME]


def test_what_one_look_may_be_mistaken_about_is_news_at_the_second() -> None:
    report = LinkReport(LINK)

    assert [report.news([GONE]) for _ in range(3)] == [[], [GONE], []]


def test_a_mistaken_look_is_never_news() -> None:
    report = LinkReport(LINK)

    assert [report.news([GONE]), report.news([]), report.news([GONE])] == [[], [], []]


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (Reason.CLAIMED, EventKind.CLAIM_REFUSED),
        (Reason.SOURCE_GONE, EventKind.TOPIC_VANISHED),
        (Reason.REFUSED, EventKind.TOPIC_REFUSED),
    ],
)
def test_each_reason_has_its_event(reason: Reason, kind: EventKind) -> None:
    assert event_kind(reason) is kind


def test_the_status_of_a_link_is_ready_for_json() -> None:
    report = LinkReport(LINK, looked_at=10.0, took_s=0.1234, claims=(CLAIM,), pending=2)
    report.news([NAME])
    report.drift = (PlannedChange("east->west", Kind.GROW, "east.orders", "1 -> 2 partitions"),)
    report.acl_trouble = "east has no ACL authorizer"
    report.loop_trouble = "we may not READ it"

    assert report.notes() == (
        "1 changes wait for `mirrorfleet apply`; ACLs do not follow: east has no ACL authorizer;"
        " loops are not all seen: we may not READ it; 1 held, the first: too long"
    )
    assert report.status(12.5) == {
        "link": "east->west",
        "source_cluster": None,
        "slots": [],
        "topics": 1,
        "partitions": 0,
        "skipped": 0,
        "pending_changes": 2,
        "seconds_since_look": 2.5,
        "look_seconds": 0.123,
        "trouble": "",
        "acls": {"policy": "ignore", "trouble": "east has no ACL authorizer"},
        "loops": {"trouble": "we may not READ it"},
        "drift": [{"kind": "add-partitions", "what": "east.orders", "detail": "1 -> 2 partitions"}],
        "drift_changes": 1,
        "held": [{"topic": "a", "reason": "name", "detail": "too long"}],
        "held_topics": 1,
    }


def test_the_gauges_show_the_last_look_and_every_reason() -> None:
    metrics, clock = Metrics(), HandClock()
    report = LinkReport(LINK, looked_at=97.0, claims=(CLAIM,), pending=2, entries=4)
    report.news([NAME])
    register_gauges(metrics, clock, [report, LinkReport(LINK._replace(source=LINK.target))])

    shown = Exposition(metrics).text().decode()

    assert 'mirrorfleet_sync_pending_changes{link="east->west"} 2.0' in shown
    assert 'mirrorfleet_catalog_entries{link="east->west"} 4.0' in shown
    assert 'mirrorfleet_seconds_since_sync{link="east->west"} 3.0' in shown
    assert 'mirrorfleet_seconds_since_sync{link="west->west"}' not in shown
    assert 'mirrorfleet_sync_topics{link="east->west",state="copied"} 1.0' in shown
    assert 'mirrorfleet_sync_topic_faults{link="east->west",reason="name"} 1.0' in shown
    assert 'mirrorfleet_sync_topic_faults{link="east->west",reason="claimed"} 0.0' in shown
