"""The console over two living regions, in the machine's own Chromium and over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from tests.faultkit.waiting import wait_until
from tests.integration.console.conftest import Tab
from tests.integration.console.world import EVIL, LOST, PLACED, TOKEN, World
from tests.integration.mirror.making import read

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.timeout(240)

LINK = "/links/east/west"
ORDERS = f"{LINK}/topics/shop-orders"
KEPT = "(({ mark, open }) => [mark, open])(document.querySelector('details'))"
PAGES = {
    "estate": ("/", "east → west"),
    "link": (LINK, "east.shop-payments"),
    "topic": (ORDERS, "6 partitions"),
    "partition": (f"{ORDERS}/0", "(by the lag service, "),
    "partition-faulted": (f"{LINK}/topics/{LOST}/0", "[100, 120) were deleted before they were"),
    "groups": (f"{LINK}/groups", "4 groups"),
    "group": (f"{LINK}/group?name=billing", "in place: the same record"),
    "events": ("/events", "retention-overtook"),
}


def text_of(page: Page) -> str:
    return page.inner_text("main")


def wait_text(page: Page, text: str) -> None:
    """Without loading the page again."""
    page.get_by_text(text).first.wait_for()


@pytest.mark.parametrize("name", PAGES)
def test_each_page_lives_without_an_error_and_asks_nobody_else(tab: Tab, name: str) -> None:
    path, text = PAGES[name]

    page = tab.open(path)
    wait_text(page, text)
    tab.keep(name)

    assert tab.wrong == []
    assert {url.split("/")[2] for url in tab.asked} == {tab.url.split("/")[2]}


def test_a_console_that_falls_silent_is_not_called_live(tab: Tab, world: World) -> None:
    page = tab.open("/")
    page.wait_for_selector("#state.on")

    world.console.freeze()
    try:
        page.wait_for_selector("#state.off", timeout=15_000)
        assert page.inner_text("#state") == "nothing heard, trying again"
    finally:
        world.console.thaw()
    page.wait_for_selector("#state.on")


def test_the_estate_is_fit_for_the_dark(tab: Tab) -> None:
    page = tab.open("/")
    wait_text(page, "east → west")
    tab.keep("estate-dark")

    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 19, 28)"
    assert tab.wrong == []


def test_an_open_page_follows_the_traffic_and_keeps_what_the_reader_did(tab: Tab) -> None:
    page = tab.open(f"{ORDERS}/0")
    before = page.locator(".marks dd").nth(1).inner_text()
    page.locator("summary").click()

    wait_until(
        lambda: page.locator(".marks dd").nth(1).inner_text() != before,
        deadline_s=20,
        what="the position to move on the open page",
    )

    assert page.locator("details").get_attribute("open") is not None
    assert len([url for url in tab.asked if "live=1" in url]) == 1


def test_what_the_reader_opened_stays_open_when_trouble_comes_and_goes(
    tab: Tab, world: World
) -> None:
    page = tab.open(f"{ORDERS}/0")
    wait_text(page, "(by the lag service, ")
    page.locator("summary").click()
    page.evaluate("document.querySelector('details').mark = 'the same node'")

    broker = world.west.broker(1)
    broker.pause()
    try:
        wait_text(page, "Cannot be read now.")
        during = page.evaluate(KEPT)
    finally:
        broker.resume()
    page.locator(".trouble").wait_for(state="detached")

    assert during == ["the same node", True]
    assert page.evaluate(KEPT) == during
    assert page.locator(".pairs .card").count() == 2
    world.console.wait_ready(30)


def test_a_group_called_script_is_text(tab: Tab) -> None:
    page = tab.open(f"{LINK}/groups")
    page.get_by_text(EVIL, exact=True).click()
    page.wait_for_selector("#state.on")

    assert page.inner_text("h1") == EVIL
    assert page.title() != "taken"
    assert tab.wrong == []


@pytest.mark.parametrize("group", PLACED)
def test_every_name_of_a_group_leads_to_its_page(tab: Tab, group: str) -> None:
    page = tab.open(f"{LINK}/groups")
    page.get_by_role("link", name=group, exact=True).click()
    page.wait_for_selector("#state.on")
    row = page.locator("tbody tr")

    assert page.inner_text("h1") == group
    assert row.locator("td").nth(1).inner_text() == str(PLACED[group])


def test_a_group_at_work_is_shown_with_its_member(tab: Tab) -> None:
    page = tab.open(f"{LINK}/group?name=tills")

    wait_text(page, "till-7 at")
    assert "Stable" in text_of(page)


def test_the_form_translates_an_offset_as_a_reader_finds_it(tab: Tab, world: World) -> None:
    wanted = read(world.east, "shop-orders", 6)[3][150]
    copy = next(one for one in read(world.west, "east.shop-orders", 6)[3] if one[2:] == wanted[2:])

    page = tab.page
    page.goto(f"{tab.url}/translate")
    page.fill("[name=topic]", "shop-orders")
    page.fill("[name=partition]", "3")
    page.fill("[name=offset]", str(wanted.offset))

    def answered() -> bool:
        """While the map is read anew the page says so; it is not live, and is asked again."""
        with page.expect_navigation():
            page.get_by_role("button", name="Translate").click()
        return page.locator(".equation").count() == 1

    wait_until(answered, deadline_s=60, what="the translation")
    tab.keep("translate")

    there = page.locator(".equation b").nth(1).inner_text()
    assert int(there.replace(",", "")) == copy.offset
    assert tab.wrong == []


def test_the_filter_leaves_only_what_to_look_at(tab: Tab) -> None:
    page = tab.open(LINK)
    page.get_by_label("only what to look at").check()
    page.get_by_role("button", name="Filter").click()
    page.wait_for_selector("#state.on")

    names = page.locator("tbody a.main")
    wait_until(lambda: names.all_inner_texts() == [LOST], deadline_s=60, what=f"only {LOST}")


def test_the_api_gives_what_the_pages_show(world: World) -> None:
    def get(path: str) -> dict[str, dict[str, object]]:
        answer = httpx.get(f"{world.url}/api{path}").raise_for_status()
        found: dict[str, dict[str, object]] = answer.json()
        return found

    row = get(f"{LINK}/topics/{LOST}/0")["row"]
    assert (row["verdict"], row["next_source"]) == ("faulted", 100)
    assert len(get("/estate")["links"]) == 2
    wait_until(  # while a cluster does not answer, that is what is told
        lambda: get(f"{LINK}/groups?q=bill")["page"]["total"] == 1,
        deadline_s=60,
        what="the one group",
        ignoring=(httpx.TransportError,),
    )
    assert set(get("/openapi.json")["paths"]) >= {"/estate", "/links/{source}/{target}/groups"}


def test_writes_are_refused_without_the_token(world: World) -> None:
    url = f"{world.url}/api/access"
    right, wrong = ({"Authorization": f"Bearer {one}"} for one in (TOKEN, "guessed"))

    assert httpx.post(url).status_code == 401
    assert httpx.post(url, headers=wrong).status_code == 403
    assert httpx.post(url, headers=right).status_code == 204
    assert TOKEN not in world.console.text()


def test_a_cluster_that_is_down_is_a_word_on_its_pages_and_the_others_go_on(
    tab: Tab, world: World
) -> None:
    page = tab.open(LINK)
    broker = world.west.broker(1)
    broker.pause()
    try:
        wait_text(page, "Cannot be read now.")
        answer = world.console.get("/readyz")
        home = httpx.get(f"{world.url}/api/links/west/east").json()
        elsewhere = httpx.get(f"{world.url}/api/links/east/west/groups", timeout=20).json()
    finally:
        broker.resume()

    assert answer.status_code == 503
    assert "fleet shop-west" in answer.json()["reasons"]
    assert (home["trouble"], home["link"]["known"]) == ("", True)
    assert "west" in elsewhere["trouble"]
    page.locator(".trouble").wait_for(state="detached")
    world.console.wait_ready(30)
    wait_text(page, "east.shop-payments")
