"""The runtime in empty environments of several Pythons: its size and its commands."""

import csv
import json

import pytest

import bert_runtime
from prediction.export import folders
from tests.deploy import wheels
from tests.deploy.runtimes import Environment

pytestmark = pytest.mark.slow

MAX_PACKAGES = 45
MAX_BYTES = {"3.10": 350e6}  # ONNX Runtime requires sympy there
MAX_BYTES_OF_OTHERS = 250e6
PAIRS = [("The cats, a  bírd!", "a dog"), ("the old cat " * 30, "sees 中 the dog")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    _, wheel = wheels.build(tmp_path_factory.mktemp("wheels"))
    return wheel


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("3.11", True), id="3.11"),
        pytest.param(("3.10", True), id="3.10", marks=pytest.mark.nightly),
        pytest.param(("3.13", True), id="3.13", marks=pytest.mark.nightly),
        pytest.param(("3.11", False), id="pip alone", marks=pytest.mark.nightly),
    ],
)
def python(request):
    """The version of Python, and whether its packages are those of the lock."""
    return request.param


@pytest.fixture(scope="module")
def runtime(python, wheel, tmp_path_factory):
    version, has_lock = python
    return Environment(tmp_path_factory.mktemp("venv"), version, wheel, has_lock)


@pytest.fixture(scope="module")
def folder(export, tmp_path_factory):
    """A model of pairs, exported."""
    folder = tmp_path_factory.mktemp("exported") / "model"
    model = str(export("pairs").directory)
    # Not by the command, which changes the log of this process.
    folders.export(model, str(folder), print, target_format="onnx")
    return folder


@pytest.fixture(scope="module")
def expected(folder):
    """The class and its probability of each pair."""
    predicted = bert_runtime.Model(str(folder)).predict(PAIRS)
    return [
        (row["prediction"], pytest.approx(row["probability"], abs=1e-5))
        for row in predicted
    ]


def test_runtime_is_small_and_has_nothing_that_trains(runtime, python):
    packages = runtime.packages()
    assert {"bert-pipeline-runtime", "onnxruntime", "tokenizers"} <= packages
    assert len(packages) <= MAX_PACKAGES
    trains = {"apache-beam", "grpcio", "keras", "pandas", "pyarrow", "tfx", "torch"}
    assert not packages & trains
    assert not [name for name in packages if name.startswith(("tensorflow", "tf-"))]
    files = [path for path in runtime.site_packages.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    assert size <= MAX_BYTES.get(python[0], MAX_BYTES_OF_OTHERS)


def test_predict_prints_the_class_of_each_pair(runtime, folder, expected, tmp_path):
    assert "bert-runtime 1." in runtime.run("bert-runtime", "--version", cwd=tmp_path)
    pairs = [word for pair in PAIRS for word in ("--pair", *pair)]
    command = ("bert-runtime", "predict", "--model", folder, *pairs)
    printed = runtime.run(*command, cwd=tmp_path)
    for class_, _ in expected:
        assert class_ in printed


def test_rows_of_a_file_are_predicted(runtime, folder, expected, tmp_path):
    with (tmp_path / "pairs.csv").open("w") as file:
        csv.writer(file).writerows([("question", "answer"), *PAIRS])
    command = ("bert-runtime", "predict", "--model", folder, "--input")
    runtime.run(*command, "pairs.csv", "--output", "predicted.jsonl", cwd=tmp_path)
    lines = (tmp_path / "predicted.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [(row["prediction"], row["probability"]) for row in rows] == expected
    assert [row["question"] for row in rows] == [first for first, _ in PAIRS]
    (tmp_path / "pairs.parquet").touch()
    command = (*command, "pairs.parquet", "--output", "other.csv")
    assert "pyarrow" in runtime.run(*command, cwd=tmp_path, status=2)


def test_python_predicts_without_loading_anything_else(
    runtime, folder, expected, tmp_path
):
    script = (
        "import json, sys; from bert_runtime import Model\n"
        "predicted = Model(sys.argv[1]).predict(map(tuple, json.loads(sys.argv[2])))\n"
        "print(json.dumps(predicted))\n"
        "assert not {'modules', 'pipeline', 'huggingface_hub'} & sys.modules.keys()\n"
    )
    command = ("python", "-c", script, folder, json.dumps(PAIRS))
    rows = json.loads(runtime.run(*command, cwd=tmp_path))
    assert [(row["prediction"], row["probability"]) for row in rows] == expected


def test_server_predicts_and_has_its_page(runtime, folder, expected, tmp_path):
    instances = [dict(zip(("question", "answer"), pair, strict=True)) for pair in PAIRS]
    with runtime.serving(folder, tmp_path) as client:
        assert client.get("/readyz").status_code == 200
        path = f"/v1/models/{folder.name}:predict"
        response = client.post(path, json={"instances": instances})
        rows = response.raise_for_status().json()["predictions"]
        classes = [(row["class"], max(row["probabilities"])) for row in rows]
        assert classes == expected
        assert "text/html" in client.get("/").headers["content-type"]
        assert "serving_loaded_versions 1.0" in client.get("/metrics").text
