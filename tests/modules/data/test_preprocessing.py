"""Tokenization and packing, against the reference implementations."""

import json
import math

import apache_beam as beam
import pytest
import tensorflow as tf
import tensorflow_text as tf_text
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from official.nlp.data import classifier_data_lib
from official.nlp.tools import tokenization
from tensorflow_transform.tf_metadata import schema_utils
from tfx_bsl.public import tfxio

from contracts.packing import LongTextConfig, Packing
from contracts.task.definition import TOKENIZED_FEATURES, TaskConfig
from modules.data import preprocessing
from pipeline.inputs.schema import build_schema
from tests import records, tiny
from tests.nightly import nightly

pytestmark = pytest.mark.slow

RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


def test_bytes_that_are_not_utf_8_do_not_fail_the_batch(vocab_file):
    texts = tf.constant([b"the cat", b"\xff\xfe\x80", b"the \xc3 cat"])
    (ids,) = preprocessing.tokenize([texts], vocab_file)
    cat = tiny.VOCAB.index("cat")
    rows = ids.to_list()
    assert rows[0][-1] == cat
    assert rows[2][-1] == cat
    assert rows[1] == []


def lengths_upto(longest):
    return [(a, b) for a in range(longest) for b in range(longest)]


@pytest.mark.parametrize("max_seq_length", [8, 9, nightly(12)])
def test_longest_first_truncation_equals_round_robin(max_seq_length):
    lengths = lengths_upto(12)
    first = tf.ragged.constant([list(range(10, 10 + a)) for a, _ in lengths], tf.int64)
    second = tf.ragged.constant([list(range(50, 50 + b)) for _, b in lengths], tf.int64)
    packed = preprocessing.pack_segments(
        [first, second],
        Packing(max_seq_length=max_seq_length),
        special_token_ids=(2, 3),
    )
    trimmed = tf_text.RoundRobinTrimmer(max_seq_length - 3).trim([first, second])
    rows = (*trimmed, packed["input_word_ids"], packed["input_type_ids"])
    for a, b, ids, types in zip(*(row.to_list() for row in rows), strict=True):
        assert ids == [2, *a, 3, *b, 3]
        assert types == [0] * (len(a) + 2) + [1] * (len(b) + 1)


def test_batch_is_padded_to_its_longest_row_or_to_a_given_length():
    rows = tf.ragged.constant([[2, 7, 3], [2, 7, 8, 9, 3]], tf.int64)
    types = tf.ragged.constant([[0, 0, 1], [0, 0, 0, 1, 1]], tf.int64)
    inputs = preprocessing.pad_inputs(rows, types)
    assert inputs["input_word_ids"].numpy().tolist()[0] == [2, 7, 3, 0, 0]
    assert inputs["input_mask"].numpy().tolist() == [[1, 1, 1, 0, 0], [1] * 5]
    assert inputs["input_type_ids"].dtype == tf.int32
    assert preprocessing.pad_inputs(rows, types, 8)["input_mask"].shape == (2, 8)


@pytest.mark.parametrize("columns", [nightly(1), 2])
def test_columns_of_a_curated_schema_without_shapes_are_read_as_well(
    vocab_file, columns
):
    sparse = tf.sparse.from_dense([["the cat"], ["the dog"]])
    labels = tf.constant([[1], [0]], tf.int64)
    names = ["sentence1", "sentence2"][:columns]
    inputs = {**dict.fromkeys(names, sparse), "label": labels, "idx": labels}
    config = {
        "task": {"text_columns": names},
        "packing": {"max_seq_length": 16},
        "vocab_file": vocab_file,
    }
    outputs = preprocessing.preprocessing_fn(inputs, config)
    assert outputs["input_word_ids"].dense_shape.numpy().tolist() == [
        2,
        1 + 3 * columns,
    ]


@pytest.mark.parametrize("is_sparse", [True, False])
def test_several_labels_of_a_row_stay_as_they_are(vocab_file, is_sparse):
    """A schema that bounds the label by `value_count` makes it sparse."""
    labels = tf.constant([[1, 0, 1], [0, 0, 0]], tf.int64)
    outputs = preprocessing.preprocessing_fn(
        {
            "text": tf.constant([["the cat"], ["the dog"]]),
            "label": tf.sparse.from_dense(labels) if is_sparse else labels,
        },
        {
            "task": {
                "kind": "multilabel",
                "text_columns": ["text"],
                "classes": ["a", "b", "c"],
            },
            "packing": {"max_seq_length": 16},
            "vocab_file": vocab_file,
        },
    )
    assert outputs["label"].numpy().tolist() == labels.numpy().tolist()
    assert outputs["idx"].numpy().tolist() == [[-1], [-1]]


