"""Which models are not blessed, and in which words; each of them is really broken."""

import ast
import json
import sys
from pathlib import Path

import pytest
import tensorflow as tf
from tfx.components.util import model_utils

from components.serving_check import (
    ServingCheck,
    ServingRequest,
    check_model,
    probe,
    rows,
    text_ops,
)
from tests import exported as exported_lib
from tests import records, served, tiny

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
def check(tmp_path):
    """Runs the component on a model; the blessing and the report in it."""

    def check(model, predictions=None, examples=None, **changes):
        inputs = served.artifacts(
            tmp_path,
            model,
            examples or toy_rows(),
            predictions or toy_predictions(tmp_path),
        )
        parameters = {
            "split": "eval",
            "request": json.dumps(served.REQUEST),
            "tf_serving_version": "2.16",
            "max_memory_bytes": 4096 * MIB,
            "timeout_seconds": 60,
            "rows": 4,
            "fingerprint": "",
        }
        ServingCheck.EXECUTOR_SPEC.executor_class._FUNCTION(
            **inputs, **{**parameters, **changes}
        )
        blessing = inputs["blessing"]
        report = Path(blessing.uri, "serving_check.json").read_text()
        return blessing, json.loads(report)

    return check


def toy_predictions(root):
    """Writes what the toy says of all rows but the first, in another order."""
    lines = ["idx\tlabel\tprediction\tprobability_a\tprobability_b"]
    for index in (4, 2, 3, 1):
        left, right = (len(text) for text in TEXTS[index])
        first = left / (left + right)
        lines.append(f"{index}\ta\ta\t{first:.6f}\t{1 - first:.6f}")
    path = root / "run" / "predictions" / "eval.tsv"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def assert_refused(found, *words):
    """Checks that one of the reasons has all of the words."""
    blessing, report = found
    names = [path.name for path in Path(blessing.uri).iterdir()]
    assert "INFRA_NOT_BLESSED" in names
    assert "INFRA_BLESSED" not in names
    assert not model_utils.is_infra_validated(blessing)
    assert report["blessed"] is False
    assert any(all(w in reason for w in words) for reason in report["reasons"]), report


@pytest.mark.parametrize("kind", ["pairs", "tokens of sentences"])
def test_exported_model_is_blessed_and_measured(check, export, tmp_path, kind):
    exported = export(kind)
    task = exported.task
    vocab_file = str(tiny.write_encoder(tmp_path / "encoder") / "vocab.txt")
    examples = [
        tf.train.Example.FromString(exported_lib.serialize(row))
        for row in exported_lib.rows_of(
            task,
            [pair[: len(task.text_columns)] for pair in exported_lib.PAIRS],
            [0.5 if task.is_regression else 0] * len(exported_lib.PAIRS),
            vocab_file,
        )
    ]
    blessing, report = check(
        served.place(exported, tmp_path / "trained"),
        served.write_predictions(exported, tmp_path / "run"),
        examples,
        request=json.dumps(served.request_of(task)),
    )
    assert report["reasons"] == []
    assert report["blessed"] is True
    assert model_utils.is_infra_validated(blessing)
    assert Path(blessing.uri, "INFRA_BLESSED").exists()
    assert report["rows"] == len(exported_lib.PAIRS)
    assert report["max_skew"]["serve_examples"] <= 1e-5
    if task.is_tokenized:
        assert report["max_skew"]["serving_default"] is None
    else:
        assert report["max_skew"]["serving_default"] <= 1e-5
    assert 0 < report["latency_ms"]["p50"] <= report["latency_ms"]["p99"]
    assert report["rows_per_second"] > 0
    assert report["load_seconds"] > 0
    assert 100 * MIB < report["peak_memory_bytes"] < 4096 * MIB
    assert report["text_version"] == "2.12.1"


def test_rows_are_joined_by_their_id_and_kept(check, tmp_path):
    model = served.save_toy(tmp_path / "trained")
    blessing, report = check(model, rows=3)
    assert report["reasons"] == []
    kept = Path(blessing.uri, "request.json").read_text()
    request = ServingRequest.from_json(kept)
    assert request.ids == [1, 2, 3]
    assert request.signatures[0].inputs["sentence1"] == ["ccc", "ee", "ggggg"]


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

    def answer(left, right):
        known = tf.cast(table.lookup(left), tf.float32)
        return served.share(left, right) + tf.expand_dims(known, 1)

    model = served.save_toy(tmp_path / "trained", answer, resource=table)
    (asset,) = (model / "Format-Serving" / "assets").iterdir()
    asset.unlink()
    assert_refused(check(model), "loading the model failed", "words.txt")


def test_op_that_tensorflow_serving_does_not_have_is_refused(check, tmp_path):
    model = served.save_toy(tmp_path / "trained", served.trim_by_turns)
    found = check(model)
    assert_refused(
        found, "TFText>RoundRobinTrim", "Serving 2.16", "is 2.12.1", "without it, or"
    )
    assert found[1]["max_skew"]["serving_default"] is not None  # it answers here


def test_op_is_welcome_where_tensorflow_serving_has_it():
    assert text_ops.find_missing(["TFText>RoundRobinTrim"], "2.20") == []


def test_unknown_tensorflow_serving_is_an_error_with_the_known_ones(check, tmp_path):
    with pytest.raises(ValueError, match=r"'2\.11'.*2\.16, 2\.17, 2\.18, 2\.19, 2\.20"):
        check(tmp_path, tf_serving_version="2.11")


def test_missing_signature_is_refused(check, tmp_path):
    model = served.save_toy(tmp_path / "trained", names=("serving_default",))
    assert_refused(
        check(model), "'serve_examples' is missing", "the model has 'serving_default'"
    )


