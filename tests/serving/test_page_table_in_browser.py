"""Tables on the page, in a real Chromium."""

import csv
import io
import re
import shutil

import pytest

from contracts.task.definition import TaskConfig
from contracts.versions import exported_model
from tests.nightly import nightly
from tests.serving.conftest import VERSION, running, wait_until

pytestmark = pytest.mark.slow

CLASSES = ["no", "maybe", "yes"]
MANY = "question,answer\n" + "the cat,a dog\n" * 150  # three requests


def write_version(exported, directory, classes):
    """Writes the model of pairs, with names of its classes."""
    shutil.copytree(exported.directory, directory)
    task = TaskConfig(text_columns=["question", "answer"], classes=classes)
    exported_model.write_description(str(directory), exported_model.describe_task(task))


@pytest.fixture
def pairs(saved_pairs):
    """The server of a SavedModel."""
    return saved_pairs


@pytest.fixture
def page(open_page, pairs):
    page = open_page(pairs.http.base_url)
    page.locator("#table").wait_for()
    return page


def predict(page, table):
    page.locator("#table-text").fill(table)
    page.get_by_role("button", name="Predict all").click()


def download(page):
    with page.expect_download() as download:
        page.get_by_role("link", name="Download CSV").click()
    assert download.value.suggested_filename == "pairs-predictions.csv"
    text = download.value.path().read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text, newline="")))


TABLES = {
    "tsv": 'id\tquestion\tanswer\r\n1\tthe "cat\tdog\r\n\r\n2\ta bird\ta; b\r\n',
    "csv": '\ufeffid,question,answer\n1,"the ""cat",dog\n2,"a bird",a; b\n',
    "csv of Excel": '\ufeffid;question;answer\r\n1;"the ""cat";dog\r\n'
    '2;a bird;"a; b"\r\n',
    "jsonl": '{"id": 1, "question": "the \\"cat", "answer": "dog"}\n'
    '{"id": 2, "question": "a bird", "answer": "a; b"}',
}


@pytest.mark.parametrize(
    "kind", ["csv of Excel", *map(nightly, ("tsv", "csv", "jsonl"))]
)
def test_table_is_predicted_and_downloaded_as_csv(page, pairs, kind):
    predict(page, TABLES[kind])
    rows = download(page)
    texts = [
        {"question": 'the "cat', "answer": "dog"},
        {"question": "a bird", "answer": "a; b"},
    ]
    assert [{name: row[name] for name in texts[0]} for row in rows] == texts
    assert [row["id"] for row in rows] == ["1", "2"]
    predictions = pairs.post("pairs:predict", instances=texts).json()["predictions"]
    for row, expected in zip(rows, predictions, strict=True):
        assert row["model_version"] == VERSION
        assert "not_predicted" not in row
        assert row["predicted_class"] == expected["class"]
        shares = [float(row[f"probability_{name}"]) for name in CLASSES]
        assert shares == pytest.approx(expected["probabilities"], abs=1e-5)


@pytest.mark.nightly
def test_dropped_file_is_predicted(page):
    files = page.evaluate_handle(
        """() => {
          const files = new DataTransfer();
          files.items.add(new File(["question,answer\\na,b\\n"], "rows.csv"));
          return files;
        }"""
    )
    page.locator("#table").dispatch_event("drop", {"dataTransfer": files})
    page.locator("#table-text").and_(
        page.locator(":not(:placeholder-shown)")
    ).wait_for()
    page.get_by_role("button", name="Predict all").click()
    page.get_by_text(re.compile(r"^1 rows? in")).wait_for()


