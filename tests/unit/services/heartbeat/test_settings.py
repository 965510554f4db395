"""The settings of heartbeat."""

from __future__ import annotations

import pytest

from mirrorfleet.core.errors import ConfigError
from services.heartbeat.settings import Place, parse


def test_by_default_there_is_a_heartbeat_a_second_on_the_target() -> None:
    settings = parse({})
    assert (settings.period_s, settings.place) == (1.0, Place.TARGET)


@pytest.mark.parametrize(
    ("subtree", "said"),
    [
        ({"period": 1}, "services.heartbeat.period: unknown key; did you mean 'period_s'?"),
        ({"period_s": 0}, "services.heartbeat.period_s: Input should be greater than"),
        ({"place": "both"}, "services.heartbeat.place: Input should be 'target' or 'source'"),
    ],
)
def test_a_wrong_setting_is_named(subtree: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(subtree)
    assert said in str(caught.value)
