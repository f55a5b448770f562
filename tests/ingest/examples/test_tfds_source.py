"""Data sets of TFDS, which are stored on this disk and loaded."""

import numpy as np
import pytest
import tensorflow_datasets as tfds
from official.nlp.data import classifier_data_lib
from official.nlp.tools import tokenization
from tensorflow_datasets.core import constants

from contracts.errors import UsageError
from contracts.settings.data import DataConfig
from contracts.task.definition import TaskConfig
from ingest import examples
from ingest.rows.readers import DEFAULTS
from tests import records, tiny


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Stores a data set in the data directory of TFDS."""
    monkeypatch.setattr(constants, "DATA_DIR", str(tmp_path / "tfds"))

    def store(name, splits, config=None, version="1.0.0", **features):
        tfds.dataset_builders.store_as_tfds_dataset(
            name=name,
            config=config,
            version=version,
            features=tfds.features.FeaturesDict(features),
            split_datasets={s: list(enumerate(rows)) for s, rows in splits.items()},
            data_dir=str(tmp_path / "tfds"),
            disable_shuffling=True,
        )

    return store


@pytest.fixture
def prepare(tmp_path):
    """Returns the rows of each split, and the lines for the user."""

    def prepare(source, task, settings=DEFAULTS):
        lines = []
        target = str(tmp_path / "records")
        counts = examples.prepare(source, target, task, lines.append, settings)
        return {s: records.read(f"{tmp_path}/records/{s}/*.gz") for s in counts}, lines

    return prepare


TEXT = tfds.features.Text()
MNLI = TaskConfig(name="mnli")


@pytest.fixture
def mnli(store):
    """Stores MNLI with a few rows of its own splits."""
    pair = {"premise": "A cat sat.", "hypothesis": "Crème brûlée."}
    store(
        "glue",
        {
            "train": [{**pair, "label": i % 3, "idx": i} for i in range(4)],
            "validation_matched": [{**pair, "label": 1, "idx": 7}],
            "validation_mismatched": [{**pair, "label": 2, "idx": 8}],
            "test_matched": [{**pair, "label": -1, "idx": 0}],
            "test_mismatched": [{**pair, "label": -1, "idx": 0}],
        },
        config="mnli",
        version="2.0.0",
        premise=TEXT,
        hypothesis=TEXT,
        label=tfds.features.ClassLabel(names=MNLI.classes),
        idx=np.int32,
    )


def test_mnli_brings_both_validation_splits_and_no_secret_labels(mnli, prepare):
    splits, lines = prepare(MNLI.tfds_source, MNLI)
    assert [row["label"] for row in splits["train"]] == [[0], [1], [2], [0]]
    assert splits["eval"][0]["idx"] == [7]
    assert splits["eval_mismatched"][0]["hypothesis"] == ["Crème brûlée.".encode()]
    assert sorted(splits) == ["eval", "eval_mismatched", "train"]
    for split in ("test_matched", "test_mismatched"):
        assert f"tfds:glue/mnli {split} has only -1 for label: left out" in lines


def test_model_gardens_records_of_mnli_have_the_labels_of_the_same_classes(
    tmp_path, mnli, prepare
):
    """Its processor names the classes in another order, yet keeps TFDS's indices."""
    processor = classifier_data_lib.MnliProcessor()
    assert processor.get_labels() != MNLI.classes
    vocab_file = tiny.write_encoder(tmp_path / "encoder") / "vocab.txt"
    path = str(tmp_path / "MNLI_train.tf_record")
    classifier_data_lib.file_based_convert_examples_to_features(
        processor.get_train_examples(None),
        processor.get_labels(),
        16,
        tokenization.FullTokenizer(str(vocab_file), do_lower_case=True),
        path,
    )
    splits, _ = prepare(MNLI.tfds_source, MNLI)
    labels = [row["label_ids"] for row in records.read(path)]
    assert labels == [row["label"] for row in splits["train"]]


def test_float_labels_are_scores_to_the_last_bit(store, prepare):
    task = TaskConfig(name="stsb")
    pair = {"sentence1": "A cat.", "sentence2": "A dog."}
    scores = np.float32([3.8, 0.1, 5.0])
    store(
        "glue",
        {
            "train": [{**pair, "label": s, "idx": i} for i, s in enumerate(scores)],
            "validation": [{**pair, "label": np.float32(2.75), "idx": 0}],
            "test": [{**pair, "label": np.float32(-1), "idx": 0}],
        },
        config="stsb",
        version="2.0.0",
        sentence1=TEXT,
        sentence2=TEXT,
        label=np.float32,
        idx=np.int32,
    )
    splits, lines = prepare(task.tfds_source, task)
    assert np.float32([row["label"][0] for row in splits["train"]]).tolist() == (
        scores.tolist()
    )
    assert sorted(splits) == ["eval", "train"]
    assert "tfds:glue/stsb test has only -1 for label: left out" in lines


