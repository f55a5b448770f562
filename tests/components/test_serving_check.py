"""Models that the serving check refuses, and the reasons; each is really broken."""

import ast
import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tfx.components.util import model_utils

from components.serving_check import (
    ServingCheck,
    ServingRequest,
    check_model,
    portable_check,
    probe,
    rows,
    text_ops,
)
from components.serving_check.model_process import ModelProcess
from contracts.settings.sections import Sections
from contracts.versions import exported_model, served_versions
from contracts.versions.exported_model import PORTABLE_FILE
from modules.export.pushed_model import read_pushed
from portable.model import PortableModel
from tests import exported as exported_lib
from tests import records, served, warm_probe
from tests.nightly import nightly

pytestmark = pytest.mark.slow

MIB = 2**20
TEXTS = [("a", "bbb"), ("ccc", "d"), ("ee", "ff"), ("ggggg", "hhh"), ("i", "j")]


def toy_rows():
    return [
        records.example(
            sentence1=[left.encode()], sentence2=[right.encode()], idx=[index]
        )
        for index, (left, right) in enumerate(TEXTS)
    ]


@pytest.fixture
def check_in_new_process(tmp_path):
    """Runs the component on a model; returns the blessing and the report in it."""

    def check(
        model, examples=None, predictions=None, settings=None, redact=None, **serving
    ):
        inputs = served.artifacts(
            tmp_path,
            model,
            examples or toy_rows(),
            predictions or toy_predictions(tmp_path),
        )
        ServingCheck.EXECUTOR_SPEC.executor_class._FUNCTION(
            **inputs,
            settings=settings or served.settings_of(**serving),
            fingerprint="",
            redact=json.dumps(redact),
        )
        blessing = inputs["blessing"]
        report = Path(blessing.uri, "serving_check.json").read_text()
        return blessing, json.loads(report)

    return check


@pytest.fixture
def check(check_in_new_process, monkeypatch):
    """As `check_in_new_process`, but forks a process that has imported TensorFlow."""
    warm_probe.install(monkeypatch)
    return check_in_new_process


HEADER = "idx\tlabel\tprediction\tprobability_a\tprobability_b"


def write_predictions(root, *lines):
    path = root / "run" / "predictions" / "eval.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([HEADER, *lines]) + "\n")
    return path


def toy_predictions(root):
    """Writes the toy's predictions for all rows but the first, in another order."""
    lines = []
    for index in (4, 2, 3, 1):
        left, right = (len(text) for text in TEXTS[index])
        first = left / (left + right)
        lines.append(f"{index}\ta\ta\t{first:.6f}\t{1 - first:.6f}")
    return write_predictions(root, *lines)


def build_request(root, examples, **serving):
    """Builds the request of a split, of which the predictions are written."""
    pattern = records.write(root / "data.gz", examples)
    settings = Sections.parse(served.settings_of(**serving))
    request = rows.build_request(pattern, str(root / "run"), settings)
    assert rows.build_request(pattern, str(root / "run"), settings) == request
    return request


def assert_refused(result, *words):
    """Asserts that one of the reasons contains all of the words."""
    blessing, report = result
    names = [path.name for path in Path(blessing.uri).iterdir()]
    assert "INFRA_NOT_BLESSED" in names
    assert "INFRA_BLESSED" not in names
    assert not model_utils.is_infra_validated(blessing)
    assert report["blessed"] is False
    assert any(all(w in reason for w in words) for reason in report["reasons"]), report


def assert_blessed(blessing, report):
    assert report["reasons"] == []
    assert report["blessed"] is True
    assert model_utils.is_infra_validated(blessing)
    assert Path(blessing.uri, "INFRA_BLESSED").exists()


def check_exported(check, exported, tmp_path, **serving):
    """Runs the component on an exported model, with settings of `serving`."""
    rows_of = exported_lib.rows_of(
        exported.task, exported_lib.PAIRS, [0] * len(exported_lib.PAIRS)
    )
    return check(
        served.copy_model(exported, tmp_path / "trained"),
        [tf.train.Example.FromString(exported_lib.serialize(row)) for row in rows_of],
        served.write_predictions(exported, tmp_path / "run"),
        settings=served.settings_of(exported.task, **serving),
    )


def test_exported_model_is_blessed_and_measured(check, export, tmp_path):
    blessing, report = check_exported(check, export("pairs"), tmp_path)
    assert_blessed(blessing, report)
    assert report["rows"] == len(exported_lib.PAIRS)
    assert report["max_skew"]["serve_examples"] <= 1e-5
    assert report["max_skew"]["serving_default"] <= 1e-5
    assert 0 < report["latency_ms"]["p50"] <= report["latency_ms"]["p99"]
    assert report["rows_per_second"] > 0
    assert report["load_seconds"] > 0
    assert 100 * MIB < report["peak_memory_bytes"] < 4096 * MIB
    assert report["text_version"] == "2.12.1"
    # No row is kept with the model unless `examples` requests it, and no folder
    # unless `portable` does.
    assert not Path(blessing.uri, "examples.json").exists()
    assert not Path(blessing.uri, "onnx").exists()