def test_single_text_is_packed_between_two_special_tokens_within_its_budget():
    ids = tf.ragged.constant([[], [10, 11], list(range(10, 30))], tf.int64)
    packed = preprocessing.pack_segments(
        [ids], Packing(max_seq_length=8), special_token_ids=(2, 3)
    )
    rows = packed["input_word_ids"].to_list()
    assert rows == [[2, 3], [2, 10, 11, 3], [2, 10, 11, 12, 13, 14, 15, 3]]
    assert packed["input_type_ids"].to_list() == [[0] * len(row) for row in rows]


@pytest.mark.parametrize(
    ("keep", "first", "second"),
    [
        ("head", [10, 11, 12], [20, 21]),
        ("tail", [14, 15, 16], [27, 28]),
        ("ends", [10, 11, 16], [20, 28]),
    ],
)
def test_part_of_a_text_that_is_kept_is_chosen(keep, first, second):
    texts = [tf.ragged.constant([list(range(a, b))]) for a, b in ((10, 17), (20, 29))]
    packed = preprocessing.pack_segments(
        [tf.cast(text, tf.int64) for text in texts],
        Packing(max_seq_length=8, keep=keep),
        special_token_ids=(2, 3),
    )
    assert packed["input_word_ids"].to_list() == [[2, *first, 3, *second, 3]]
    # A text that is short enough is whole.
    short = tf.ragged.constant([[10, 11]], tf.int64)
    packed = preprocessing.pack_segments(
        [short], Packing(max_seq_length=8, keep=keep), special_token_ids=(2, 3)
    )
    assert packed["input_word_ids"].to_list() == [[2, 10, 11, 3]]


@pytest.mark.parametrize(("window", "stride"), [(8, 3), (8, 6), (10, 1)])
def test_windows_have_every_token_of_a_text_that_is_kept(window, stride):
    longest = 30
    settings = LongTextConfig(window=window, stride=stride)
    texts = [list(range(10, 10 + length)) for length in range(40)]
    packed = preprocessing.pack_segments(
        [tf.ragged.constant(texts, tf.int64)],
        Packing(max_seq_length=longest + 2, keep="tail", long_text=settings),
        special_token_ids=(2, 3),
    )
    counts = []
    for text, ids in zip(texts, packed["input_word_ids"].to_list(), strict=True):
        kept = text[-longest:]
        expected = [[2, *kept[: window - 2], 3]]
        end = window - 2
        while end < len(kept):
            start = stride * len(expected)
            end = start + window - 2
            expected.append([2, *kept[start:end], 3])
        assert ids == [token for part in expected for token in part]
        assert all(len(part) == window for part in expected[:-1])
        counts.append(len(expected))
    assert counts[-1] == settings.most_windows(longest + 2)
    assert not packed["input_type_ids"].values.numpy().any()


def text_example(texts, label, index):
    columns = {f"sentence{i}": [t.encode()] for i, t in enumerate(texts, start=1)}
    return records.example(**columns, label=[label], idx=[index])


def write_as_the_model_garden_does(path, rows, vocab_file, padded, label_type):
    """Writes (texts, label) by the code of `create_finetuning_data.py`."""
    examples = [
        classifier_data_lib.InputExample(str(i), *texts, label=label)
        for i, (texts, label) in enumerate(rows)
    ]
    classifier_data_lib.file_based_convert_examples_to_features(
        examples,
        None if label_type is float else sorted({label for _, label in rows}),
        padded,
        tokenization.FullTokenizer(vocab_file, do_lower_case=True),
        str(path),
        label_type,
    )


def transform(pattern, task, vocab_file, tmp_path, max_seq_length=16):
    """Runs Transform's graph over TFRecords as TFX does; returns rows by column."""
    config = {
        "task": task.model_dump(),
        "packing": {"max_seq_length": max_seq_length},
        "vocab_file": vocab_file,
    }
    source = tfxio.TFExampleRecord(pattern, schema=build_schema(task))
    with (
        beam.Pipeline(runner=RUNNER) as pipeline,
        tft_beam.Context(temp_dir=str(tmp_path / "temp")),
    ):
        data = (pipeline | source.BeamSource(), source.TensorAdapterConfig())
        (rows, metadata), _ = data | tft_beam.AnalyzeAndTransformDataset(
            lambda x: preprocessing.preprocessing_fn(x, config)
        )
        coder = tft.coders.ExampleProtoCoder(metadata.schema)
        rows | beam.Map(coder.encode) | beam.io.WriteToTFRecord(f"{tmp_path}/out")
    return records.read(f"{tmp_path}/out*")


