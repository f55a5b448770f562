"""A real headless Chromium, whose console may show no error.

from tests import browser

@pytest.mark.parametrize(("width", "scheme"), browser.VIEWS)
def test_page(open_page, width, scheme):
    page = open_page("http://127.0.0.1:8501/", width, scheme)
    assert browser.axe_violations(page) == []
    assert browser.hidden_width(page) == 0
"""

import contextlib
import shutil

import pytest

from tests.nightly import nightly

WIDTHS = (390, 1280)
SCHEMES = ("light", "dark")
VIEWS = [
    (390, "light"),
    nightly(1280, "dark"),
    nightly(390, "dark"),
    nightly(1280, "light"),
]
HEIGHT = 900
# Only a hang takes that long; Playwright's 30 s can pass on a busy machine.
PATIENCE_MILLISECONDS = 120_000
_NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextlib.contextmanager
def launched():
    """Yields the system's Chromium; skips the test without one."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="Python's playwright is not installed"
    )
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(_NAMES)} is installed")
    with sync_api.sync_playwright() as playwright:
        # As root, which CI often is, Chromium does not start its sandbox.
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox"]
        )
        yield browser
        browser.close()


# Not of the session: until Playwright stops, its event loop counts as the thread's
# running one, and `asyncio.run` of other tests would fail.
@pytest.fixture(scope="module")
def chromium():
    """Chromium, as `playwright.sync_api.Browser`."""
    with launched() as browser:
        yield browser


@pytest.fixture
def open_page(chromium):
    """Opens addresses in new windows; a console or page error fails the test."""
    with opening(chromium) as open_page:
        yield open_page


@contextlib.contextmanager
def opening(chromium):
    """Yields a function that opens addresses; fails if their consoles had errors."""
    problems = []
    with contextlib.ExitStack() as stack:

        def open_page(
            address="about:blank",
            width=1280,
            scheme="light",
            may_have_errors=False,
            **options,
        ):
            """Returns `playwright.sync_api.Page` of an address.

            `options` are those of `Browser.new_context`.
            """
            context = chromium.new_context(
                viewport={"width": width, "height": HEIGHT},
                color_scheme=scheme,
                **options,
            )
            stack.callback(context.close)
            context.set_default_timeout(PATIENCE_MILLISECONDS)
            page = context.new_page()
            if not may_have_errors:
                page.on(
                    "console", lambda m: m.type == "error" and problems.append(m.text)
                )
                page.on("pageerror", lambda error: problems.append(str(error)))
            page.goto(str(address))
            return page

        yield open_page
    assert not problems, f"the browser's console: {problems}"


def axe_violations(page):
    """Returns the accessibility problems that axe finds, with their elements."""
    sync_playwright = pytest.importorskip(
        "axe_playwright_python.sync_playwright",
        reason="axe-playwright-python is not installed",
    )
    violations = sync_playwright.Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {node['failureSummary']} {node['html']}"
        for rule in violations
        for node in rule["nodes"]
    ]


def hidden_width(page):
    """Returns by how many pixels the page is wider than the window.

    It waits for two seconds at most: a page that just changed may be laid out anew.
    """
    root = "document.documentElement"
    for _ in range(20):
        width = page.evaluate(f"{root}.scrollWidth - {root}.clientWidth")
        if not width:
            break
        page.wait_for_timeout(100)
    return width