@pytest.mark.parametrize("kind", ["pairs", nightly("scores")])
def test_portable_folder_that_predicts_the_same_is_kept(check, export, tmp_path, kind):
    exported = export(kind)
    result = check_exported(check, exported, tmp_path, portable=True)
    assert_blessed(*result)
    folder = Path(result[0].uri, "onnx")
    assert served_versions.find_problem(str(folder), PORTABLE_FILE) == ""
    texts = [*zip(*exported_lib.PAIRS, strict=True)]
    outputs = PortableModel(str(folder)).predict(texts)
    scores = outputs.get("logits", outputs.get("score"))
    expected = exported.logits.reshape(scores.shape)
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_model_is_refused_if_its_portable_folder_predicts_differently(
    check, export, tmp_path, monkeypatch
):
    def read_other(directory):
        pushed = read_pushed(directory)
        bias = pushed.tensors["classifier.bias"] + np.float32([0.01, 0, 0])
        return dataclasses.replace(
            pushed, tensors={**pushed.tensors, "classifier.bias": bias}
        )

    monkeypatch.setattr(portable_check, "read_pushed", read_other)
    result = check_exported(check, export("pairs"), tmp_path, portable=True)
    assert_refused(result, "serving.portable", "by up to 0.00", "0.0001 allowed")
    assert not Path(result[0].uri, "onnx").exists()


def test_model_is_refused_if_it_has_no_portable_form(check, export, tmp_path):
    exported = export("pairs")
    trained = served.copy_model(exported, tmp_path / "trained")
    path = trained / "Format-Serving" / exported_model.DESCRIPTION_FILE
    path.write_text(path.read_text().replace('"gelu"', '"silu"'))
    other = dataclasses.replace(exported, directory=trained / "Format-Serving")
    result = check_exported(check, other, tmp_path / "other", portable=True)
    assert_refused(result, "serving.portable", "activation 'silu'", "relu")


def test_rows_are_joined_by_their_id_and_kept(check, tmp_path):
    model = served.save_toy(tmp_path / "trained")
    blessing, report = check(model, settings=served.settings_of(rows=3, examples=2))
    assert report["reasons"] == []
    kept = Path(blessing.uri, "request.json").read_text()
    request = ServingRequest.model_validate_json(kept)
    assert sorted(request.ids) == [1, 2, 3, 4]  # the first row has no prediction
    text, examples = request.signatures
    assert text.inputs["sentence1"] == [TEXTS[index][0] for index in request.ids[:3]]
    assert len(text.expected) == 3
    assert len(examples.expected) == 4
    # The first rows of text, as a predict request that is pushed with the model.
    pushed = json.loads(Path(blessing.uri, "examples.json").read_text())
    assert pushed == {
        "instances": [
            {"sentence1": left, "sentence2": right}
            for left, right in (TEXTS[index] for index in request.ids[:2])
        ]
    }


def test_pushed_rows_are_redacted_and_the_model_is_compared_on_the_texts(
    check, tmp_path
):
    (tmp_path / "stars_of_a_test.py").write_text(
        "def hide(row):\n    return {name: '*' * len(row[name]) for name in row}\n"
    )
    model = served.save_toy(tmp_path / "trained")
    settings = served.settings_of(rows=3, examples=2)
    function = {"function": "stars_of_a_test:hide", "directory": str(tmp_path)}
    blessing, report = check(model, settings=settings, redact=function)
    assert report["reasons"] == []
    pushed = json.loads(Path(blessing.uri, "examples.json").read_text())
    texts = {text for row in pushed["instances"] for text in row.values()}
    assert {letter for text in texts for letter in text} == {"*"}


def slowed(steps):
    """Returns a function that predicts after as many sequential steps."""

    def predict(left, right):
        start = tf.cast(tf.size(left), tf.float32)
        last = tf.while_loop(
            lambda i, _: i < steps, lambda i, x: (i + 1, x * 0.5), [0, start]
        )[1]
        return served.share(left, right) + last * 0.0

    return predict


ENDLESS = 2**31 - 1


def test_missing_asset_is_refused(check, tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("a\nb\n")
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.TextFileInitializer(
            str(words),
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        ),
        num_oov_buckets=1,
    )

    def predict(left, right):
        known = tf.cast(table.lookup(left), tf.float32)
        return served.share(left, right) + tf.expand_dims(known, 1)

    model = served.save_toy(tmp_path / "trained", predict, resource=table)
    (asset,) = (model / "Format-Serving" / "assets").iterdir()
    asset.unlink()
    assert_refused(check(model), "loading the model failed", "words.txt")


