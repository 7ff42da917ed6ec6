"""Pictures of the pages as people see them: ``make screenshots`` writes them to docs/screenshots."""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.serving import ARGUMENTS, CHROMIUM, running_server

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "screenshots"
WIDTHS = (1440, 390)
THEMES = ("light", "dark")


def main() -> int:
    """Home, form, recommendation and saved profiles at both widths in both themes."""
    if CHROMIUM is None:
        print("No Chromium is installed, so no pictures can be made.", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    with running_server() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        answers = save_examples(browser, address)
        for width in WIDTHS:
            for theme in THEMES:
                context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
                page = context.new_page()
                for name, path in {
                    "home": "/",
                    "form": "/new?preset=chat-500-staff",
                    "recommendation": answers[0],
                    "cluster": answers[1],
                    "profiles": "/profiles",
                }.items():
                    page.goto(address + path)
                    if name == "form":
                        page.wait_for_selector("#preview .tag")
                    page.screenshot(path=FOLDER / f"{name}-{width}-{theme}.png", full_page=name not in ("cluster", "recommendation"))
                context.close()
        browser.close()
    return 0


def save_examples(browser: Browser, address: str) -> list[str]:
    """Two saved answers, made through the pages: one server, and a cluster."""
    page = browser.new_page()
    found = [save(page, address, "code-assistant"), save(page, address, "pretrain-7b")]
    page.close()
    return found


def save(page: Page, address: str, preset: str) -> str:
    """The path of the stored answer to a preset."""
    page.goto(f"{address}/new?preset={preset}")
    page.get_by_role("button", name="Get the recommendation", exact=True).click()
    page.get_by_label("Customer").fill("Example customer")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/recommendations/**")
    return page.url.removeprefix(address)


if __name__ == "__main__":
    sys.exit(main())
