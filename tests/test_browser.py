"""The browser that other tests use."""

import pytest

from tests import browser

pytestmark = pytest.mark.nightly

PAGE = """<!doctype html><html lang=en><title>t</title><main><h1>t</h1>
<p style="width: 500px">p</p>%s</main>"""


@pytest.fixture
def write(tmp_path):
    def write(body):
        path = tmp_path / "page.html"
        path.write_text(PAGE % body)
        return path.as_uri()

    return write


@pytest.mark.parametrize(("width", "scheme"), browser.VIEWS)
def test_page_has_the_width_and_the_color_scheme(open_page, write, width, scheme):
    page = open_page(write(""), width, scheme)
    assert page.evaluate("innerWidth") == width
    assert page.evaluate(f"matchMedia('(prefers-color-scheme: {scheme})').matches")
    assert (browser.hidden_width(page) > 0) == (width == 390)


def test_axe_names_the_element_without_a_label(open_page, write):
    assert browser.axe_violations(open_page(write(""))) == []
    (violation,) = browser.axe_violations(open_page(write("<textarea></textarea>")))
    assert "<textarea>" in violation


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("<script>console.error('bad')</script>", "bad"),
        ("<script>throw Error('worse')</script>", "worse"),
        ("<img src='missing.png' alt=''>", "Failed to load resource"),
    ],
)
def test_error_of_the_console_fails_the_test(chromium, write, body, error):
    with (
        pytest.raises(AssertionError, match=error),
        browser.opening(chromium) as open_page,
    ):
        open_page(write(body))