def test_op_that_tensorflow_serving_does_not_have_is_refused(
    check_in_new_process, tmp_path
):
    model = served.save_toy(tmp_path / "trained", served.trim_round_robin)
    result = check_in_new_process(model)
    assert_refused(
        result, "TFText>RoundRobinTrim", "Serving 2.16", "is 2.12.1", "without it, or"
    )
    assert result[1]["max_skew"]["serving_default"] is not None  # the op exists here


def test_op_that_tensorflow_serving_has_is_accepted():
    assert text_ops.find_missing(["TFText>RoundRobinTrim"], "2.20") == []


def test_unknown_tensorflow_serving_is_an_error_with_the_known_ones(check, tmp_path):
    with pytest.raises(
        ValueError, match=r"'2\.16', '2\.17', '2\.18', '2\.19' or '2\.20'"
    ):
        check(tmp_path, tf_serving_version="2.11")


def test_missing_signature_and_wrong_inputs_and_outputs_are_refused(check, tmp_path):
    model = served.save_toy(
        tmp_path / "trained",
        columns=("sentence1", "other"),
        output="scores",
        names=("serving_default",),
    )
    result = check(model)
    assert_refused(result, "takes 'other', 'sentence1'", "'sentence2' will be sent")
    assert_refused(result, "returns 'scores'", "'probabilities' will be read")
    assert_refused(
        result, "'serve_examples' is missing", "the model has 'serving_default'"
    )


def test_nan_in_later_rows_is_refused(check, tmp_path):
    bad = [*range(64, 137), 199]

    def predict(left, right):
        fits = tf.cast(left != "bad", tf.float32)
        return served.share(left, right) / tf.expand_dims(fits, 1)

    texts = ["bad" if index in bad else "fit" for index in range(200)]
    examples = [
        records.example(sentence1=[text.encode()], sentence2=[b"any"], idx=[index])
        for index, text in enumerate(texts)
    ]
    predictions = write_predictions(
        tmp_path, *(f"{i}\ta\ta\t0.5\t0.5" for i in range(200))
    )
    model = served.save_toy(tmp_path / "trained", predict)
    result = check(model, examples, predictions, rows=64)
    assert_refused(result, "'serve_examples'", f"in {len(bad)} of 200 rows")


