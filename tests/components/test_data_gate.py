"""The data that stops a pipeline, and the reported reasons.

A run on Beam takes seconds, so all faults of a task are the splits of one run.
"""

import functools
import logging
import math
import sys

import pytest
import tensorflow as tf

from contracts.errors import UsageError
from contracts.records.labelled_rows import LabelledFile, LabelledRow
from contracts.redaction import REDACTED
from contracts.task.definition import TaskConfig
from ingest.examples import prepare
from modules.data import row_facts
from modules.data.profile import Profile
from pipeline.config.paths import REPOSITORY
from pipeline.inputs.schema import build_schema
from tests.components.data_gate_runs import (
    PAIRS,
    PAIRS_TASK,
    SCORES,
    SCORES_TASK,
    TOKENS,
    TOKENS_TASK,
    WEIGHTED_TASK,
    example,
    find_faults,
    run_gate,
    tokenized,
)

pytestmark = pytest.mark.slow


# By task: the rows of each split. Faults of several columns share a split.
FAULTY = {
    "pairs": (
        WEIGHTED_TASK,
        {
            "clean": PAIRS,
            "rows": [
                *PAIRS,
                *(example(80, label=[5]), example(81, label=[-1])),
                example(82, sentence2=[]),
                example(83, sentence1=[b"a", b"b"]),
                *(
                    example(85, sentence1=[b" "]),
                    example(86, sentence1=[b""], label=[1]),
                ),
                example(87, sentence2=["\u00a0\u3000\u2003".encode()]),
                example(88, sentence2=["\u200b\ufeff\x00".encode()]),
                example(89, sentence2=["\u00e9".encode()]),
                example(90, sentence2=["\ufffd".encode()]),
                example(91, sentence2=[b"a \xff cat"]),
            ],
            "types": [
                example(index, label=[b"yes"], sentence1=[1]) for index in (1, 2)
            ],
            "empty": [],
            # Only the training needs weights.
            "train": [
                *(example(i, label=[1], weight=[0.5]) for i in range(100, 108)),
                *(example(80, label=[1]), example(81, label=[1], weight=[-0.5])),
            ],
            "eval": [*PAIRS, example(82, weight=[math.nan])],
        },
    ),
    "scores": (
        SCORES_TASK,
        {
            "clean": [*SCORES, example(88, label=[0.0]), example(89, label=[5.0])],
            "range": [*SCORES, example(80, label=[5.5]), example(81, label=[-0.25])],
            "nan": [*SCORES, example(82, label=[float("nan")])],
            "types": [example(83, label=[3])],
        },
    ),
    "tokens": (
        TOKENS_TASK,
        {
            "clean": TOKENS,
            "clean, without ids": [tokenized(i, example_id=None) for i in range(2, 10)],
            "rows": [
                *TOKENS,
                tokenized(80, label_ids=[5]),
                tokenized(81, input_ids=None),
            ],
            "nothing": [tokenized(i, input_ids=None, example_id=None) for i in (1, 2)],
            "types": [tokenized(82, input_ids=[b"the cat"])],
        },
    ),
}


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """Returns the lines of the error by split, from one run per task."""

    @functools.cache
    def lines(kind):
        task, splits = FAULTY[kind]
        return find_faults(tmp_path_factory.mktemp(kind), splits, task)

    return lines


@pytest.mark.parametrize("kind", FAULTY)
def test_split_without_a_fault_is_not_in_the_error(lines, kind):
    clean = {s: x for s, x in lines(kind).items() if s.startswith("clean")}
    assert clean
    assert not any(clean.values())


FAULTS = {
    ("pairs", "rows"): [
        ["rows: label: ", "idx 80 at /", "gz:9: [5]", "gz:10: [-1]"],
        ["rows: sentence2: Multiple errors: "],
        ["sentence2: No value: in 1 example (rows idx 82 at ", "gz:11)"],
        ["rows: sentence1: ", "idx 83", "gz:12: [b'a', b'b']"],
        ["sentence1: Empty text: in 2 examples (rows idx 85", "gz:14)"],
        ["sentence2: Empty text: in 3 examples (rows idx 87", "gz:18)"],
        ["sentence2: Not UTF-8: in 1 example (rows idx 91", "gz:19)"],
    ],
    ("pairs", "types"): [["types: label: "], ["types: sentence1: "]],
    ("pairs", "empty"): [["empty: (dataset): "]],
    ("pairs", "train"): [["all 10 rows have the class `equivalent`"]],
    ("scores", "range"): [
        ["range: label: ", "idx 80", "gz:9: [5.5]", "gz:10: [-0.25]"]
    ],
    ("scores", "nan"): [["nan: label: ", "NaN"]],
    ("scores", "types"): [["types: label: "]],
    ("tokens", "rows"): [
        ["rows: label_ids: ", "example_id 80 at ", ".gz:9: [5]"],
        ["input_ids: No value: in 1 example (rows example_id 81"],
    ],
    ("tokens", "nothing"): [["nothing: input_ids: "]],
    ("tokens", "types"): [["types: input_ids: "]],
}


