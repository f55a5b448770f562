"""The files of GLUE's archives, in their own columns with invented sentences."""

import re

import pytest
import tensorflow_datasets as tfds

from contracts.task.definition import GLUE, TaskConfig
from tests.refusals import refused

MNLI = (
    "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse "
    "sentence1_parse sentence2_parse sentence1 sentence2 label1 gold_label"
).replace(" ", "\t")
MNLI_TEST = [MNLI.rsplit("\t", 2)[0], "0\t1\t1n\tfiction\ta\tb\tc\td\tA dog.\tA cat."]
MRPC = "#1 ID\t#2 ID\t#1 String\t#2 String"
STSB = "index genre filename year old_index source1 source2 sentence1 sentence2"
STSB = STSB.replace(" ", "\t")
QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
PAIR = "index\tsentence1\tsentence2"
QNLI = "index\tquestion\tsentence"


def mnli_row(index, premise, hypothesis, label):
    parses = "( a b )\t( c d )\t(ROOT a)\t(ROOT c)"
    texts = f"{premise}\t{hypothesis}"
    return f"{index}\t1\t1n\tfiction\t{parses}\t{texts}\t{label}\t{label}"


# Lines of each task's files, by their names without `.tsv`.
ARCHIVES = {
    "cola": {
        "train": ["gj04\t1\t\tThe cat sleeps.", 'gj04\t0\t*\tSleeps "the cat.'],
        "dev": ["bc01\t0\t??\tDog a runs."],
        "test": ["index\tsentence", "0\tA bird sings."],
    },
    "sst2": {
        "train": ["sentence\tlabel", "a lovely cat \t1", "a dull dog \t0"],
        "dev": ["sentence\tlabel", "what a bird ! \t1"],
        "test": ["index\tsentence", "0\tno fish ."],
    },
    "mrpc": {
        "train": [f"\ufeffQuality\t{MRPC}", '1\t70\t71\tA "cat sat.\tThe cat sat.'],
        "dev": [f"Quality\t{MRPC}", "0\t7\t8\tA cat.\tA dog."],
        "test": [f"index\t{MRPC}", "0\t5\t6\tA cat.\tA cat."],
    },
    "stsb": {
        "train": [
            f"{STSB}\tscore",
            "0\tmain\tf\t2012\t1\tnone\tnone\tA cat runs.\tA cat is running.\t4.750",
            "1\tmain\tf\t2012\t4\tnone\tnone\tA cat runs.\tFish swim.\t0.000",
        ],
        "dev": [
            f"{STSB}\tscore",
            "0\tmain\tf\t2012\t1\tnone\tnone\tA bird.\tTwo birds.\t2.8",
        ],
        "test": [STSB, "0\tmain\tf\t2012\t1\tnone\tnone\tA bird.\tTwo birds."],
    },
    "qqp": {
        "train": [
            QQP,
            "13\t1\t2\tIs it a cat?\tA cat, is it?\t1",
            "14\t3\t4\tIs it cut off",
            "15\t5\t6\tIs it a dog?\tWhere is it?\t0",
            "16\t5\t6\tIs it unlabelled?\tWhere is it?\t",
        ],
        "dev": [QQP, "2\t1\t2\tWho?\tWhy?\t0"],
        "test": ["id\tquestion1\tquestion2", "0\tWho?\tWhy?"],
    },
    "mnli": {
        "train": [
            MNLI,
            mnli_row(0, "A cat sat.", "It sat.", "entailment"),
            mnli_row(1, "A cat sat.", "It ran.", "contradiction"),
        ],
        "dev_matched": [MNLI, mnli_row(5, "Dogs run.", "Cats run.", "neutral")],
        "dev_mismatched": [MNLI, mnli_row(6, "Dogs run.", "They do.", "entailment")],
        "test_matched": MNLI_TEST,
        "test_mismatched": MNLI_TEST,
    },
    "qnli": {
        "train": [
            f"{QNLI}\tlabel",
            "0\tWho sat?\tThe cat sat.\tentailment",
            "1\tWho ran?\tThe cat sat.\tnot_entailment",
        ],
        "dev": [f"{QNLI}\tlabel", "0\tWho?\tMe.\tentailment"],
        "test": [QNLI, "0\tWho?\tMe."],
    },
    "rte": {
        "train": [f"{PAIR}\tlabel", "0\tThe cat sat.\tIt ran.\tnot_entailment"],
        "dev": [f"{PAIR}\tlabel", "0\tHe sat.\tHe sat.\tentailment"],
        "test": [PAIR, "0\tHe sat.\tHe ran."],
    },
    "wnli": {
        "train": [f"{PAIR}\tlabel", "0\tIt sat on it.\tIt sat.\t1"],
        "dev": [f"{PAIR}\tlabel", "0\tIt sat on it.\tHe did.\t0"],
        "test": [PAIR, "0\tHe sat.\tHe ran."],
    },
}
IDS = {"mnli": [[0, 1], [5], [6]], "qqp": [[13, 15], [2]]}
SPLITS = {"train": "train", "dev": "eval", "dev_matched": "eval"} | {
    "dev_mismatched": "eval_mismatched"
}


