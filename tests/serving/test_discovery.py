"""Names of a model: those that a URL reaches, and those that none can."""

import re
import shutil
import urllib.parse

import pytest

from serving import discovery
from tests.refusals import refused
from tests.serving import plain_models
from tests.serving.conftest import running

pytestmark = pytest.mark.slow

REACHED = "50% %2F\\ä模\U0001f600&;=+@~!$'()*,\"<>[]^`{|}.."


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a?b", "a#b", "a/b", "a:b", "?", "a\nb", "\x7f", "a\udcff"],
)
def test_name_that_no_url_can_reach_is_refused(tmp_path, name):
    got = re.compile(re.escape(f"no URL can reach {name!r}"))
    with refused("E-settings-refused", setting="name", got=got):
        discovery.find_model(tmp_path, name)


@pytest.mark.parametrize("path", ["a?b", "a:b/1", "a\udcff"])
def test_directory_whose_name_no_url_can_reach_needs_another_name(root, tmp_path, path):
    directory = tmp_path / path
    shutil.copytree(root / "1", directory)
    got = re.compile("no URL can reach 'a")
    with refused("E-settings-refused", setting="name", got=got):
        discovery.find_model(directory)
    assert discovery.find_model(directory, "model").name == "model"


def test_name_and_label_of_any_other_characters_are_reached(root):
    quoted = urllib.parse.quote(REACHED, safe="")
    with running(root, name=REACHED, labels={REACHED: 1}) as server:
        for path in (quoted, f"{quoted}/labels/{quoted}", f"{quoted}/versions/1"):
            assert server.http.get(f"/v1/models/{path}").status_code == 200
            metadata = server.http.get(f"/v1/models/{path}/metadata").json()
            assert metadata["model_spec"]["name"] == REACHED
            response = server.post(f"{path}:predict", instances=[1.0])
            assert response.json() == {"predictions": [3.5]}


@pytest.mark.parametrize("version", ["1", "onnx"])
def test_model_of_the_other_kind_is_refused_with_what_to_do(root, tmp_path, version):
    folder = plain_models.save(tmp_path / "echo" / version)
    for directory in (folder, folder.parent):
        if directory.name != "echo" or version == "1":
            got = re.compile("/echo/.* is for bert-runtime$")
            with refused("E-model-not-found", setting="model", got=got):
                discovery.find_model(directory)
    for directory in (root, root / "1"):
        got = f"{root}/1 is a SavedModel"
        advice = "export it with `bert-pipeline export --format onnx`"
        with refused("E-model-not-found", setting="model", got=got, advice=advice):
            discovery.find_model(directory, main_file="model.json")


def test_folder_in_a_version_has_the_number_and_the_name_of_the_version(tmp_path):
    version = tmp_path / "echo" / "7"
    plain_models.save(version / "onnx")
    for directory in (version.parent, version):
        source = discovery.find_model(directory, main_file="model.json")
        assert (source.name, source.scan()) == ("echo", {7: version})
    (tmp_path / "echo" / ".7.incomplete").mkdir()
    with refused("E-model-not-found", setting="model"):
        discovery.find_model(version.parent, main_file="model.json")