@pytest.mark.parametrize(("kind", "split"), FAULTS)
def test_faults_are_refused_with_column_kind_and_rows(lines, kind, split):
    for texts in FAULTS[kind, split]:
        assert any(all(t in line for t in texts) for line in lines(kind)[split]), texts


def test_missing_and_negative_weights_are_refused_in_training(lines):
    faults = lines("pairs")
    missing = "train: weight: No value: in 1 example (rows idx 80 at "
    assert any(line.startswith(missing) for line in faults["train"])
    assert any("idx 81 at " in line for line in faults["train"])
    (line,) = faults["eval"]
    assert line.startswith("eval: weight: ")


def test_rows_without_label_or_text_are_refused_under_a_curated_schema(tmp_path):
    contract = build_schema(PAIRS_TASK)
    for feature in contract.feature:
        feature.ClearField("shape")
        feature.value_count.min = feature.value_count.max = 1
    rows = [
        *(example(80, label=[]), example(81, label=[])),
        *(example(82, sentence1=[]), example(83, sentence1=[])),
    ]
    del rows[1].features.feature["label"], rows[3].features.feature["sentence1"]
    splits = {"train": [*PAIRS, *rows], "eval": PAIRS}
    lines = find_faults(tmp_path, splits, PAIRS_TASK, contract, origins=["train"])
    path = "/data/train.tsv"
    for column, rows in (
        ("label", f"idx 80 at {path}:10; idx 81 at {path}:11"),
        ("sentence1", f"idx 82 at {path}:12; idx 83 at {path}:13"),
    ):
        line = f"train: {column}: No value: in 2 examples (rows {rows})"
        line += " [E-rows-refused]"
        assert line in lines["train"]


def test_redacted_texts_of_refused_rows_are_in_no_file(tmp_path):
    (tmp_path / "hide_of_a_gate.py").write_text("def hide(row):\n    return None\n")
    rows = [*PAIRS, example(80, sentence1=[b"Ann called", b"Bob"])]
    splits = {"train": rows, "eval": [*PAIRS, example(81, label=[7])]}
    function = {"function": "hide_of_a_gate:hide", "directory": str(tmp_path)}
    lines = find_faults(tmp_path, splits, PAIRS_TASK, redact=function)
    shown = " ".join(lines["train"])
    assert "idx 80" in shown
    assert REDACTED in shown
    assert "7" in lines["eval"][0]  # a label is shown
    verdict = tmp_path / "verdict"
    for path in (verdict / "report.json", verdict / "report.html"):
        text = path.read_text()
        assert REDACTED in text
        for word in ("Ann called", "Bob", "some text 1", "other text"):
            assert word not in text


def test_warnings_are_logged_and_in_the_verdict_with_the_rows(tmp_path, caplog):
    evaluated = [example(index) for index in range(20, 27)]
    shared = example(27, sentence1=[b"OTHER  text"], sentence2=[b"some text 5"])
    extra = [example(index, extra=[b"x"]) for index in range(30, 34)]
    splits = {"train": PAIRS, "eval": [*evaluated, shared], "extra": extra}
    caplog.set_level(logging.WARNING, "components")  # TFX 1.21 raises that of the root
    verdict = run_gate(tmp_path, splits, PAIRS_TASK, origins=["eval"])
    (warning,) = verdict["warnings"]
    assert warning.startswith("eval: 1 of 8 rows (12.5%) have texts that are in train")
    train = tmp_path / "source" / "train" / "data.tfrecord.gz"
    assert f"(rows idx 27 at /data/eval.tsv:9 and train idx 5 at {train}:6)" in warning
    assert caplog.messages == [warning]
    (note,) = verdict["notes"]
    assert note.startswith("extra: extra: New column")
    profile = verdict["profile"]["eval"]
    assert (profile["rows"], profile["labels"]) == (
        8,
        {"not_equivalent": 4, "equivalent": 4},
    )


