"""The settings of checkpoint."""

from __future__ import annotations

import pytest

from mirrorfleet.core.errors import ConfigError
from services.checkpoint.settings import Pack, parse


def test_by_default_a_look_is_every_5_s_and_the_fleet_packs() -> None:
    settings = parse({})
    assert (settings.period_s, settings.rewrite_s, settings.pack) == (5.0, 86_400.0, Pack.FLEET)


@pytest.mark.parametrize(
    ("subtree", "said"),
    [
        ({"perid_s": 1}, "services.checkpoint.perid_s: unknown key; did you mean 'period_s'?"),
        ({"period_s": 0}, "services.checkpoint.period_s: Input should be greater than"),
        (
            {"pack_at_least": True},
            "services.checkpoint.pack_at_least: should be a number, not true or false.",
        ),
        ({"pack": "me"}, "services.checkpoint.pack: Input should be 'fleet' or 'spark'"),
    ],
)
def test_a_wrong_setting_is_named(subtree: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(subtree)
    assert said in str(caught.value)
