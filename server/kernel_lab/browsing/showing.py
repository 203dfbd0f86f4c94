"""Shows a page of ours to a person, in a browser with a window and DevTools, until they close it.

In: a profile, an address. Out: nothing; LabError if the browser does not start. Judges nothing.
"""

import contextlib

from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page, sync_playwright

from kernel_lab.browsing.browser import launch_options, short
from kernel_lab.browsing.profiles import Profile
from kernel_lab.errors import LabError


def show(profile: Profile, address: str) -> None:
    """Opens the address and returns once the window is closed."""
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(**launch_options(profile))
            page = browser.new_context(no_viewport=True).new_page()
            page.goto(address)
        except PlaywrightError as error:
            raise LabError(f"{profile.program} could not be shown: {short(error.message)}") from None
        _closed(page)
        browser.close()


def _closed(page: Page) -> None:
    """Waits until the page is closed. One that crashed is still there: its window offers to load it again."""
    while not page.is_closed():
        with contextlib.suppress(PlaywrightError):
            page.wait_for_event("close", timeout=0)