def regions(first, names, **columns):
    """Returns rows with a region each; None leaves it out."""
    return [
        example(index, **columns, **({"region": [name]} if name else {}))
        for index, name in enumerate(names, first)
    ]


def test_shard_that_vanished_since_example_gen_wrote_it_is_refused(tmp_path):
    with pytest.raises(
        UsageError, match=r"Split-train/data-00001-of-00002\.gz: missing"
    ):
        run_gate(tmp_path, {"train": PAIRS}, PAIRS_TASK, file="data-00000-of-00002.gz")


def test_word_that_is_the_label_is_refused(tmp_path):
    rows = [example(n, sentence1=[b"%d %d" % (n % 2, n * 31 % 7)]) for n in range(100)]
    (line,) = find_faults(tmp_path, {"train": rows}, PAIRS_TASK)["train"]
    assert line.startswith(
        "train: '0' at the start in text 1 is in 50 of 50 rows of the class `not_equiv"
    )


OWN_CHECK = """
from components.model_checks import Check
from modules.data.judgment import Finding


class Judge(Check):
    title = "Judge"

    def run(self, model, data, settings):
        raise NotImplementedError

    def judge_data(self, settings, task, split, slices, in_train):
        rows = {value: sum(n.values()) for value, n in slices["region"].items()}
        yield Finding("small", split, f"{split}: {sorted(rows.items())}")
"""


def test_values_of_the_evaluated_split_make_the_slices(tmp_path, monkeypatch):
    """Other splits may lack the column, or have any values. A check judges them."""
    (tmp_path / "judge_of_a_test.py").write_text(OWN_CHECK)
    monkeypatch.setattr(sys, "path", [*sys.path])
    names = [*[b"north"] * 40, *[b"south"] * 8, None, None]
    train = regions(100, [b"%d" % number for number in range(60)])
    verdict = run_gate(
        tmp_path,
        {"train": [*PAIRS, *train], "eval": regions(200, names)},
        PAIRS_TASK,
        columns=["region"],
        checks={
            "sections": {"judge_of_a_test:Judge": {}},
            "directory": str(tmp_path),
        },
    )
    assert verdict["notes"] == []
    assert verdict["warnings"] == [
        "eval: [('(missing)', 2), ('north', 40), ('south', 8)]"
    ]


def test_each_record_is_hashed_once_and_each_split_is_counted_once(
    tmp_path, monkeypatch
):
    hashed, counted = [], []
    hash_record, count = row_facts.hash_record, Profile.of
    monkeypatch.setattr(
        row_facts, "hash_record", lambda r: hashed.append(r) or hash_record(r)
    )
    monkeypatch.setattr(Profile, "of", lambda *a: counted.append(a) or count(*a))
    splits = {
        "train": [example(n) for n in range(100)],
        "eval": [example(n, sentence1=[b"%d" % n]) for n in range(100)],
    }
    run_gate(tmp_path, splits, PAIRS_TASK)
    rows = [row.SerializeToString() for rows in splits.values() for row in rows]
    assert sorted(hashed) == sorted(rows)
    assert len(counted) == len(splits)


def test_required_row_that_is_in_train_is_a_warning(tmp_path):
    """Texts count as equal whatever their case, as those of duplicates."""
    pairs = [("Some TEXT 3", "other text"), ("some text 3", "another text")]
    rows = [
        LabelledRow(texts={"sentence1": first, "sentence2": second}, label=1)
        for first, second in pairs
    ]
    LabelledFile(rows=rows).write(str(tmp_path / "required"))
    section = {"file": str(tmp_path / "required" / LabelledFile.FILE)}
    verdict = run_gate(
        tmp_path,
        {"train": PAIRS, "eval": [example(index) for index in range(100, 108)]},
        PAIRS_TASK,
        checks={"sections": {"required_rows": section}},
    )
    (warning,) = verdict["warnings"]
    assert warning.startswith("train: it has 1 row of checks.required_rows.file, which")
    assert "number 1 of the file; remove" in warning


