"""One world and one browser for all tests of this folder; each test has a tab of its own.

Playwright's loop runs on this thread as long as the browser is open, so every test here is sync.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from services.install.browser import install_browser
from services.local.region import Region
from tests.integration.console.world import World, living

FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
TAB_MS: Final = 20_000
KEEP: Final = "MIRRORFLEET_SCREENSHOTS"
"""Where pictures of the pages are kept; the documents' are in docs/screenshots."""


@pytest.fixture(scope="module")
def world(east: Region, west: Region, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with living(east, west, tmp_path_factory.mktemp("console")) as made:
        yield made


@pytest.fixture(scope="module")
def browser(world: World) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(
            executable_path=str(install_browser()), headless=True, args=list(FLAGS)
        )


@dataclass
class Tab:
    """A page, and whatever went wrong in it."""

    page: Page
    url: str
    wrong: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", lambda said: self.wrong.append(f"{said.type}: {said.text}"))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: self.wrong.append(dialog.message))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, path: str) -> Page:
        """Open a page of the console and wait until it is live."""
        self.page.goto(self.url + path)
        self.page.wait_for_selector("#state.on")
        return self.page

    def keep(self, name: str) -> None:
        """Keep a picture, when somebody wants them."""
        folder = os.environ.get(KEEP)
        if folder:
            self.page.screenshot(path=Path(folder) / f"{name}.png")


@pytest.fixture
def tab(world: World, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Tab]:
    context = browser.new_context(
        viewport={"width": 1100, "height": 760},
        color_scheme="dark" if "dark" in request.node.name else "light",
    )
    context.set_default_timeout(TAB_MS)
    made = Tab(context.new_page(), world.url)
    yield made
    context.close()
