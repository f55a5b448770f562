"""The page in a real Chromium, with content that pages often break on."""

import json

import pytest

from tests import browser
from tests.serving.conftest import EXAMPLES

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

HISTORY = [None, 1, {"row": "text"}, {"row": None}, {"row": {"question": "a"}}]


@pytest.fixture
def pairs(saved_pairs):
    """The server of a SavedModel."""
    return saved_pairs


@pytest.fixture
def page(open_page, pairs):
    page = open_page(pairs.http.base_url, width=390)
    page.locator("#examples .choice").first.wait_for()
    return page


def predict(page, **row):
    for name, text in row.items():
        page.get_by_label(name, exact=True).fill(text)
    page.get_by_role("button", name="Predict", exact=True).click()
    page.locator(".verdict").wait_for()


def explain(page):
    page.get_by_role("button", name="Compute").click()
    page.locator(".word").first.wait_for()


def delay(page, address, milliseconds):
    """Holds back requests."""

    def handle(route):
        page.wait_for_timeout(milliseconds)
        route.continue_()

    page.route(address, handle)


def test_rows_without_the_inputs_are_not_in_examples_and_history(page):
    assert page.locator("#examples .choice").count() == len(EXAMPLES)
    page.evaluate(f"localStorage.setItem('tried:pairs', '{json.dumps(HISTORY)}')")
    page.reload()
    page.locator("#examples .choice").first.click()
    page.locator("#history .choice").first.wait_for()
    assert page.locator("#history .choice").count() == 1
    assert not page.locator("#error").is_visible()


def test_long_words_fit_into_a_phone(page):
    predict(page, question="x" * 500, answer="ภาษาไทยไม่มีช่องว่าง" * 20)
    explain(page)
    assert browser.hidden_width(page) == 0


def test_texts_are_read_in_their_own_direction(page):
    predict(page, question="مرحبا بالعالم", answer="a dog")
    explain(page)
    direction = "node => getComputedStyle(node).direction"
    for selector in ("#fields textarea", ".word-list"):
        nodes = page.locator(selector)
        assert nodes.nth(0).evaluate(direction) == "rtl"
        assert nodes.nth(1).evaluate(direction) == "ltr"


def test_another_row_is_explained_after_one_that_was_left(page):
    page.locator("#examples .choice").first.click()
    page.locator(".verdict").wait_for()
    delay(page, "**:predict", 300)
    page.get_by_role("button", name="Compute").click()
    page.locator("#examples .choice").nth(1).click()
    page.get_by_text(EXAMPLES[1]["answer"]).nth(1).wait_for()  # also in the history
    page.wait_for_load_state("networkidle")
    explain(page)
    assert "bird" in page.locator("#words-content").inner_text()


def test_words_of_a_huge_text_fit_into_one_request(page):
    sizes = []
    page.on("request", lambda r: r.post_data and sizes.append(len(r.post_data)))
    predict(page, question="the 😀 " + "the cat " * 50_000, answer="a dog")
    explain(page)
    assert sizes[0] > 400_000  # the prediction
    assert sizes[-1] < 100_000


def test_rows_are_not_predicted_twice_at_a_time(page):
    delay(page, "**:predict", 3000)  # longer than the page waits to get the state
    page.locator("#table-text").fill("question,answer\na,b\n")
    button = page.get_by_role("button", name="Predict all")
    button.click()
    page.get_by_role("button", name="Stop").wait_for()
    page.wait_for_timeout(2500)
    assert button.is_disabled()
    page.locator("#table-preview table").wait_for()
    assert button.is_enabled()


def test_new_version_keeps_the_field_that_has_the_focus(page):
    page.get_by_label("answer", exact=True).fill("a dog")
    state = {"version": "1", "state": "AVAILABLE", "status": {"error_message": ""}}
    content = {"model_version_status": [{**state, "version": "2"}]}
    page.route("**/v1/models/pairs", lambda route: route.fulfill(json=content))
    page.get_by_text("version 2, ready").wait_for()
    assert page.locator(":focus").input_value() == "a dog"


@pytest.mark.parametrize("body", ['{"predictions": [{"score": NaN}]}', "<html>"])
def test_response_that_is_not_json_is_named(page, body):
    page.route("**:predict", lambda route: route.fulfill(body=body))
    page.get_by_role("button", name="Predict", exact=True).click()
    message = "the response (HTTP 200) is not JSON, or has NaN"
    page.locator("#error").get_by_text(message).wait_for()
