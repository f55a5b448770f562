"""The web view in a browser."""

import functools
import http.server
import shutil
import threading

import pytest

from tests import browser
from tests.nightly import nightly
from tests.pipeline.operations.ui import sample_output
from tests.pipeline.operations.ui.sample_output import FAILED, FIRST, RUNNING, SECOND

pytestmark = pytest.mark.slow

POLL_MILLISECONDS = 2000  # of ui.js


def tick(page, *run_ids):
    for run_id in run_ids:
        page.locator(f"input[value='0/{run_id}']").check()


def labels(page):
    page.wait_for_selector("#curves figure")
    return page.locator("#curves svg").first.locator("desc").inner_html()


@pytest.fixture
def running(paths):
    """Starts a run, as `sample_output.running`; nothing of it stays."""
    yield functools.partial(sample_output.running, paths)
    shutil.rmtree(paths.run(RUNNING), ignore_errors=True)


@pytest.mark.parametrize(("width", "scheme"), browser.VIEWS)
def test_the_pages_are_accessible_and_fit(address, open_page, width, scheme):
    page = open_page(address, width, scheme)
    page.wait_for_selector("#curves figure")
    assert browser.hidden_width(page) == 0
    assert browser.axe_violations(page) == []
    tick(page, FIRST, SECOND)
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector("#changed")
    assert browser.hidden_width(page) == 0
    assert browser.axe_violations(page) == []


def test_two_runs_are_ticked_and_compared(address, open_page):
    page = open_page(address)
    button = page.get_by_role("button", name="Compare")
    assert button.is_disabled()
    tick(page, FIRST)
    assert button.is_disabled()
    tick(page, SECOND)
    assert page.locator("#chosen").inner_text() == "2 runs are ticked."
    button.press("Enter")
    page.wait_for_selector("#changed")
    assert "trainer.seed" in page.locator("#settings").inner_text()
    rows = page.locator("#changed tbody tr:visible")
    count = rows.count()
    text = rows.first.locator(".texts p").first.inner_text()
    page.get_by_label("Search").fill(text)
    assert 0 < rows.count() < count
    header = page.locator("#metrics th", has_text="Metric")
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "ascending"


@pytest.mark.nightly
def test_curves_follow_the_ticks(address, open_page):
    page = open_page(address)
    assert "2025-11-25 01:00:00" in labels(page)  # of the newest runs
    with page.expect_response("**/curves?*"):
        tick(page, SECOND)
    # Not `wait_for_function`: it evaluates strings, which the page's policy forbids.
    old = page.locator("#curves desc", has_text="01:00:00").first
    old.wait_for(state="detached")
    assert "2025-11-25 03:00:00" in labels(page)


@pytest.mark.nightly
def test_ticks_survive_that_a_run_starts_and_ends(address, open_page, running):
    page = open_page(address)
    tick(page, FIRST, SECOND)
    # The page is loaded again each time; its script shows the ticks once it has run.
    ticks = page.locator("#chosen", has_text="2 runs are ticked.")
    with running() as train:
        train(1)
        page.locator("progress").wait_for()  # the page notices the new run
        ticks.wait_for()
    page.get_by_text("interrupted").wait_for()
    ticks.wait_for()
    for run_id, is_ticked in {FIRST: True, SECOND: True, FAILED: False}.items():
        assert page.locator(f"input[value='0/{run_id}']").is_checked() == is_ticked
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector("#changed")


@pytest.mark.nightly
def test_another_visit_begins_without_ticks(address, open_page):
    page = open_page(address)
    tick(page, FIRST, SECOND)
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("link", name="All runs").click()
    page.locator("#runs").wait_for()
    assert page.locator("#runs :checked").count() == 0


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def other_site(tmp_path):
    """A site of another name, whose files are in `tmp_path`."""
    handler = functools.partial(Quiet, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.nightly
def test_another_site_loads_nothing_but_may_link(
    address, open_page, other_site, tmp_path
):
    content = f"<iframe src='{address}/live'></iframe><a href='{address}/'>runs</a>"
    (tmp_path / "page.html").write_text(content)
    page = open_page(may_have_errors=True)
    with page.expect_response(f"{address}/live") as response:
        page.goto(f"{other_site}/page.html")
    assert response.value.status == 403
    page.get_by_role("link", name="runs").click()
    page.locator("#curves figure").first.wait_for()


@pytest.mark.nightly
def test_the_table_sorts(address, open_page):
    page = open_page(address)
    page.get_by_role("button", name="Value").click()
    cells = page.locator("#runs tbody td:nth-child(5)").all_inner_texts()
    assert cells == ["0.810", "0.925", "0.925", "\u2013"]


@pytest.mark.nightly
def test_runs_that_cannot_be_compared_say_why(address, open_page):
    page = open_page(f"{address}/runs/0/{FAILED}")
    assert "no space left on device" in page.inner_text("main")
    assert browser.axe_violations(page) == []
    page.get_by_role("link", name="All runs").click()
    page.locator("#runs").wait_for()


@pytest.mark.nightly
def test_comparison_without_a_server_says_so(address, open_page):
    page = open_page(may_have_errors=True)
    page.route("**/compare/result**", lambda route: route.abort())
    page.goto(f"{address}/compare?run=0/{FIRST}&run=0/{SECOND}")
    page.get_by_text("The server cannot be reached").wait_for()
    assert page.locator("[aria-busy]").count() == 0


@pytest.mark.nightly
def test_page_in_the_background_sends_no_request(address, open_page):
    page = open_page(address)
    page.wait_for_load_state("networkidle")
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true})")
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.wait_for_timeout(2500)
    assert requests == []


@pytest.mark.nightly
def test_a_report_is_one_click_away(address, open_page):
    page = open_page(address)
    page.get_by_role("link", name="2025-11-25 01:00:00").click()
    assert page.locator("h1").inner_text().startswith("The model is refused")
    page.get_by_label("Search").fill("stoves")  # its script runs
    assert page.locator("#row-count").inner_text() == "20 of 60 rows"
    page.get_by_role("link", name="All runs").click()
    page.locator("#runs").wait_for()


@pytest.mark.parametrize("width", [390, nightly(1280)])
def test_a_run_is_followed_to_its_end(address, open_page, running, width):
    page = open_page(width=width)
    page.clock.install()
    page.goto(address)
    with running() as train:
        train(1)
        page.clock.fast_forward(POLL_MILLISECONDS)
        bar = page.locator("progress")
        bar.wait_for()  # the page notices the new run
        assert bar.get_attribute("value") == "10"
        assert browser.hidden_width(page) == 0
        assert browser.axe_violations(page) == []
        train(3)
        page.clock.fast_forward(POLL_MILLISECONDS)
        page.locator("progress[value='30']").wait_for()
        page.get_by_role("link", name="sample").first.click()
        page.locator("#curves figure").wait_for()
        assert "0.41 at step 30" in labels(page)
        assert browser.axe_violations(page) == []
    page.clock.fast_forward(POLL_MILLISECONDS)
    page.locator("h1", has_text="interrupted").wait_for()
    assert page.locator("progress").count() == 0