def test_other_inputs_and_outputs_are_refused(check, tmp_path):
    model = served.save_toy(
        tmp_path / "trained", columns=("sentence1", "other"), output="scores"
    )
    found = check(model)
    assert_refused(found, "takes 'other', 'sentence1'", "'sentence2' will be sent")
    assert_refused(found, "gives 'scores'", "'probabilities' will be read")


def test_output_that_loses_its_rows_is_refused(check, tmp_path):
    def answer(left, right):
        return tf.squeeze(served.share(left, right))

    model = served.save_toy(tmp_path / "trained", answer)
    assert_refused(check(model), "row by row", "has shape (2,) for 1 rows, not (1, 2)")


def test_not_a_number_is_refused(check, tmp_path):
    def answer(left, right):
        fits = tf.cast(tf.strings.length(left) != 3, tf.float32)
        return served.share(left, right) / tf.expand_dims(fits, 1)

    model = served.save_toy(tmp_path / "trained", answer)
    assert_refused(check(model), "is not finite in 1 of 4 rows")


def test_crash_is_refused(check, tmp_path):
    def answer(left, right):
        with tf.control_dependencies([tf.raw_ops.Abort(error_msg="no more")]):
            return served.share(left, right)

    model = served.save_toy(tmp_path / "trained", answer)
    assert_refused(check(model), "died of SIGABRT", "answering serving_default")


def test_hang_is_refused(check, tmp_path):
    def answer(left, right):
        forever = tf.while_loop(lambda i: i >= 0, lambda i: [i * 0], [tf.constant(0)])
        return served.share(left, right) + tf.cast(forever[0], tf.float32)

    model = served.save_toy(tmp_path / "trained", answer)
    assert_refused(
        check(model, timeout_seconds=5), "answering serving_default", "the 5 s of"
    )


def test_too_much_memory_is_refused(check, tmp_path):
    def answer(left, right):
        values = tf.random.uniform([1024 * MIB + tf.size(left)])  # 4 GiB
        return served.share(left, right) + tf.reduce_min(values) * 1e-9

    model = served.save_toy(tmp_path / "trained", answer)
    found = check(model, max_memory_bytes=1536 * MIB)
    assert_refused(found, "answering serving_default took", "allows 1,536 MiB")
    assert found[1]["peak_memory_bytes"] > 1536 * MIB


def test_other_predictions_than_evaluated_are_refused(check, tmp_path):
    def answer(left, right):
        third = tf.cast(tf.expand_dims(tf.strings.length(left) == 2, 1), tf.float32)
        return served.share(left, right) + third * [[2e-5, -2e-5]]

    found = check(served.save_toy(tmp_path / "trained", answer))
    assert_refused(found, "'serve_examples'", "in 1 of 4 rows", "in row 2", "1e-05")
    assert found[1]["max_skew"]["serve_examples"] == pytest.approx(2e-5, rel=0.05)


def test_directory_without_a_model_is_refused(check, tmp_path):
    assert_refused(check(tmp_path), "reading the graph failed", "SavedModel")


def test_predictions_of_another_split_are_an_error(check, tmp_path):
    strangers = [records.example(idx=[index + 100]) for index in range(3)]
    with pytest.raises(ValueError, match=r"'idx' that predictions/eval\.tsv has"):
        check(tmp_path, examples=strangers)


def test_rows_without_ids_of_their_own_are_sent_and_compared_with_nothing(tmp_path):
    nameless = [records.example(sentence1=[b"a"], sentence2=[b"b"]) for _ in range(3)]
    pattern = records.write(tmp_path / "data.gz", nameless)
    interface = rows.Interface.from_json(json.dumps(served.REQUEST))
    ids, requests = rows.build_signatures(pattern, {}, interface, 2)
    assert ids == []
    assert [request.expected for request in requests] == [None, None]
    assert [len(*request.inputs.values()) for request in requests[1:]] == [2]


def test_column_that_nobody_predicted_is_an_error(check, tmp_path):
    predictions = {**served.REQUEST["predictions"], "columns": ["probability_c"]}
    request = json.dumps({**served.REQUEST, "predictions": predictions})
    with pytest.raises(ValueError, match=r"not \['probability_c'\]"):
        check(tmp_path, request=request)


def test_misspelt_request_is_an_error(check, tmp_path):
    request = json.dumps({**served.REQUEST, "has_texts": True})
    with pytest.raises(ValueError, match=r"has_texts.*must have"):
        check(tmp_path, request=request)


def test_text_that_is_no_utf8_reaches_the_model_as_it_is():
    text = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert probe._to_bytes(json.loads(json.dumps(text))) == b"caf\xe9"


def test_probe_imports_tensorflow_and_its_text_only():
    names = set()
    for node in ast.walk(ast.parse(Path(probe.__file__).read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
    found = {name.split(".")[0] for name in names} - set(sys.stdlib_module_names)
    assert found == {"tensorflow", "tensorflow_text"}


def test_process_gets_nothing_of_its_caller(tmp_path, monkeypatch):
    """A Python that only says what it was started with, and where."""
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\necho "got $1 $PWD $HOME [$PYTHONPATH$SECRET]"; exit 1')
    fake.chmod(0o755)
    monkeypatch.setenv("SECRET", "secret")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    request = ServingRequest([], [], "2.16", 4096 * MIB, 60)
    with pytest.raises(RuntimeError, match=r"got -I (/\S+) \1 \[\]$") as error:
        check_model(str(tmp_path), request, python=str(fake))
    assert str(fake) in str(error.value)
