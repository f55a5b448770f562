"""The report's page in a browser."""

import re

import pytest

from report import page as report_page
from tests import browser
from tests.report import samples

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def write(tmp_path_factory):
    """Writes the page of a report, and returns its address on disk."""
    directory = tmp_path_factory.mktemp("pages")

    def write(name, report):
        path = directory / f"{name}.html"
        if not path.exists():
            path.write_text(report_page.render(report()), encoding="utf-8")
        return path.as_uri()

    return write


@pytest.fixture
def pushed(write, open_page):
    return open_page(write("pushed", samples.pushed))


def column(page, table, index):
    cells = page.locator(f"{table} tbody tr > :nth-child({index})")
    return [re.split(r"\s", text.strip())[0] for text in cells.all_inner_texts()]


@pytest.mark.parametrize(("width", "scheme"), browser.VIEWS)
def test_the_page_is_accessible_and_fits(write, open_page, width, scheme):
    page = open_page(write("pushed", samples.pushed), width, scheme)
    assert browser.hidden_width(page) == 0
    assert browser.axe_violations(page) == []
    assert 'img "Reliability"' in page.locator("#predictions").aria_snapshot()


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["hostile", "refused", "data_refused", "regression"])
def test_other_reports_are_accessible_and_fit(write, open_page, kind):
    page = open_page(write(kind, getattr(samples, kind)), 390, "dark")
    assert browser.hidden_width(page) == 0
    assert browser.axe_violations(page) == []


@pytest.mark.nightly
def test_sixty_classes_fit(write, open_page):
    page = open_page(write("classes", lambda: samples.classes(60)), 390)
    assert browser.hidden_width(page) == 0


@pytest.mark.nightly
def test_dark_mode_changes_the_figures(write, open_page):
    address = write("pushed", samples.pushed)
    colours = {
        scheme: open_page(address, scheme=scheme)
        .locator("#training svg path[stroke='var(--accent)']")
        .first.evaluate("path => getComputedStyle(path).stroke")
        for scheme in browser.SCHEMES
    }
    assert colours["light"] != colours["dark"]
    assert "none" not in colours.values()


def test_a_header_sorts_its_table_with_the_keyboard(pushed):
    rows = column(pushed, "#slices", 3)
    header = pushed.locator("#slices th", has_text="Rows")
    header.locator("button").focus()
    pushed.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "ascending"
    assert column(pushed, "#slices", 3) == sorted(rows, key=int)
    pushed.keyboard.press("Space")
    assert header.get_attribute("aria-sort") == "descending"
    assert column(pushed, "#slices", 3) == sorted(rows, key=int, reverse=True)


@pytest.mark.nightly
def test_tables_sort_by_value_not_by_text(pushed):
    pushed.locator("#time th button", has_text="Time").click()
    assert column(pushed, "#time", 1)[-2:] == ["Transform", "Trainer"]


@pytest.mark.nightly
def test_rows_without_a_value_are_last(write, open_page):
    page = open_page(write("hostile", samples.hostile))
    page.locator("#slices th button", has_text="accuracy").click()
    assert set(column(page, "#slices", 4)) == {"NaN"}


def test_rows_are_searched_and_counted(pushed):
    assert pushed.locator("#row-count").inner_text() == "60 of 60 rows"
    pushed.get_by_label("Search").fill("  STOVES drummoch ")
    shown = pushed.locator("#row-list > li")
    assert pushed.locator("#row-count").inner_text() == "20 of 60 rows"
    assert all("camping stoves" in text for text in shown.all_inner_texts())
    pushed.get_by_label("Search").fill("nothing has this")
    assert shown.count() == 0
    assert pushed.locator("#row-count").inner_text() == "0 of 60 rows"


@pytest.mark.nightly
def test_rows_are_sorted_and_filtered(pushed):
    losses = pushed.locator("#row-list .head .tag")

    def values():
        return [float(text.split()[-1]) for text in losses.all_inner_texts()]

    assert values() == sorted(values(), reverse=True)
    pushed.get_by_label("Sort by").select_option("lowest loss")
    assert values() == sorted(values())
    pushed.get_by_label("Show").select_option(index=1)
    heads = pushed.locator("#row-list .head").all_inner_texts()
    assert len({text.split("label")[1].split("loss")[0] for text in heads}) == 1


def test_a_row_opens_to_the_tokens_that_the_model_saw_and_more_rows_on_request(pushed):
    shown = pushed.locator("#row-list > li")
    assert shown.count() == 10
    assert not shown.first.locator(".tokens").is_visible()
    shown.first.locator("summary").press("Enter")
    assert shown.first.locator(".tokens span").first.inner_text() == "[CLS]"
    pushed.get_by_role("button", name="Show more").press("Enter")
    assert shown.count() == 20
    assert pushed.evaluate("document.activeElement.textContent").startswith("Row ")
    for _ in range(4):
        pushed.get_by_role("button", name="Show more").click()
    assert shown.count() == 60
    assert pushed.locator("#row-more").is_hidden()


@pytest.mark.nightly
def test_a_hash_is_shown_in_full_on_focus_and_copied(pushed):
    pushed.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = pushed.locator("#lineage .hash").first
    full = button.get_attribute("data-copy")
    assert full not in button.inner_text()
    button.focus()
    assert full in button.inner_text()
    button.press("Enter")
    pushed.locator("#announcement:not(:empty)").wait_for(state="attached")
    assert pushed.evaluate("navigator.clipboard.readText()") == full


def test_texts_of_the_data_do_nothing(write, open_page):
    page = open_page(write("hostile", samples.hostile), 390)
    assert browser.hidden_width(page) == 0
    assert "run by data" not in page.title().partition(":")[2]
    assert page.evaluate("document.images.length") == 0
    long = page.locator("#row-list > li", has_text="Row 5")
    assert "…" in long.inner_text()
    long.get_by_role("button").first.click()
    assert "x" * 10_000 in long.inner_text()


@pytest.mark.nightly
def test_the_contents_lead_to_the_sections(pushed):
    pushed.get_by_role("link", name="Lineage").press("Enter")
    assert pushed.locator("#lineage h2").evaluate(
        "h => h.getBoundingClientRect().top < innerHeight"
    )


@pytest.mark.nightly
def test_printing_opens_everything_and_closes_it_again(pushed):
    before = pushed.locator("details[open]").count()
    pushed.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert pushed.locator("details:not([open])").count() == 0
    pushed.evaluate("dispatchEvent(new Event('afterprint'))")
    assert pushed.locator("details[open]").count() == before
