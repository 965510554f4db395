"""Reading is free, everything else needs the right token."""

from __future__ import annotations

import pytest

from services.console.access import refusal

TOKEN = "sixteen or more letters"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("token", [None, TOKEN])
def test_reading_needs_no_token(method: str, token: str | None) -> None:
    assert refusal(method, None, token) is None
    assert refusal(method, "Bearer wrong", token) is None


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_without_a_token_of_its_own_a_console_is_read_only(method: str) -> None:
    found = refusal(method, f"Bearer {TOKEN}", None)

    assert found is not None
    assert (found.status, found.error) == (403, "this console is read-only: it has no token.")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (None, 401),
        ("", 403),
        (TOKEN, 403),
        ("Bearer", 403),
        ("Bearer ", 403),
        (f"Basic {TOKEN}", 403),
        (f"Bearer {TOKEN}x", 403),
        ("Bearer \u00e4", 403),
    ],
)
def test_no_token_and_a_wrong_token_are_refused(sent: str | None, status: int) -> None:
    found = refusal("POST", sent, TOKEN)

    assert found is not None
    assert found.status == status


def test_the_right_token_goes_on() -> None:
    assert refusal("POST", f"Bearer {TOKEN}", TOKEN) is None
    assert refusal("DELETE", f"bearer  {TOKEN}", TOKEN) is None
