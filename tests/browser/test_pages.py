"""The pages in a real Chromium: accessibility, narrow screens, the live preview, and the whole path by keyboard and without JavaScript."""

from __future__ import annotations

import pytest

from tests.browser.serving import ARGUMENTS, CHROMIUM, running_server

sync_api = pytest.importorskip("playwright.sync_api")
axe_playwright = pytest.importorskip("axe_playwright_python.sync_playwright")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt install chromium"),
    # Playwright and axe leave pipes to the garbage collector when the interpreter ends.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}
PRESETS = ("chat-500-staff", "pretrain-7b", "molecular-dynamics")


@pytest.fixture(scope="module")
def address():
    with running_server() as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser):
    """Open pages with settings of their own; any error of the page fails the test."""
    contexts, failures = [], []

    def page(**settings):
        context = browser.new_context(**settings)
        contexts.append(context)
        opened = context.new_page()
        opened.on("pageerror", lambda error: failures.append(str(error)))
        opened.on("console", lambda message: failures.append(message.text) if "Content Security Policy" in message.text else None)
        return opened

    yield page
    for context in contexts:
        context.close()
    assert not failures


def answer(page, address, preset):
    page.goto(f"{address}/new?preset={preset}")
    page.get_by_role("button", name="Get the recommendation", exact=True).click()
    page.wait_for_selector(".verdict h1")


def violations(page) -> list[str]:
    found = axe_playwright.Axe().run(page, options=RULES).response["violations"]
    return [f"{item['id']}: {item['help']}: {[node['html'][:160] for node in item['nodes'][:3]]}" for item in found]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_on_any_page(visit, address, theme):
    page = visit(color_scheme=theme, viewport={"width": 1280, "height": 900})
    for path in ("/", "/new", "/new?preset=chat-500-staff", "/profiles", "/catalog/gpus", "/nowhere"):
        page.goto(address + path)
        if path.startswith("/new?"):
            page.wait_for_selector("#preview .tag")
            page.evaluate("for (const item of document.querySelectorAll('details')) item.open = true")
        assert violations(page) == [], path
    for preset in PRESETS:
        answer(page, address, preset)
        assert violations(page) == [], preset
    page.goto(f"{address}/new")
    page.fill("#f-serving-input_tokens", "minus one")
    page.get_by_role("button", name="Get the recommendation", exact=True).click()
    page.wait_for_selector("#problems")
    assert violations(page) == []


@pytest.mark.parametrize("width", [360, 390])
def test_no_page_scrolls_sideways_on_a_phone(visit, address, width):
    page = visit(viewport={"width": width, "height": 800})

    def wide() -> list[str]:
        return page.evaluate(
            "() => document.documentElement.scrollWidth <= innerWidth ? [] :"
            " [...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, pre') && e.getBoundingClientRect().right > innerWidth + 1)"
            ".map(e => e.outerHTML.slice(0, 120))"
        )

    for path in ("/", "/new?preset=chat-500-staff", "/profiles", "/catalog/models"):
        page.goto(address + path)
        page.evaluate("for (const item of document.querySelectorAll('details')) item.open = true")
        assert wide() == [], path
    for preset in PRESETS:
        answer(page, address, preset)
        assert wide() == [], preset


def test_the_preview_follows_the_form_and_says_what_changed(visit, address):
    page = visit()
    page.goto(f"{address}/new?preset=chat-500-staff")
    page.wait_for_selector("#preview .tag")
    before = page.inner_text("#preview")
    page.fill("#f-serving-people-count", "50000")
    page.wait_for_function("old => document.getElementById('preview').innerText !== old", arg=before)
    assert "was" in page.inner_text("#preview .changes")


def test_the_theme_can_be_chosen_and_is_kept(visit, address):
    page = visit(color_scheme="light")
    page.goto(address)
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.goto(f"{address}/profiles")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_from_the_form_to_a_saved_profile_without_javascript(visit, address):
    page = visit(java_script_enabled=False)
    page.goto(address)
    page.get_by_role("link", name="Questions over our documents").click()
    page.get_by_role("button", name="Get the recommendation", exact=True).click()
    page.get_by_label("Customer").fill("Example & Co")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url("**/recommendations/**")
    page.get_by_role("link", name="Profile and its versions").click()
    page.get_by_role("button", name="Run again").click()
    page.wait_for_url("**/recommendations/**")
    page.get_by_role("link", name="Change and run again").click()
    page.get_by_label("or requests in flight at the peak").fill("40")
    page.get_by_role("button", name="Get the recommendation", exact=True).click()
    page.get_by_role("button", name="Save as next version").click()
    page.wait_for_url("**/recommendations/**")
    page.goto(f"{address}/profiles")
    row = page.get_by_role("row", name="Example & Co")
    assert "2" in row.inner_text()


def test_an_assumption_can_be_replaced_where_it_stands(visit, address):
    page = visit(java_script_enabled=False)
    answer(page, address, "chat-500-staff")
    page.get_by_label("Share active in the busy hour, share of heads").fill("0.4")
    page.get_by_role("button", name="Run again with yours").click()
    page.wait_for_selector(".verdict h1")
    assert page.locator("#again input[name='serving.people.active_share']").get_attribute("value") == "0.4"
    assert page.get_by_label("Share active in the busy hour, share of heads").count() == 0


def test_the_form_can_be_sent_and_mended_by_keyboard_alone(visit, address):
    page = visit()
    page.goto(f"{address}/new?preset=chat-500-staff")
    page.focus("#f-serving-input_tokens")
    page.keyboard.press("Control+a")
    page.keyboard.type("many")
    page.keyboard.press("Enter")
    page.wait_for_selector("#problems")
    assert page.evaluate("document.activeElement.id") == "problems"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "f-serving-input_tokens"
    page.keyboard.press("Control+a")
    page.keyboard.type("1500")
    page.keyboard.press("Enter")
    page.wait_for_selector(".verdict h1")
