from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

from services.install.credentials import unsecured_token


def test_an_unsecured_token_names_its_user_and_its_end_and_is_signed_by_nobody() -> None:
    now = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)

    head, claims, signature = unsecured_token("alice", now, timedelta(hours=1)).split(".")

    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "none", "typ": "JWT"}
    assert json.loads(base64.urlsafe_b64decode(claims + "==")) == {
        "sub": "alice",
        "iat": 1769860800,
        "exp": 1769864400,
    }
    assert signature == ""
