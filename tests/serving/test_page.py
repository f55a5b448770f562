"""The page's files, their headers, and the server's description of a model."""

import json
import os
import shutil

import pytest

from contracts.task.definition import TaskConfig
from contracts.versions import exported_model
from serving import model_files
from tests.serving.conftest import (
    EXAMPLES,
    PORTABLE,
    SAVED_MODELS,
    Stored,
    check_refused,
)

pytestmark = pytest.mark.slow

CLASSES = ["no", "maybe", "yes"]
FILES = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


def test_page_names_model_signature_and_port_and_loads_nothing_from_other_sites(pairs):
    page = pairs.http.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert '<meta name="model" content="pairs">' in page.text
    assert '<meta name="signature" content="serving_default">' in page.text
    assert f'<meta name="grpc-port" content="{pairs.grpc_port or ""}">' in page.text
    assert "://" not in page.text


@pytest.fixture
def changed(stored, tmp_path):
    """A copy of a model of each kind, whose files a test changes."""
    return stored.copy_to(tmp_path)


def test_name_and_card_of_the_model_are_escaped(changed):
    with changed.running(name='"><script>') as server:
        assert "<script>" not in server.http.get("/").text.replace("<script type", "")
        (changed.directory / "1" / changed.card).write_bytes(b"# \xff<script>$model")
        card = server.http.get("/card").text
        assert "<script" not in card
        assert "<h1>\ufffd&lt;script&gt;$model</h1>" in card
        assert "/v1/models/%22%3E%3Cscript%3E/versions/1/card" in card


@pytest.mark.parametrize(("name", "media_type"), FILES.items())
def test_file_has_its_type_and_is_sent_again_only_if_it_has_changed(
    half_plus_three, name, media_type
):
    response = half_plus_three.http.get(f"/page/{name}")
    assert response.status_code == 200
    assert response.headers["content-type"].partition(";")[0] == media_type
    assert response.headers["cache-control"] == "no-cache"
    known = {"if-none-match": response.headers["etag"]}
    assert half_plus_three.http.get(f"/page/{name}", headers=known).status_code == 304


@pytest.mark.parametrize(
    "path",
    ["/", "/card", "/page/page.js", "/page/none", "/v1/models/none", "/openapi.json"],
)
def test_every_response_has_the_security_headers(half_plus_three, path):
    headers = half_plus_three.http.get(path).headers
    policy = dict(
        directive.split(" ", 1)
        for directive in headers["content-security-policy"].split("; ")
    )
    assert policy.pop("require-trusted-types-for") == "'script'"
    own = dict.fromkeys(("script-src", "style-src", "img-src", "connect-src"), "'self'")
    no = ("default-src", "base-uri", "form-action", "frame-ancestors")
    assert policy == own | dict.fromkeys(no, "'none'")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"


def test_files_outside_the_page_are_not_found(half_plus_three):
    for path in ("/page/", "/page/../rest.py", "/page/%2e%2e/rest.py"):
        assert half_plus_three.http.get(path).status_code == 404


def test_metadata_has_classes_examples_and_card_of_the_files(changed):
    version = changed.directory / "1"
    if changed.kind is SAVED_MODELS:
        task = TaskConfig(classes=CLASSES)
        description = exported_model.describe_task(task)
        exported_model.write_description(str(version), description)
    check_page_data(changed, version / changed.card, version / changed.examples)


@pytest.mark.slow
def test_portable_folder_in_a_version_has_the_examples_and_card_of_it(
    portable, tmp_path
):
    version = tmp_path / "pairs" / "1"
    shutil.copytree(portable, version / "onnx")
    examples = version / "assets.extra" / "examples.json"
    examples.parent.mkdir()
    model = Stored(version.parent, PORTABLE)
    check_page_data(model, version / "README.md", examples)


def check_page_data(model, card, examples):
    """Writes the files of a model, and asserts that the server has them."""
    examples.write_text(json.dumps({"instances": EXAMPLES}))
    with model.running() as server:
        address = f"/v1/models/{model.directory.name}"
        metadata = server.http.get(f"{address}/metadata").json()["metadata"]
        assert metadata["classes"] == CLASSES
        assert metadata["examples"] == EXAMPLES
        assert metadata["has_card"] is False
        for path in (f"{address}/card", "/card"):
            missing = f"Version 1 has no model card ({card.name})"
            check_refused(server.http.get(path), missing, status=404)
        # A card may be written after the version is loaded.
        card.write_text("# Łódź\n")
        assert server.http.get(f"{address}/metadata").json()["metadata"]["has_card"]
        for path in (f"{address}/card", f"{address}/versions/1/card"):
            response = server.http.get(path)
            assert response.text == "# Łódź\n"
            assert response.headers["content-type"] == "text/markdown; charset=utf-8"
        page = server.http.get("/card")
        assert "<h1>Łódź</h1>" in page.text
        assert page.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"instances": 1}', '{"instances": []}', "\0", "[" * 100_000],
)
def test_model_with_a_damaged_file_has_no_examples(tmp_path, content):
    path = tmp_path / "examples.json"
    path.write_text(content)
    assert model_files.describe({}, path) == {}


def test_only_the_beginning_of_a_huge_card_is_read(tmp_path):
    path = tmp_path / "README.md"
    assert model_files.read_card(path) is None
    path.write_bytes(b"a" * (2 << 20))
    assert model_files.read_card(path) == b"a" * (1 << 20)


def test_pipes_and_devices_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "README.md")
    assert model_files.read_card(tmp_path / "README.md") is None
    path = tmp_path / "examples.json"
    path.symlink_to("/dev/zero")
    assert model_files.describe({}, path) == {}