@pytest.fixture
def prepare_archive(write, prepare):
    """Returns the rows of each split, and the lines for the user."""

    def prepare_archive(task, files=None, **changes):
        files = files or {**ARCHIVES[task.name], **changes}
        tables = {name: "\n".join(lines) + "\n" for name, lines in files.items()}
        return prepare(write("tsv", **tables), task)

    return prepare_archive


@pytest.mark.parametrize("name", sorted(set(GLUE) - {"mrpc"}))
def test_archive_gives_the_rows_that_tfds_reads_from_it(
    tmp_path, prepare_archive, name
):
    task = TaskConfig(name=name)
    splits, lines = prepare_archive(task)
    ids = [[row["idx"][0] for row in rows] for rows in splits.values()]
    assert ids == IDS.get(name, [list(range(len(rows))) for rows in splits.values()])
    reader = tfds.text.Glue(config=name, data_dir=str(tmp_path / "tfds"))
    for file in sorted(SPLITS.keys() & ARCHIVES[name].keys()):
        path = str(tmp_path / "data" / f"{file}.tsv")
        expected = [row for _, row in reader._generate_examples(path, file[:3])]
        rows = splits.pop(SPLITS[file])
        assert len(rows) == len(expected) > 0
        for row, reference in zip(rows, expected, strict=True):
            for column in task.text_columns:
                assert row[column] == [reference[column].encode()]
            label = reference["label"]
            if label in (task.classes or ()):
                label = task.classes.index(label)
            assert row["label"] == pytest.approx([label])
    assert not splits
    assert [text for text in lines if "no column label: left out" in text]


def test_mrpc_with_a_byte_order_mark_and_unclosed_quotes_is_read(
    tmp_path, prepare_archive
):
    splits, lines = prepare_archive(TaskConfig(name="mrpc"))
    texts = {"sentence1": [b'A "cat sat.'], "sentence2": [b"The cat sat."]}
    assert splits["train"] == [{**texts, "label": [1], "idx": [0]}]
    assert [row["label"] for row in splits["eval"]] == [[0]]
    assert f"{tmp_path}/data/test.tsv has no column label: left out" in lines


def test_index_that_is_not_a_number_is_replaced_by_the_row_number(prepare_archive):
    header, row, *_ = ARCHIVES["qnli"]["train"]
    changed = [header, "dev-q7-s1" + row.removeprefix("0")]
    splits, _ = prepare_archive(TaskConfig(name="qnli"), train=changed)
    assert [row["idx"] for row in splits["train"]] == [[0]]


def test_malformed_rows_of_qqp_are_left_out_and_counted(prepare_archive):
    splits, lines = prepare_archive(TaskConfig(name="qqp"))
    assert [row["question1"] for row in splits["train"]] == [
        [b"Is it a cat?"],
        [b"Is it a dog?"],
    ]
    assert "train: 2 malformed rows left out, as TFDS does" in lines


@pytest.mark.parametrize(
    ("name", "train", "reason"),
    [
        ("qqp", [QQP, "17\t5\t6\ta\tb\t1\tc"], "2: 7 fields, the header has 6"),
        (
            *("qqp", ["idx\tquestion1\tquestion2\tlabel", "1\ta\tb\t1", "2\tcut"]),
            "3: 2 fields, the header has 4",
        ),
        ("rte", [*ARCHIVES["rte"]["train"], "1\tcut"], "3: 2 fields"),
        ("cola", [*ARCHIVES["cola"]["train"], "gj04\t1\tcut"], "3: 3 "),
        ("cola", ["gj04\tyes\t\tA cat."], "1: label is 'yes'; allowed"),
    ],
)
def test_every_other_malformed_row_is_refused_with_file_and_line(
    prepare_archive, name, train, reason
):
    with refused("E-rows-refused", got=re.compile(rf"train\.tsv:{reason}")):
        prepare_archive(TaskConfig(name=name), train=train)


def test_archive_without_a_column_of_the_task_is_refused(prepare_archive):
    got = re.compile("no column sentence1, sentence2$")
    with refused("E-column-missing", setting="task.text_columns", got=got):
        prepare_archive(TaskConfig(name="stsb"), train=["index\tscore", "0\t1"])


@pytest.mark.parametrize("name", sorted(GLUE))
def test_same_task_is_read_in_the_columns_of_tfds(tmp_path, prepare_archive, name):
    task = TaskConfig(name=name)
    columns = ["idx", *task.text_columns, "label"]
    row = ["3", *("A cat." for _ in task.text_columns), "1"]
    table = ["\t".join(columns), "\t".join(row)]
    unlabelled = ["\t".join(columns), "\t".join([*row[:-1], "-1"])]
    files = {"train": table, "eval": table, "test": unlabelled}
    splits, lines = prepare_archive(task, files)
    assert f"{tmp_path}/data/test.tsv has only -1 for label: left out" in lines
    for (example,) in splits.values():
        assert example["idx"] == [3]
        assert example["label"] == [1]
        assert all(example[column] == [b"A cat."] for column in task.text_columns)


def test_column_that_the_task_names_keeps_its_name(prepare_archive):
    task = TaskConfig(name="mnli", label_column="gold_label", id_column="index")
    splits, _ = prepare_archive(task)
    assert splits["train"][1]["gold_label"] == [2]
    assert splits["eval"][0]["index"] == [5]
    assert splits["eval"][0]["hypothesis"] == [b"Cats run."]
