"""A lane of the traffic maker that was fenced."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.load.lanes import MIX, Job, Lane, LaneSpec, is_over
from tests.load.making import POOL, Load, _lane
from tests.load.recipes import Topic, recipes

if TYPE_CHECKING:
    from confluent_kafka import Producer


def found(*, fatal: bool) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=fatal))


@pytest.mark.parametrize("fatal", [True, False])
def test_a_fatal_error_is_known_also_where_a_callback_met_it(*, fatal: bool) -> None:
    met = SystemError("returned a result with an exception set")
    met.__cause__ = found(fatal=fatal)

    assert is_over(met) is fatal
    assert is_over(found(fatal=fatal)) is fatal
    assert not is_over(SystemError("of another kind"))


def test_transactions_go_to_all_partitions_though_others_stay_with_one_for_long() -> None:
    """Where none has a marker for long, nobody knows when the source showed what."""
    topics = [Topic("orders", 24)]
    load = Load(bootstrap="nowhere:1", topics=topics, sticky=128)
    pool = recipes(topics, seed="0", count=POOL, sticky=128)
    seen: dict[str, set[int]] = {}
    for spec in MIX:
        job = _lane(load, pool, spec, 1.0).job
        seen[spec.name] = {pool[n * job.stride % POOL].partition for n in range(64)}

    assert {name: len(found) for name, found in seen.items() if name.startswith("txn")} == {
        "txn-lz4": 24,
        "txn-none": 24,
    }
    assert len(seen["lz4"]) == 1


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_what_was_to_be_committed_and_had_to_be_aborted_may_be_in_the_log(end: str) -> None:
    """The answer that was lost may have been that it is."""
    lane = Lane(LaneSpec("txn", 1.0), Job({}, [], "0", 1.0))
    must_abort = KafkaError(KafkaError._TIMED_OUT, "late", txn_requires_abort=True)

    def refused(_: float) -> None:
        raise KafkaException(must_abort)

    taken = {"flush": lambda _: 0, "abort_transaction": lambda _: None}
    lane._producer = cast("Producer", SimpleNamespace(commit_transaction=refused, **taken))
    lane._sent = sent = Counter({("orders", 0): 3})

    getattr(lane, end)()

    known = {"commit": lane.tally.unknown, "abort": lane.tally.aborted}
    assert known.pop(end) == sent
    assert [*known.values(), lane.tally.committed] == [Counter(), Counter()]
    assert lane.tally.transactions_aborted == 1
