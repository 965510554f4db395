"""A lane of the traffic maker that was fenced."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.load.lanes import MIX, _is_fatal
from tests.load.making import POOL, Load, _lane
from tests.load.recipes import Topic, recipes


def found(*, fatal: bool) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=fatal))


@pytest.mark.parametrize("fatal", [True, False])
def test_a_fatal_error_is_known_also_where_a_callback_met_it(*, fatal: bool) -> None:
    met = SystemError("returned a result with an exception set")
    met.__cause__ = found(fatal=fatal)

    assert _is_fatal(met) is fatal
    assert _is_fatal(found(fatal=fatal)) is fatal
    assert not _is_fatal(SystemError("of another kind"))


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