@pytest.mark.nightly
def test_file_of_many_rows_is_predicted_in_several_requests(page, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("answer,question\n" + "a dog,the cat\n" * 150)
    page.locator("#table-file").set_input_files(path)
    page.get_by_role("button", name="Predict all").click()
    page.get_by_text(re.compile(r"^150 rows in")).wait_for()
    assert page.locator("#table-preview tbody tr").count() == 8


ERRORS = {
    "question|answer\na|b\n": "line 1: the header has no question, answer; it has "
    "question|answer. Paste a table whose header has question and answer, separated by "
    "tabs, commas or semicolons, or JSON Lines with these keys",
    "id;question\n1;a\n": "line 1: the header has no answer; it has id, question",
    "": "the table is empty: paste one or open a file",
    "question\tanswer\n": "the table has a header but no rows",
    "question\tid\na\t1": "line 1: the header has no answer; it has question, id",
    "question,answer,answer": 'line 1: the header has "answer" twice',
    "question,answer\na,b\na,b,c\n": "line 3 has 3 fields, but the header has 2",
    'question,answer\n"a\nb",c\nd\n': "line 4 has 1 field, but the header has 2",
    'question,answer\na,"b\n': "line 2: a quote is not closed",
    '{"question": "a", "answer": "b"}\n{"answer": ""}': "line 2 has no text question",
    '{"question": "a", "answer": "b"}\n\n[1]': "line 3 is not an object",
    '{"question": "a", "answer": "b"}\n{"': "line 2 is not JSON: ",
}


def test_error_of_a_table_names_the_line(page):
    for table, error in ERRORS.items():
        predict(page, table)
        page.locator("#table-error").get_by_text(error).wait_for()
        assert not page.locator("#table-download").is_visible()


@pytest.mark.nightly
def test_column_of_texts_needs_no_separator(page):
    script = """async ([table, names]) => {
      const {readTable} = await import("/page/table.js");
      return readTable(table, names).rows.map(({values}) => values.text);
    }"""
    for table, texts in {
        'text\n"a, ""b"""\n': ['a, "b"'],
        'text;id\n"a; b";1\n': ["a; b"],
        'id\ttext\n1\t"a, b\n': ['"a, b'],
    }.items():
        assert page.evaluate(script, [table, ["text"]]) == texts


def test_row_with_an_empty_text_is_named_and_not_predicted(page):
    sent = []
    page.on("request", lambda r: is_prediction(r) and sent.append(r.post_data_json))
    predict(page, "id,question,answer\n1,a bird,\n2,the cat,a dog\n3, \u200b,\n")
    note = "2 not predicted, because a text is empty: lines 2, 4"
    page.get_by_text(note).wait_for()
    assert sent == [{"instances": [{"question": "the cat", "answer": "a dog"}]}]
    rows = download(page)
    assert [row["id"] for row in rows] == ["1", "2", "3"]
    assert [row["not_predicted"] for row in rows] == [
        "empty text: answer",
        "",
        "empty text: question, answer",
    ]
    for name in ("predicted_class", "probability_no", "model_version"):
        assert [bool(row[name]) for row in rows] == [False, True, False]
    preview = page.locator("#table-preview tbody tr").first
    assert "empty text: answer" in preview.inner_text()


def is_prediction(request):
    """Returns whether a request is not for the signature `tokenize`."""
    return request.post_data and "signature_name" not in request.post_data_json


def on_request(page, number, handle):
    """Handles a request for predictions, from 1; passes the others on."""
    routes = []

    def count(route):
        if is_prediction(route.request):
            routes.append(route)
        is_next = is_prediction(route.request) and len(routes) == number
        handle(route) if is_next else route.continue_()

    page.route("**:predict", count)


@pytest.mark.nightly
def test_stop_keeps_the_rows_that_are_done(page):
    on_request(page, 2, lambda route: None)  # the server takes its time
    predict(page, MANY)
    page.locator("#table-progress[value='64']").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("stopped after 64 of 150 rows").wait_for()
    assert not page.locator("#table-error").is_visible()
    assert page.locator("#table-preview tbody tr").count() == 8
    rows = download(page)
    assert len(rows) == 64
    assert all(row["predicted_class"] for row in rows)
    # Stop may have come before the second request, which nothing may hold now.
    page.unroute("**:predict")
    predict(page, MANY)  # once more, and to the end
    page.get_by_text(re.compile("^150 rows in")).wait_for()


@pytest.mark.nightly
def test_stop_before_the_first_prediction_offers_nothing(page):
    on_request(page, 1, lambda route: None)
    predict(page, MANY)
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("stopped after 0 of 150 rows").wait_for()
    assert not page.locator("#table-download").is_visible()


@pytest.mark.nightly
def test_failure_keeps_the_rows_that_are_done(open_page, pairs):
    page = open_page(pairs.http.base_url, may_have_errors=True)
    error = {"status": 500, "json": {"error": "out of memory"}}
    on_request(page, 2, lambda route: route.fulfill(**error))
    predict(page, MANY)
    page.get_by_text("lines 66 to 129: out of memory").wait_for()
    page.get_by_text("stopped after 64 of 150 rows").wait_for()
    assert len(download(page)) == 64


@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.nightly
def test_version_of_each_row_is_in_the_download(open_page, exported, tmp_path, keep):
    root = tmp_path / "pairs"
    names = {"1": CLASSES, "2": ["nein", "vielleicht", "ja"]}
    write_version(exported, root / "1", names["1"])
    write_version(exported, tmp_path / "2", names["2"])
    with running(root, name="pairs", keep_versions=keep) as server:

        def states():
            status = server.http.get("/v1/models/pairs").json()["model_version_status"]
            return {version["version"]: version["state"] for version in status}

        def push(route):
            (tmp_path / "2").rename(root / "2")
            wait_until(lambda: states().get("2") == "AVAILABLE")
            wait_until(lambda: states()["1"] == ("END" if keep == 1 else "AVAILABLE"))
            route.continue_()

        page = open_page(server.http.base_url, may_have_errors=True)
        on_request(page, 2, push)
        predict(page, MANY)
        page.get_by_text(re.compile("^150 rows in")).wait_for()
        note = "predicted by versions 1 and 2: see model_version"
        assert page.get_by_text(note).count() == (keep == 1)
        rows = download(page)
    # A version that is still loaded predicts the whole table.
    expected = ["1"] * 64 + (["2"] if keep == 1 else ["1"]) * 86
    assert [row["model_version"] for row in rows] == expected
    for row in rows:
        for version, classes in names.items():
            shares = [row.get(f"probability_{name}", "") for name in classes]
            assert all(shares) == any(shares) == (row["model_version"] == version)