@pytest.mark.parametrize("has_ids", [True, False])
def test_rows_are_drawn_from_the_whole_split(tmp_path, has_ids):
    rows_of_split = [
        records.example(sentence1=[str(index).encode()], sentence2=[b"b"])
        for index in range(1000)
    ]
    lines = []
    if has_ids:
        for index, row in enumerate(rows_of_split):
            row.features.feature["idx"].int64_list.value.append(index)
            lines.append(f"{index}\ta\ta\t0.5\t0.5")
    write_predictions(tmp_path, *lines)
    request = build_request(tmp_path, rows_of_split, rows=64)
    text, examples = request.signatures
    drawn = [int(index) for index in text.inputs["sentence1"]]
    assert len({*drawn}) == 64
    assert all(10 <= sum(i // 250 == part for i in drawn) <= 22 for part in range(4))
    assert len(set(map(str, examples.inputs["examples"]))) == 256
    assert request.ids[:64] == (drawn if has_ids else [])


def nan_and_too_few_rows(left, right):
    fits = tf.cast(tf.strings.length(left) != 3, tf.float32)
    return tf.squeeze(served.share(left, right) / tf.expand_dims(fits, 1))


def abort(left, right):
    with tf.control_dependencies([tf.raw_ops.Abort(error_msg="no more")]):
        return served.share(left, right)


def take_memory(left, right):
    values = tf.fill([256 * MIB + tf.size(left)], tf.random.uniform([]))  # 1 GiB
    return served.share(left, right) + tf.reduce_min(values) * 1e-9


def differ_by(third, others):
    """Returns a function whose predictions differ, most in the third row."""

    def predict(left, right):
        is_third = tf.expand_dims(tf.strings.length(left) == 2, 1)
        difference = tf.where(is_third, third, others)
        return served.share(left, right) + difference * [[1.0, -1.0]]

    return predict


def by_batch_size(left, right):
    shares = served.share(left, right)
    return tf.where(tf.size(left) > 1, shares, tf.reverse(shares, [1]))


def by_row_order(left, right):
    shares = served.share(left, right)
    is_first = tf.expand_dims(tf.range(tf.size(left)) == 0, 1)
    return tf.where(is_first, shares, tf.reverse(shares, [1]))


def by_other_rows(left, right):
    shares = served.share(left, right)
    return (shares + tf.reduce_mean(shares, axis=0)) / 2


@pytest.mark.parametrize(
    ("predict", "settings", "reasons"),
    [
        (
            nan_and_too_few_rows,
            {},
            [
                ("all rows at once", "is not finite in 1 of 4 rows"),
                ("row by row", "has shape (2,) for 1 rows, not (1, 2)"),
            ],
        ),
        (abort, {}, [("died of SIGABRT", "calling serving_default")]),
        (
            slowed(ENDLESS),
            {"timeout_seconds": 1},
            [("calling serving_default", "the 1 s of")],
        ),
        (
            take_memory,
            {"max_memory_bytes": 1024 * MIB},
            [("calling serving_default took", "allows 1,024 MiB")],
        ),
        (
            differ_by(2e-5, 0.0),
            {},
            [("'serve_examples'", "in 1 of 4 rows", "in row 2", "1e-05")],
        ),
        (  # The rows that differ by 0.01 are accepted.
            differ_by(0.03, 0.01),
            {"precision": "bfloat16"},
            [("'serve_examples'", "in 1 of 4 rows", "row 2", "a tolerance of 0.02")],
        ),
        (by_batch_size, {}, [("row by row", "differs from the evaluation in train")]),
        (by_row_order, {}, [("all rows at once", "differs from the evaluation")]),
        (by_other_rows, {}, [("all rows at once", "differs from the evaluation")]),
    ],
    ids=[
        *("NaN and too few rows", "crash", "hang", "memory", "other predictions"),
        *("beyond bfloat16", "depends on the batch", "on the order", "on other rows"),
    ],
)
def test_model_that_cannot_be_served_is_refused(
    check, tmp_path, predict, settings, reasons
):
    result = check(served.save_toy(tmp_path / "trained", predict), **settings)
    for words in reasons:
        assert_refused(result, *words)


def test_prediction_that_is_nan_in_training_is_refused(check, tmp_path):
    predictions = toy_predictions(tmp_path)
    predictions.write_text(predictions.read_text().replace("0.500000", "nan"))
    model = served.save_toy(tmp_path / "trained")
    result = check(model, predictions=predictions)
    assert_refused(result, "'serve_examples'", "in 2 of 4 rows", "instead of [nan nan]")


def test_directory_without_a_model_is_refused(check, tmp_path):
    assert_refused(check(tmp_path), "reading the graph failed", "SavedModel")


def test_predictions_of_another_split_are_an_error(check, tmp_path):
    strangers = [records.example(idx=[index + 100]) for index in range(3)]
    with pytest.raises(ValueError, match=r"'idx' that is in the predictions of eval"):
        check(tmp_path, examples=strangers)


def test_rows_without_ids_are_sent_and_not_compared(tmp_path):
    nameless = [records.example(sentence1=[b"a"], sentence2=[b"b"]) for _ in range(3)]
    write_predictions(tmp_path)
    request = build_request(tmp_path, nameless, rows=2)
    assert request.ids == []
    assert [signature.expected for signature in request.signatures] == [None, None]
    text, examples = request.signatures
    assert len(text.inputs["sentence1"]) == 2
    assert len(examples.inputs["examples"]) == 3


@pytest.mark.parametrize("serving", [{"row": 1}, {"rows": 0}, {"timeout_seconds": -1}])
def test_invalid_setting_is_an_error_with_its_name(check, tmp_path, serving):
    with pytest.raises(ValueError, match=rf"serving\.{next(iter(serving))}\n"):
        check(tmp_path, **serving)


def test_text_that_is_not_utf8_reaches_the_model_unchanged(tmp_path):
    example = records.example(sentence1=[b"caf\xe9"], sentence2=[b"b"], idx=[1])
    toy_predictions(tmp_path)
    request = build_request(tmp_path, [example])
    sent = json.loads(request.model_dump_json())["signatures"][0]["inputs"]
    assert [probe._to_bytes(text) for text in sent["sentence1"]] == [b"caf\xe9"]


def test_probe_imports_only_tensorflow_and_tensorflow_text():
    names = set()
    for node in ast.walk(ast.parse(Path(probe.__file__).read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
    packages = {name.split(".")[0] for name in names} - set(sys.stdlib_module_names)
    assert packages == {"tensorflow", "tensorflow_text"}


def test_process_inherits_nothing_from_its_caller(tmp_path, monkeypatch):
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\necho "got $1 $PWD $HOME [$PYTHONPATH$SECRET]"; exit 1')
    fake.chmod(0o755)
    monkeypatch.setenv("SECRET", "secret")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    request = ServingRequest(
        settings=Sections.parse(served.settings_of()), ids=[], signatures=[]
    )
    limits = request.settings.serving
    with (
        pytest.raises(RuntimeError, match=r"got -I (/\S+) \1 \[\]$") as error,
        ModelProcess(limits, str(fake)) as process,
    ):
        check_model(str(tmp_path), request, process)
    assert str(fake) in str(error.value)
