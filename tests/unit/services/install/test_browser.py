"""Who can be given a browser, and where one is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.install.browser import find_browser, why_not


def test_only_root_of_a_system_with_apt_can_be_given_one() -> None:
    assert why_not("/usr/bin/apt-get", 0) is None
    assert why_not("/usr/bin/apt-get", 1000) == "only root may install packages"
    assert why_not(None, 0) == "this system has no apt-get"


def test_the_first_known_name_on_path_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_browser() is None
    for name in ("google-chrome", "chromium-browser"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)

    assert find_browser() == tmp_path / "chromium-browser"
