"""A service's tuning: what is wrong is told with the nearest key, and with where it stands."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ConfigDict, Field

from mirrorfleet.config.security import Secret
from mirrorfleet.config.tuning import parse_tuning
from mirrorfleet.core.errors import ConfigError


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    period_s: float = Field(default=1.0, gt=0)
    most: int = Field(default=5, ge=0)
    loud: bool = False
    token: Secret | None = None


def refused(subtree: dict[str, object]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse_tuning(Settings, "pulse", subtree)
    return caught.value


@pytest.mark.parametrize(
    ("subtree", "said"),
    [
        (
            {"perid_s": 1},
            "services.pulse.perid_s: unknown key; did you mean 'period_s'?.",
        ),
        ({"zzz": 1}, "services.pulse.zzz: unknown key; valid here: loud, most, period_s, token."),
        ({"token": {"env": "A", "zzz": "B"}}, "services.pulse.token.zzz: unknown key."),
        ({"token": "c4n4ry"}, "services.pulse.token: a secret is never written here; write"),
    ],
    ids=["near", "far", "nested", "literal"],
)
def test_what_is_wrong_is_told_in_the_words_of_an_estate(
    subtree: dict[str, object], said: str
) -> None:
    assert str(refused(subtree)).startswith(said)


def test_of_several_problems_all_are_told_and_the_first_is_the_place() -> None:
    error = refused({"period_s": 0, "zzz": 1})

    assert str(error) == (
        "services.pulse.period_s: Input should be greater than 0;"
        " services.pulse.zzz: unknown key; valid here: loud, most, period_s, token."
    )
    assert error.path == "services.pulse.period_s"


def test_a_switch_is_no_number() -> None:
    for switch in (True, False):
        assert str(refused({"period_s": switch, "most": switch, "zzz": switch})) == (
            "services.pulse.period_s: should be a number, not true or false;"
            " services.pulse.most: should be a number, not true or false;"
            " services.pulse.zzz: unknown key; valid here: loud, most, period_s, token."
        )
        assert parse_tuning(Settings, "pulse", {"loud": switch, "most": 0}).loud is switch


def test_a_value_is_not_repeated_it_may_be_a_secret() -> None:
    error = refused({"period_s": "c4n4ry", "token": "c4n4ry"})

    assert "c4n4ry" not in f"{error}{error.__cause__}"