def test_classes_in_an_order_other_than_that_of_tfds_are_matched_by_name(
    store, prepare
):
    rows = [{"review": "A cat.", "verdict": i} for i in (0, 1)]
    store(
        "tiny_reviews",
        {"train": rows, "validation": rows, "unsupervised": rows},
        review=TEXT,
        verdict=tfds.features.ClassLabel(names=["good", "bad"]),
    )
    task = TaskConfig(
        text_columns=["review"], label_column="verdict", classes=["bad", "good"]
    )
    splits, lines = prepare("tfds:tiny_reviews", task)
    assert [row["verdict"] for row in splits["train"]] == [[1], [0]]
    assert [row["idx"] for row in splits["train"]] == [[0], [1]]
    assert "tfds:tiny_reviews unsupervised is not a known split: left out" in lines


def test_labels_that_are_strings_are_class_names(store, prepare):
    rows = [{"text": "A cat.", "kind": kind} for kind in ("pet", "wild")]
    store("tiny_kinds", {"train": rows, "validation": rows}, text=TEXT, kind=TEXT)
    task = TaskConfig(
        text_columns=["text"], label_column="kind", classes=["wild", "pet"]
    )
    splits, _ = prepare("tfds:tiny_kinds", task)
    assert [row["kind"] for row in splits["eval"]] == [[1], [0]]


@pytest.mark.parametrize(
    ("splits", "columns", "message"),
    [
        (["train"], ["text"], "no split eval; it has train"),
        (["train", "validation"], ["body"], r"no column body; it has kind, text"),
    ],
)
def test_data_set_without_a_split_or_column_is_refused(
    store, prepare, splits, columns, message
):
    rows = [{"text": "A cat.", "kind": "pet"}]
    store("tiny_short", dict.fromkeys(splits, rows), text=TEXT, kind=TEXT)
    task = TaskConfig(text_columns=columns, label_column="kind", classes=["a", "pet"])
    with pytest.raises(UsageError, match=message):
        prepare("tfds:tiny_short", task)


def test_group_in_two_splits_is_refused(store, prepare):
    rows = [{"text": "A cat.", "kind": "pet", "author": "ann"}]
    splits = {"train": rows, "validation": rows}
    store("tiny_authors", splits, text=TEXT, kind=TEXT, author=TEXT)
    task = TaskConfig(text_columns=["text"], label_column="kind", classes=["a", "pet"])
    with pytest.raises(UsageError, match="'ann' in 1 row of train and 1 of eval"):
        prepare("tfds:tiny_authors", task, DataConfig(group_column="author"))


def test_missing_network_is_reported_at_once(tmp_path, monkeypatch, prepare):
    monkeypatch.setattr(constants, "DATA_DIR", str(tmp_path / "tfds"))
    for scheme in ("http", "https"):
        # Nothing listens on this port.
        monkeypatch.setenv(f"{scheme}_proxy", "http://127.0.0.1:9")
    with pytest.raises(UsageError, match=r"tfds:glue/mrpc.*no response .*--data DIR"):
        prepare("tfds:glue/mrpc", TaskConfig())
    assert not (tmp_path / "records").exists()


def test_data_set_that_tfds_does_not_have_is_refused(prepare):
    with pytest.raises(UsageError, match="tfds:tiny_absent: TFDS has no such data"):
        prepare("tfds:tiny_absent", TaskConfig())


@pytest.mark.parametrize("form", ["columns", "sequence"])
def test_several_labels_are_columns_of_booleans_or_a_sequence(store, prepare, form):
    names, flags = ["joy", "love", "fear"], [[1, 0, 1], [0, 0, 0]]
    texts = [{"text": "A cat."}, {"text": "A dog."}]
    if form == "columns":
        rows = [
            {**text, **dict(zip(names, map(bool, row), strict=True))}
            for text, row in zip(texts, flags, strict=True)
        ]
        features = dict.fromkeys(names, np.bool_)
    else:
        rows = [
            {**text, "labels": [n for n, name in enumerate(names) if row[n]]}
            for text, row in zip(texts, flags, strict=True)
        ]
        # The task has the classes in another order.
        label = tfds.features.ClassLabel(names=names)
        features = {"labels": tfds.features.Sequence(label)}
    store(f"tiny_{form}", {"train": rows, "validation": rows}, text=TEXT, **features)
    task = TaskConfig(
        kind="multilabel",
        text_columns=["text"],
        label_column="labels",
        classes=names[::-1],
        label_separator=None if form == "columns" else "|",
    )
    splits, _ = prepare(f"tfds:tiny_{form}", task)
    assert [row["labels"] for row in splits["train"]] == [row[::-1] for row in flags]
