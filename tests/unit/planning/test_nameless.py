"""A cluster that gives its topics no ids cannot tell one from another of its name."""

from __future__ import annotations

from dataclasses import replace

from mirrorfleet.core.ids import NO_TOPIC_ID
from mirrorfleet.planning.topics import Reason
from tests.unit.planning.samples import copied, orders, planned
from tests.unit.planning.test_plan import held_reasons


def test_topics_without_ids_are_held_back_on_either_side() -> None:
    nameless = replace(copied(), topic_id=NO_TOPIC_ID)
    for result, side in (
        (planned(orders(topic_id=NO_TOPIC_ID), None), "orders has no id on east"),
        (planned(orders(topic_id=NO_TOPIC_ID), copied()), "orders has no id on east"),
        (planned(orders(), nameless), "east.orders has no id on west"),
    ):
        assert held_reasons(*result.held) == [("orders", Reason.NO_IDS)]
        assert side in result.held[0].detail
        assert (result.pending, result.publish) == (0, ())