def preprocess(examples, task, vocab_file, max_seq_length=16):
    """Calls `preprocessing_fn` on Examples; returns rows by column."""
    spec = schema_utils.schema_as_feature_spec(build_schema(task)).feature_spec
    raw = tf.io.parse_example([row.SerializeToString() for row in examples], spec)
    config = {
        "task": task.model_dump(),
        "packing": {"max_seq_length": max_seq_length},
        "vocab_file": vocab_file,
    }
    outputs = preprocessing.preprocessing_fn(raw, config)
    columns = {
        name: tf.RaggedTensor.from_sparse(values)
        if isinstance(values, tf.SparseTensor)
        else values
        for name, values in outputs.items()
    }
    return [
        {name: values[index].numpy().tolist() for name, values in columns.items()}
        for index in range(len(examples))
    ]


SINGLES = [(("The cat sees the dog.",), 0.5), (("a " * 40,), 5.0), (("Trees!",), 0.0)]
PAIRS = [
    (("The cat sees the tree.", "A dog likes a road!"), 1),
    (("the cat " * 20, "a dog " * 20), 0),
    (("the", "a red bird finds a house, unknownword " * 3), 1),
]


CLASSIFIED = PAIRS, {"classes": ["no", "yes"]}
RATED = SINGLES, {"text_columns": ["sentence1"], "label_range": [0, 5]}


@pytest.mark.parametrize(
    ("rows", "settings"), [CLASSIFIED, RATED], ids=["classified pairs", "rated texts"]
)
def test_model_gardens_records_and_the_same_text_give_equal_inputs(
    tmp_path, vocab_file, rows, settings
):
    texts = [text_example(*row, index) for index, row in enumerate(rows)]
    # Padding beyond max_seq_length is allowed.
    tokenized = tmp_path / "train.tf_record"
    label_type = float if "label_range" in settings else None
    write_as_the_model_garden_does(tokenized, rows, vocab_file, 16, label_type)
    examples = pad_further(tokenized, 24)
    of_text = preprocess(texts, TaskConfig(**settings), vocab_file)
    task = TaskConfig(input="tokenized", **settings)
    of_ids = preprocess(examples, task, vocab_file)
    assert len(of_text) == len(rows)
    renamed = {"label_ids": "label", "example_id": "idx"}
    by_id = {row["example_id"][0]: row for row in of_ids}
    for row in of_text:
        same = {renamed.get(k, k): v for k, v in by_id[row["idx"][0]].items()}
        assert same == row
        assert row["label"] == [rows[row["idx"][0]][1]]


def test_transform_gives_the_inputs_and_leaves_out_columns_without_a_name(
    tmp_path, vocab_file
):
    examples = [text_example(*row, index) for index, row in enumerate(PAIRS)]
    expected = preprocess(examples, TaskConfig(), vocab_file)
    for example in examples:
        example.features.feature["name"].bytes_list.value.append(b"Ann")
    pattern = records.write(tmp_path / "train", examples)
    rows = transform(pattern, TaskConfig(), vocab_file, tmp_path / "transformed")
    assert sorted(rows, key=lambda row: row["idx"]) == expected


def pad_further(path, length):
    """Pads the tokens of a file's Examples, and returns the Examples."""
    examples = [
        tf.train.Example.FromString(record.numpy())
        for record in tf.data.TFRecordDataset(str(path))
    ]
    for example in examples:
        for name in ("input_ids", "input_mask", "segment_ids"):
            values = example.features.feature[name].int64_list.value
            values.extend([0] * (length - len(values)))
    return examples


TOKENIZED = {
    "input_ids": [2, 6, 3, 0],
    "input_mask": [1, 1, 1, 0],
    "segment_ids": [0] * 4,
    "label_ids": [1],
}


