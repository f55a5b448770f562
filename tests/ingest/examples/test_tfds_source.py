"""Data sets of TFDS, which are stored on this disk and loaded."""

import re

import numpy as np
import pytest
import tensorflow_datasets as tfds
from official.nlp.data import classifier_data_lib
from official.nlp.tools import tokenization
from tensorflow_datasets.core import constants

from contracts.task.definition import TaskConfig
from tests import records, tiny
from tests.refusals import refused


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


TEXT = tfds.features.Text()
KINDS = TaskConfig(text_columns=["text"], label_column="kind", classes=["wild", "pet"])
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
    labels = [row["label"][0] for row in splits["train"]]
    assert np.float32(labels).tolist() == scores.tolist()
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
    splits, _ = prepare("tfds:tiny_kinds", KINDS)
    assert [row["kind"] for row in splits["eval"]] == [[1], [0]]


@pytest.mark.parametrize(
    ("splits", "columns", "name", "got"),
    [
        (["train"], ["text"], "E-split-missing", "no split eval .*, but train$"),
        (
            *(["train", "validation"], ["body"], "E-column-missing"),
            "^tfds:tiny_short train has no column body$",
        ),
    ],
)
def test_data_set_without_a_split_or_column_is_refused(
    store, prepare, splits, columns, name, got
):
    rows = [{"text": "A cat.", "kind": "pet"}]
    store("tiny_short", dict.fromkeys(splits, rows), text=TEXT, kind=TEXT)
    task = KINDS.model_copy(update={"text_columns": columns})
    with refused(name, got=re.compile(got)):
        prepare("tfds:tiny_short", task)


def test_group_in_two_splits_is_refused(store, prepare):
    rows = [{"text": "A cat.", "kind": "pet", "author": "ann"}]
    splits = {"train": rows, "validation": rows}
    store("tiny_authors", splits, text=TEXT, kind=TEXT, author=TEXT)
    got = re.compile("'ann' in 1 row of train and 1 of eval")
    with refused("E-groups-across-splits", setting="data.group_column", got=got):
        prepare("tfds:tiny_authors", KINDS, group_column="author")


def test_missing_network_is_reported_at_once(tmp_path, monkeypatch, prepare):
    monkeypatch.setattr(constants, "DATA_DIR", str(tmp_path / "tfds"))
    for scheme in ("http", "https"):
        # Nothing listens on this port.
        monkeypatch.setenv(f"{scheme}_proxy", "http://127.0.0.1:9")
    got, advice = re.compile("no response"), re.compile("`data.source=DIR`")
    with refused("E-network-failed", setting="tfds:glue/mrpc", got=got, advice=advice):
        prepare("tfds:glue/mrpc", TaskConfig())
    assert not (tmp_path / "records").exists()


def test_data_set_that_tfds_does_not_have_is_refused(prepare):
    with refused("E-data-not-found", setting="tfds:tiny_absent"):
        prepare("tfds:tiny_absent", TaskConfig())


@pytest.mark.parametrize("form", ["columns", "sequence"])
def test_several_labels_are_columns_of_booleans_or_a_sequence(store, prepare, form):
    names, text = ["joy", "love", "fear"], {"text": "A cat."}
    if form == "columns":
        rows = [
            {**text, "joy": flag, "love": False, "fear": flag} for flag in (True, False)
        ]
        features = dict.fromkeys(names, np.bool_)
    else:
        rows = [{**text, "labels": labels} for labels in ([0, 2], [])]
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
    assert [row["labels"] for row in splits["train"]] == [[1, 0, 1], [0, 0, 0]]
