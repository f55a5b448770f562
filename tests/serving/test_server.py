"""The server in front of a model that needs neither TensorFlow nor gRPC."""

import subprocess
import sys

import pytest

from pipeline.config.paths import REPOSITORY
from tests.serving import plain_models
from tests.serving.conftest import check_refused, running, wait_until
from tests.serving.plain_models import PLAIN

# `find_spec` would import the packages above.
BLOCKED = """
import pkgutil, sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name in ("tensorflow", "grpc", "google.protobuf", "rich", "yaml", "pandas"):
            raise ImportError(name)

sys.meta_path.insert(0, Refusing())
import bert_runtime.cli.serve, serving

for module in pkgutil.iter_modules(serving.__path__, "serving."):
    if not module.ispkg:
        __import__(module.name)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A directory of versions, of which only 5 is a model."""
    root = tmp_path_factory.mktemp("served") / "echo"
    plain_models.save(root / "5")
    (root / "6").mkdir()
    return root


@pytest.fixture(scope="module")
def server(root):
    """A server of HTTP only."""
    with running(root, kind=PLAIN) as server:
        yield server


def test_server_imports_no_tensorflow_and_no_grpc():
    subprocess.run([sys.executable, "-c", BLOCKED], cwd=REPOSITORY, check=True)


def test_row_is_predicted(server):
    response = server.post("echo:predict", instances=["a", "b"])
    rows = [{"echo": "a", "version": 5}, {"echo": "b", "version": 5}]
    assert response.json() == {"predictions": rows}


def test_signature_that_this_kind_cannot_have_is_refused_with_the_reason(server):
    response = server.post(
        "echo:predict", signature_name="serve_examples", instances=["a"]
    )
    reason = '"serve_examples" not found: this model reads no tf.Example; allowed: '
    check_refused(response, reason)
    response = server.post("echo:predict", signature_name="other", instances=["a"])
    check_refused(response, '"other" not found; allowed: serving_default')


def test_metadata_are_those_of_the_model(server):
    metadata = server.http.get("/v1/models/echo/metadata").json()["metadata"]
    assert metadata == {
        "signature_def": {"signature_def": {"serving_default": {}}},
        "text_columns": ["text"],
        "classes": ["0", "1"],
        "has_card": False,
    }


def test_page_names_no_grpc_port(server):
    assert server.grpc_port is None
    assert '<meta name="grpc-port" content="">' in server.http.get("/").text


def test_folder_in_a_version_is_served_once_its_manifest_exists(tmp_path):
    root = tmp_path / "echo"
    plain_models.save(root / "5")
    with running(root, kind=PLAIN) as server:
        folder = plain_models.save(root / "7" / "onnx", is_complete=False)
        (root / "7" / "saved_model.pb").write_text("graph")
        plain_models.save(root / "6")

        def version():
            (row,) = server.post("echo:predict", instances=["a"]).json()["predictions"]
            return row["version"]

        wait_until(lambda: version() == 6)
        plain_models.write_manifest(folder, sha256="other")
        wait_until(lambda: server.sample("serving_loads_total", result="error") == 1)
        assert version() == 6  # its files are not those of the manifest
        plain_models.write_manifest(folder)
        wait_until(lambda: version() == 7)
