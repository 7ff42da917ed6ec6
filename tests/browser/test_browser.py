"""A real browser: the path of a new user with and without JavaScript, phone and desktop, light and dark, WCAG AA."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.serving import ARGUMENTS, CHROMIUM, running_server

pytestmark = pytest.mark.browser
sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
if CHROMIUM is None:
    pytest.skip("no Chromium is installed here (package chromium)", allow_module_level=True)

axe_playwright = pytest.importorskip("axe_playwright_python.base", reason="axe is not installed")
AXE = (Path(axe_playwright.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def address():
    with running_server() as found:
        yield found


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture(
    params=[(1440, "light", True), (390, "dark", True), (360, "light", False)], ids=["desktop light", "phone dark", "no script"]
)
def page(request, browser, address):
    width, theme, script = request.param
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=theme, java_script_enabled=script, base_url=address
    )
    made = context.new_page()
    made.set_default_timeout(8_000)
    made.faults = []
    made.on("console", lambda message: made.faults.append(message.text) if message.type in ("error", "warning") else None)
    made.on("pageerror", lambda error: made.faults.append(str(error)))
    made.on("request", lambda sent: made.faults.append(sent.url) if not sent.url.startswith((address, "data:")) else None)
    made.script = script
    yield made
    context.close()


def check(page, *, faults: bool = True) -> None:
    """Nothing leaves the origin, nothing fails, nothing scrolls sideways."""
    if page.script:
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    if faults:
        assert page.faults == []


def test_from_preset_to_a_saved_and_rerun_profile(page):
    page.goto("/")
    check(page)
    page.locator(".cards").get_by_role("link", name="Questions over our documents").click()
    assert page.get_by_label("Prompt", exact=True).input_value() == "6000"
    check(page)
    page.get_by_role("button", name="Get the recommendation", exact=True).click()
    page.get_by_role("heading", name="Why this").wait_for()
    check(page)
    page.get_by_label("Customer").fill("Browser customer")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name="Profile and its versions").click()
    page.get_by_role("button", name="Run again").click()
    page.get_by_role("heading", name="Bill of materials").wait_for()
    page.goto("/profiles")
    assert page.get_by_text("Browser customer").count() >= 1
    check(page)


def test_an_error_is_shown_and_mended(page):
    page.goto("/new?preset=rag-documents")
    page.get_by_label("Prompt", exact=True).fill("many")
    page.get_by_role("button", name="Get the recommendation", exact=True).click()
    page.get_by_role("alert").wait_for()
    assert page.get_by_label("Prompt", exact=True).input_value() == "many"
    page.faults.clear()  # Chromium logs the 422 of the page itself.
    page.get_by_label("Prompt", exact=True).fill("3000")
    page.get_by_role("button", name="Get the recommendation", exact=True).click()
    page.get_by_role("heading", name="Why this").wait_for()
    check(page)


def test_the_preview_follows_the_form(browser, address):
    context = browser.new_context(viewport={"width": 1200, "height": 800}, base_url=address)
    page = context.new_page()
    page.set_default_timeout(8_000)
    page.goto("/new?preset=rag-documents")
    preview = page.locator("#preview")
    preview.locator(".tag").wait_for()
    before = preview.inner_text()
    page.get_by_label("or requests in flight at the peak").fill("400")
    page.wait_for_function("before => document.getElementById('preview').innerText !== before", arg=before)
    context.close()


def test_the_theme_can_be_chosen_and_is_remembered(browser, address):
    context = browser.new_context(color_scheme="light", base_url=address)
    page = context.new_page()
    page.set_default_timeout(8_000)
    page.goto("/")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Dark").click()
    page.goto("/new")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    context.close()


def test_the_form_works_with_the_keyboard_alone(browser, address):
    context = browser.new_context(base_url=address)
    page = context.new_page()
    page.set_default_timeout(8_000)
    page.goto("/new?preset=embeddings")
    page.get_by_label("Items to process").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Why this").wait_for()
    context.close()


PATHS = ["/", "/new", "/new?preset=pretrain-7b", "/profiles", "/catalog/gpus", "/nowhere", "answer", "refused"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
def test_axe_finds_no_violation(browser, address, path, theme):
    # axe is injected as a script, which the pages' own policy forbids; the policy itself is tested over HTTP.
    context = browser.new_context(color_scheme=theme, base_url=address, bypass_csp=True)
    page = context.new_page()
    page.set_default_timeout(8_000)
    if path in ("answer", "refused"):
        page.goto("/new?preset=code-assistant")
        if path == "refused":
            page.get_by_label("Prompt", exact=True).fill("-1")
        page.get_by_role("button", name="Get the recommendation", exact=True).click()
        page.wait_for_load_state("load")
    else:
        page.goto(path)
    for details in page.query_selector_all("details"):
        details.evaluate("element => { element.open = true; }")
    page.evaluate(AXE)
    result = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})")
    found = [(item["id"], [node["html"][:120] for node in item["nodes"][:3]]) for item in result["violations"]]
    assert found == []
    context.close()
