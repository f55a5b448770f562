"""The page in a real Chromium, on really exported models."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from tests import browser, toy_models
from tests.serving import small_models
from tests.serving.conftest import (
    CARD,
    EXAMPLES,
    SERVERS_OF_PAIRS,
    VERSION,
    running,
)

pytestmark = pytest.mark.slow

ROW = {"question": 'It\'s a "red" cat\\dog,', "answer": "the 'old' tree — $HOME `a`"}
MINUS = "\N{MINUS SIGN}"


@pytest.fixture
def pairs(request):
    """The server of a SavedModel, or of what a test names."""
    return request.getfixturevalue(getattr(request, "param", "saved_pairs"))


@pytest.fixture
def page(open_page, pairs):
    page = open_page(pairs.http.base_url)
    page.locator("#examples .choice").first.wait_for()
    return page


def predict(server, rows):
    (name,) = re.findall('name="model" content="(.*)"', server.http.get("/").text)
    return server.post(f"{name}:predict", instances=rows).json()["predictions"]


def fill(page, row):
    for name, text in row.items():
        page.get_by_label(name, exact=True).fill(text)
    page.get_by_role("button", name="Predict", exact=True).click()
    page.locator(".verdict").wait_for()


def predict_table(page, text):
    page.locator("#table-text").fill(text)
    page.get_by_role("button", name="Predict all").click()
    page.locator("#table-preview table").wait_for()


def compute_words(page):
    page.get_by_role("button", name="Compute").click()
    page.locator(".word").first.wait_for()


def request_of(page, tab):
    page.get_by_role("tab", name=tab).click()
    return page.locator("#request-code").text_content()


@pytest.mark.parametrize(("width", "scheme"), browser.VIEWS)
def test_everything_on_the_page_is_accessible_and_fits(open_page, pairs, width, scheme):
    page = open_page(pairs.http.base_url, width, scheme)
    example = page.locator("#examples .choice").first
    example.wait_for()
    assert browser.axe_violations(page) == []
    example.click()
    compute_words(page)
    predict_table(page, "question\tanswer\tlong\na\tb\t" + "long " * 50)
    assert browser.axe_violations(page) == []
    assert browser.hidden_width(page) == 0


@pytest.mark.parametrize("pairs", SERVERS_OF_PAIRS, indirect=True)
def test_example_has_a_class_with_probabilities_and_tokens(page, pairs):
    assert page.locator("#state").inner_text().strip() == (
        f"version {VERSION}, 2023-11-14 22:13 UTC, ready"
    )
    page.locator("#examples .choice").first.click()
    page.locator(".verdict").wait_for()
    (expected,) = predict(pairs, EXAMPLES[:1])
    assert page.locator(".verdict").inner_text() == expected["class"]
    bars = page.locator(".bar").all_inner_texts()
    shares = sorted(expected["probabilities"], reverse=True)
    assert [re.search(r"[\d.]+ %", bar)[0] for bar in bars] == [
        f"{100 * share:.1f} %" for share in shares
    ]
    status = page.locator("#summary").inner_text()
    assert re.fullmatch(rf"{expected['class']}, [\d.]+ %, in \d+ ms", status)
    tokens = page.locator(".token").all_inner_texts()
    text = "the cat sees the tree . [SEP] a dog likes a road !"
    assert tokens == ["[CLS]", *text.split(), "[SEP]"]
    assert "nothing was cut" in page.locator("#tokens").inner_text()


@pytest.mark.nightly
def test_effect_of_a_word_is_the_difference_to_the_text_without_it(page, pairs):
    row = {"question": "the cat's tree, old", "answer": "a dog"}
    fill(page, row)
    compute_words(page)
    words = page.locator(".word-text").all_inner_texts()
    assert words == ["the", "cat's", "tree", ",", "old", "a", "dog"]
    whole, without = predict(pairs, [row, {**row, "question": "the tree, old"}])
    best = whole["class_id"]
    effect = whole["probabilities"][best] - without["probabilities"][best]
    shown = page.locator(".word").nth(1).get_attribute("title")
    sign = MINUS if effect < 0 else "+"
    assert shown == f"cat's: {sign}{abs(100 * effect):.1f} points"
    # Screen readers get the number of every word.
    for word in page.locator(".word").all():
        assert re.search(rf"[+{MINUS}]\d", word.text_content())


@pytest.mark.nightly
def test_long_text_shows_what_was_cut(page):
    fill(page, {"question": "the cat " * 20 + "Zebra é", "answer": "a dog"})
    cut = page.locator("del.cut")
    assert cut.inner_text().endswith("Zebra é")
    tokens = page.locator("#tokens").inner_text()
    assert re.search(r"24 tokens; cut: \d+ of question", tokens)
    compute_words(page)
    assert "Zebra" in page.locator(".unseen").inner_text()


@pytest.mark.nightly
def test_link_reproduces_the_prediction_in_another_window(page, open_page):
    fill(page, ROW)
    link = request_of(page, "Link")
    assert link == page.url
    other = open_page(link)
    other.locator(".verdict").wait_for()
    for name, text in ROW.items():
        assert other.get_by_label(name, exact=True).input_value() == text
    for selector in (".verdict", ".bars"):
        assert (
            other.locator(selector).inner_text() == page.locator(selector).inner_text()
        )


def test_shown_requests_predict_the_same(page, pairs, capsys):
    fill(page, ROW)
    (expected,) = predict(pairs, [ROW])
    curl = request_of(page, "curl")
    assert curl.startswith("curl -d '")
    if shutil.which("curl"):
        output = subprocess.check_output(["sh", "-c", f"{curl} -s"], text=True)
        assert json.loads(output) == {"predictions": [expected]}
    python = [sys.executable, "-c", request_of(page, "Python")]
    assert subprocess.check_output(python, text=True).strip() == str(expected)
    exec(request_of(page, "gRPC"), {})
    assert f"class {expected['class'].encode()}" in capsys.readouterr().out


def test_improbable_class_is_not_predicted(page):
    page.get_by_label("Least probability").fill("1")
    fill(page, ROW)
    assert page.locator(".verdict").inner_text() == "no class"
    assert page.locator("#summary").inner_text().startswith("no class, in ")
    note = "The predicted class is less probable than 1"
    assert page.locator("#answer .note").first.inner_text() == note
    assert page.locator(".bar.best").count() == 0
    assert request_of(page, "curl").count('"min_probability":1') == 1
    python = [sys.executable, "-c", request_of(page, "Python")]
    assert "'class': None" in subprocess.check_output(python, text=True)
    assert page.get_by_role("tab", name="gRPC").count() == 0
    predict_table(page, "question\tanswer\na\tb\nc\td")
    assert "2 without a class" in page.locator("#table-status").inner_text()
    cells = page.locator("#table-preview tbody tr").first.locator("td")
    assert cells.all_inner_texts()[2] == ""


def test_text_has_any_number_of_labels(open_page, tmp_path):
    directory = toy_models.save(toy_models.Letters(), tmp_path / "letters" / "1")
    with running(directory.parent) as server:
        page = open_page(server.http.base_url)
        page.get_by_label("sentence", exact=True).wait_for()
        fill(page, {"sentence": "ab"})
        assert page.locator(".verdict").inner_text() == "with a, with b"
        assert page.locator(".bar.best").count() == 2
        fill(page, {"sentence": "c"})
        page.locator(".verdict", has_text="no label").wait_for()
        assert page.locator(".bar.best").count() == 0
        assert not page.get_by_label("Least probability").is_visible()
        predict_table(page, "sentence\nab\nc")
        cells = page.locator("#table-preview tr:has(td)").all()
        labels = [row.locator("td").nth(1).inner_text() for row in cells]
        assert labels == ["with a|with b", ""]
        page.close()
        document = server.http.get("/openapi.json").json()["components"]["schemas"]
        row = document["serving_default.rows.response"]["properties"]["predictions"]
        labels = row["items"]["properties"]["labels"]
        assert labels["items"]["type"] == "integer"
        refused = server.post(
            "letters:predict", instances=["a"], min_probability=0.5
        ).json()["error"]
        assert "a signature with class, class_id and probabilities" in refused


@pytest.mark.nightly
def test_request_is_copied(open_page, pairs):
    page = open_page(
        pairs.http.base_url, permissions=["clipboard-read", "clipboard-write"]
    )
    page.locator("#examples .choice").first.wait_for()
    fill(page, ROW)
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url


@pytest.mark.nightly
def test_history_survives_a_reload_until_it_is_cleared(page):
    for row in (EXAMPLES[1], ROW, EXAMPLES[1]):
        fill(page, row)
        page.locator("#history .choice").first.get_by_text(row["answer"]).wait_for()
    page.goto(page.url.partition("#")[0] + "#")
    page.reload()
    entries = page.locator("#history .choice")
    entries.nth(1).wait_for()
    assert entries.count() == 2
    assert EXAMPLES[1]["question"] in entries.first.inner_text()
    entries.nth(1).click()
    page.locator(".verdict").wait_for()
    assert page.get_by_label("question", exact=True).input_value() == ROW["question"]
    page.get_by_role("button", name="Clear").click()
    assert not page.locator("#history").is_visible()
    assert page.evaluate("localStorage.length") == 0


@pytest.mark.nightly
def test_page_is_used_by_keyboard(page):
    field = page.get_by_label("question", exact=True)
    field.focus()
    page.keyboard.type("the cat")
    page.keyboard.press("Tab")
    page.keyboard.type("a dog")
    page.keyboard.press("Control+Enter")
    page.locator(".verdict").wait_for()
    page.get_by_role("tab", name="Link").focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    assert page.locator(":focus").inner_text() == "Python"
    assert "urllib" in page.locator("#request-code").inner_text()


@pytest.mark.parametrize(("width", "scheme"), browser.VIEWS)
def test_card_is_a_page_that_is_accessible_and_fits(open_page, pairs, width, scheme):
    page = open_page(pairs.http.base_url, width, scheme)
    page.get_by_role("link", name="Model card").click()
    assert page.get_by_role("heading", level=1).inner_text() == "Card of pairs"
    assert page.locator("td").all_inner_texts() == ["accuracy", "0.9"]
    assert page.locator("li").first.inner_text() == "none <b>known</b>"
    page.get_by_text("Metadata").click()
    assert "license: apache-2.0" in page.locator("details pre").inner_text()
    assert browser.axe_violations(page) == []
    assert browser.hidden_width(page) == 0
    page.get_by_role("link", name="Try it").click()
    page.locator("#examples .choice").first.wait_for()
    page.get_by_role("link", name="Model card").click()
    markdown = page.get_by_role("link", name="Markdown").get_attribute("href")
    assert pairs.http.get(markdown).text == CARD


@pytest.mark.nightly
def test_score_of_a_regression_is_explained(open_page, export):
    row = {"sentence1": "the cat", "sentence2": "a cat"}
    with running(export("scores").directory.parent, name="scores") as server:
        page = open_page(server.http.base_url)
        page.get_by_label("sentence1", exact=True).wait_for()
        fill(page, row)
        (score,) = predict(server, [row])
        assert page.locator(".verdict").inner_text() == f"{score:.3f}"
        page.get_by_role("button", name="Compute").click()
        effect = page.locator(".word").first.get_attribute("title")
        assert re.fullmatch(rf"the: [+{MINUS}]\d\.\d\d", effect)


@pytest.mark.nightly
def test_model_of_another_pipeline_has_inputs_and_outputs(open_page, half_plus_three):
    page = open_page(half_plus_three.http.base_url)
    page.get_by_label("x", exact=True).fill("one")
    page.get_by_role("button", name="Predict", exact=True).click()
    error = page.locator("#error")
    error.wait_for()
    assert error.inner_text() == "x must be JSON, such as 1.5 or [1, 2]"
    fill(page, {"x": "1.0"})
    assert page.locator(".verdict").inner_text() == "3.500"
    assert not error.is_visible()
    for section in ("tokens", "words", "table", "card-link", "examples"):
        assert not page.locator(f"#{section}").is_visible()
    assert browser.axe_violations(page) == []


def test_html_in_class_names_and_texts_is_shown_as_text(open_page, tmp_path):
    hostile = "<img src=x onerror=\"document.title='hacked'\">"
    classes = [hostile, "</p><script>document.title='hacked'</script>"]
    root = tmp_path / "hostile"
    small_models.save_classifier(root / "1", classes, [{"text": hostile}])
    with running(root) as server:
        # An element that was blocked would be an error in the console.
        page = open_page(server.http.base_url)
        page.locator("#examples .choice").first.click()
        page.locator(".verdict").wait_for()
        assert page.locator(".verdict").inner_text() == hostile
        assert page.locator(".bar-name").all_inner_texts() == classes
        compute_words(page)
        assert f"the probability of {hostile}" in page.locator("#words").inner_text()
        predict_table(page, f"text\n{hostile}\n")
        preview = page.locator("#table-preview table").inner_text()
        assert f"probability_{hostile}" in preview
        page.reload()  # with the history and the texts of the address
        page.locator("#history .choice").first.wait_for()
        assert hostile in page.locator("#history").inner_text()
        assert page.locator("img, script:not([src])").count() == 0
        assert page.title() == "hostile"


@pytest.mark.nightly
def test_outputs_without_probabilities_are_shown_as_json(open_page, types):
    page = open_page(types.http.base_url)
    page.get_by_label("text", exact=True).fill("<b>")
    page.get_by_label("numbers", exact=True).fill("[1, 2]")
    page.get_by_label("count", exact=True).fill("3")
    page.get_by_role("button", name="Predict", exact=True).click()
    answer = page.locator("#answer pre")
    answer.wait_for()
    assert json.loads(answer.inner_text())["text"] == "<b>"


@pytest.mark.nightly
def test_refusal_of_the_server_is_shown(open_page, half_plus_three):
    page = open_page(half_plus_three.http.base_url, may_have_errors=True)
    page.get_by_label("x", exact=True).fill('"one"')
    page.get_by_role("button", name="Predict", exact=True).click()
    error = page.locator("#error")
    error.wait_for()
    assert '"x": "one"; allowed: a valid float32' in error.inner_text()