def test_columns_without_values_or_with_too_many_are_refused(tmp_path):
    numbers = regions(200, [b"%d" % number for number in range(60)])
    splits = {"train": PAIRS, "eval": numbers}
    columns = ["region", "regoin"]
    first, second = find_faults(tmp_path, splits, PAIRS_TASK, columns=columns)["eval"]
    assert first.startswith("eval: region has more than 50 values, such as '")
    assert second.startswith("eval: no row has a value of regoin, which data.slice_col")


@pytest.fixture(scope="module")
def unreadable(tmp_path_factory):
    """The verdict on texts that the encoder cannot read, of which one is repeated."""
    readable = [example(i, sentence1=[b"the cat " * i + b"%d" % i]) for i in range(5)]
    splits = {"train": [*PAIRS, PAIRS[3]], "eval": readable}
    for row in readable:
        row.features.feature["sentence2"].bytes_list.value[:] = [b"a dog sees a bird"]
    root = tmp_path_factory.mktemp("unreadable")
    return run_gate(root, splits, PAIRS_TASK, warn_unreadable=0.05)


def test_texts_that_the_encoder_cannot_read_are_a_warning(unreadable):
    (warning,) = [line for line in unreadable["warnings"] if "hardly read" in line]
    assert warning.startswith("train: the encoder can hardly read 9 of 9 rows (100.0%)")
    profile = unreadable["profile"]
    lengths = profile["train"]["lengths"]
    assert (lengths["unknown_share"], lengths["tokens_per_word"]) == (1.0, 1.0)
    assert profile["eval"]["lengths"]["unknown_share"] == pytest.approx(0.1)


def test_repeated_record_is_named_with_all_its_locations(unreadable):
    (warning,) = [x for x in unreadable["warnings"] if "hardly read" not in x]
    assert "data.tfrecord.gz:4 and idx 3 at " in warning
    assert warning.endswith("data.tfrecord.gz:9)")


def test_drift_against_the_last_span_is_a_warning(tmp_path):
    def run(span, first, share, **limits):
        rows = range(first, first + 200)
        train = [example(i, label=[int(i % 200 < 200 * share)]) for i in rows]
        splits = {"train": train, "eval": [example(i) for i in (5000, 5001)]}
        root = tmp_path / str(span)
        root.mkdir()
        limits = {"warn_label_drift": 0.3, **limits}
        return run_gate(root, splits, PAIRS_TASK, span=span, **limits)["warnings"]

    assert run(8, 1000, 0.5) == []
    (warning,) = run(10, 2000, 0.9)
    assert "train: the class `" in warning
    assert "of the rows, and 50.0% in train of span 8" in warning
    assert run(9, 3000, 0.5) == []


def judge_text(source, root, **settings):
    """Runs the component on TSV files; returns the verdict."""
    prepare(str(source), str(root / "records"), PAIRS_TASK)
    splits = {
        split: [
            tf.train.Example.FromString(record)
            for path in (root / "records" / split).glob("*.gz")
            for record in tf.data.TFRecordDataset(str(path), "GZIP").as_numpy_iterator()
        ]
        for split in ("train", "eval", "test")
    }
    return run_gate(root, splits, PAIRS_TASK, **settings)


def test_sample_data_pass_without_a_warning(tmp_path):
    thresholds = {"accuracy": 0.85, "f1": 0.85}
    verdict = judge_text(
        REPOSITORY / "sample_data", tmp_path, gate_split="test", thresholds=thresholds
    )
    assert verdict["warnings"] == []


@pytest.mark.nightly
def test_mrpc_passes_without_a_warning(mrpc, tmp_path):
    thresholds = {"accuracy": 0.8, "f1": 0.85, "auc": 0.8, "matthews": 0.5}
    assert judge_text(mrpc, tmp_path, thresholds=thresholds)["warnings"] == []


def test_labels_are_judged_one_by_one(tmp_path):
    """Rows without a label are legal."""
    task = TaskConfig(kind="multilabel", classes=["a", "b", "c"])
    train = [
        example(
            n,
            label=[n % 2, n // 2 % 2, 0],
            region=[b"north"],
        )
        for n in range(120)
    ]
    splits = {"train": train, "eval": [*train[:40], example(999, label=[0, 1])]}
    faults = find_faults(tmp_path, splits, task, columns=["region"])
    (absent,) = faults["train"]
    assert absent.startswith("train: it has no row of `c`, which no model can learn")
    (shape,) = faults["eval"]
    assert shape.startswith("eval: label: ")