@pytest.fixture(scope="module")
def tokenized_graph(vocab_file):
    """Runs the graph of `preprocessing_fn` on rows, with at most 8 tokens each."""
    config = {
        "task": {"input": "tokenized"},
        "packing": {"max_seq_length": 8},
        "vocab_file": vocab_file,
    }
    lists = tf.SparseTensorSpec([None, None], tf.int64)
    labels = tf.TensorSpec([None, 1], tf.int64)

    @tf.function(input_signature=[[lists, lists, lists], labels], autograph=False)
    def run(tokens, label):
        inputs = dict(zip(TOKENIZED_FEATURES, tokens, strict=True))
        return preprocessing.preprocessing_fn({**inputs, "label_ids": label}, config)

    def run_rows(rows):
        tokens = [
            tf.ragged.constant([row[name] for row in rows], tf.int64).to_sparse()
            for name in TOKENIZED_FEATURES
        ]
        return run(tokens, tf.constant([row["label_ids"] for row in rows], tf.int64))

    return run_rows


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"input_ids": [2] * 9, "input_mask": [1] * 9, "segment_ids": [0] * 9},
            r"more tokens than preprocessing\.max_seq_length \(8\); raise the setting",
        ),
        ({"input_mask": [1, 1, 1]}, "input_mask must be as long as input_ids"),
        ({"segment_ids": [0] * 5}, "segment_ids must be as long as input_ids"),
        ({"input_mask": [1, 0, 1, 0]}, "input_mask must be 1 for the tokens"),
        ({"input_ids": [2, 999, 3, 0]}, r"input_ids must be 0 to 30.*got.*\[999\]"),
        ({"input_ids": [2, -5, 3, 0]}, r"input_ids must be 0 to 30.*got.*\[-5\]"),
        ({"segment_ids": [0, 0, 2, 0]}, r"segment_ids must be 0 to 1.*got.*\[2\]"),
        ({"segment_ids": [0, -1, 0, 0]}, r"segment_ids must be 0 to 1.*got.*\[-1\]"),
        ({"input_mask": [0] * 4}, "an example has no token"),
    ],
    ids=[
        *("too long", "short mask", "long segments", "hole"),
        *("other vocabulary", "negative id", "third segment", "negative segment"),
        "padding alone",
    ],
)
def test_tokenized_examples_that_the_encoder_cannot_take_fail_the_graph(
    tokenized_graph, changes, message
):
    rows = [TOKENIZED, TOKENIZED, {**TOKENIZED, **changes}]
    tokenized_graph(rows[:2])
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        tokenized_graph(rows)


@pytest.mark.nightly
def test_tokenized_examples_that_the_encoder_cannot_take_stop_transform(
    tmp_path, vocab_file
):
    """Transform's graph keeps only what its outputs depend on: the checks, too."""
    rows = [TOKENIZED, {**TOKENIZED, "input_ids": [2, 999, 3, 0]}]
    path = records.write(tmp_path / "train", [records.example(**row) for row in rows])
    message = r"input_ids must be 0 to 30.*got.*\[999\]"
    with pytest.raises(Exception, match=message):  # Beam wraps what a graph raises
        transform(path, TaskConfig(input="tokenized"), vocab_file, tmp_path / "t")


def write_encoder_of_one_segment_type(directory):
    """Writes the vocabulary and configuration of an encoder like RoBERTa."""
    directory.mkdir()
    config = {**tiny.CONFIG, "type_vocab_size": 1}
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "vocab.txt").write_text("\n".join(tiny.VOCAB) + "\n")
    return str(directory / "vocab.txt")


def test_both_texts_of_a_pair_have_type_0_on_an_encoder_of_one_type(tmp_path):
    vocab_file = write_encoder_of_one_segment_type(tmp_path / "encoder")
    texts = [tf.constant(["the cat", "a"]), tf.constant(["a dog", "the dog"])]
    packed = preprocessing.text_to_inputs(texts, vocab_file, Packing(max_seq_length=16))
    assert packed["input_word_ids"].row_lengths().numpy().tolist() == [7, 6]
    assert packed["input_type_ids"].to_list() == [[0] * 7, [0] * 6]


def test_tokenized_pairs_of_two_types_are_refused_by_an_encoder_of_one(tmp_path):
    vocab_file = write_encoder_of_one_segment_type(tmp_path / "encoder")
    rows = {name: tf.constant([values], tf.int64) for name, values in TOKENIZED.items()}
    config = {
        "task": {"input": "tokenized"},
        "packing": {"max_seq_length": 16},
        "vocab_file": vocab_file,
    }
    outputs = preprocessing.preprocessing_fn(rows, config)
    assert tf.sparse.to_dense(outputs["input_type_ids"]).numpy().tolist() == [[0] * 3]
    rows["segment_ids"] = tf.constant([[0, 0, 1, 0]], tf.int64)
    with pytest.raises(tf.errors.InvalidArgumentError, match="segment_ids must be 0;"):
        preprocessing.preprocessing_fn(rows, config)


@pytest.mark.parametrize("kind", ["text", "tokenized"])
def test_weight_is_passed_through_and_is_nan_where_it_is_missing(vocab_file, kind):
    task = TaskConfig(input=kind, weight_column="weight")
    spec = schema_utils.schema_as_feature_spec(build_schema(task)).feature_spec
    columns = {name: [1] for name in (*TOKENIZED_FEATURES, "label_ids")}
    if kind == "text":
        columns = {"sentence1": [b"a"], "sentence2": [b"b"], "label": [1], "idx": [1]}
    rows = [records.example(**columns, weight=[0.5]), records.example(**columns)]
    raw = tf.io.parse_example([row.SerializeToString() for row in rows], spec)
    config = {
        "task": task.model_dump(),
        "packing": {"max_seq_length": 8},
        "vocab_file": vocab_file,
    }
    weights = preprocessing.preprocessing_fn(raw, config)["weight"].numpy()
    assert weights[0] == 0.5
    assert math.isnan(weights[1, 0])
