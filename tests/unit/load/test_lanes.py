"""A lane of the traffic maker that was fenced."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.load.lanes import _is_fatal


def found(*, fatal: bool) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=fatal))


@pytest.mark.parametrize("fatal", [True, False])
def test_a_fatal_error_is_known_also_where_a_callback_met_it(*, fatal: bool) -> None:
    met = SystemError("returned a result with an exception set")
    met.__cause__ = found(fatal=fatal)

    assert _is_fatal(met) is fatal
    assert _is_fatal(found(fatal=fatal)) is fatal
    assert not _is_fatal(SystemError("of another kind"))
