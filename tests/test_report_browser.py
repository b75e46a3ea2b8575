"""The committed report in a real browser, offline."""

import pytest
from playwright.sync_api import sync_playwright

from conftest import COMMITTED

pytestmark = pytest.mark.browser
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--no-first-run"]


@pytest.fixture
def opened(chromium):
    """Opens a page at a width; yields the page with its requests and console messages."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)

        def open_at(width, scheme="light"):
            page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True).new_page()
            page.requests, page.messages = [], []
            page.on("request", lambda request: page.requests.append(request.url))
            page.on("console", lambda message: page.messages.append(message.text))
            page.on("pageerror", lambda error: page.messages.append(str(error)))
            page.goto((COMMITTED / "report.html").as_uri())
            return page

        yield open_at
        browser.close()


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_offline_without_a_request_or_a_message(opened, width, scheme):
    page = opened(width, scheme)
    assert page.requests == [(COMMITTED / "report.html").as_uri()]
    assert page.messages == []
    assert page.locator("h1").inner_text() == "Does a language model execute the procedure that it was given?"
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_figure_is_there_with_its_words_and_data(opened):
    page = opened(1280)
    assert page.locator("figure svg[role=img]").count() == 9
    for n in range(9):
        figure = page.locator("figure").nth(n)
        assert figure.locator("svg").bounding_box()["height"] > 150
        assert figure.locator("dt").all_inner_texts() == ["How to read it", "Takeaway", "Technical framing"]
    data = page.locator("details", has_text="The data of this figure")
    assert data.count() == 9
    data.first.locator("summary").click()
    assert data.first.locator("td").first.is_visible()


def test_the_contents_lead_to_their_sections(opened):
    page = opened(1280)
    links = page.locator("nav a")
    assert links.count() >= 8
    for n in range(links.count()):
        assert page.locator(links.nth(n).get_attribute("href")).count() == 1
    links.last.click()
    page.wait_for_function("window.scrollY > 500")
