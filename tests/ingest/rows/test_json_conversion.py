"""JSON that is one value: the message has a command that makes it a file that works."""

import gzip
import json
import re
import runpy
import shlex
import subprocess
import sys

import pytest

from contracts.errors import UsageError
from contracts.settings.data import DataConfig
from ingest.rows import json_conversion
from ingest.rows.row_errors import FileError
from ingest.rows.row_file import RowFile
from pipeline.onboarding.data_set import Choices, look_at

CLASSES = ("bad", "good", "so so")
ROWS = [
    {"text": f"The film number {n} isn't {n % 7}", "label": CLASSES[n % 3]}
    for n in range(60)
]
PAIRS = [[row["text"], row["label"]] for row in ROWS]


def by_class(convert):
    return {
        name: [convert(row["text"]) for row in ROWS if row["label"] == name]
        for name in CLASSES
    }


def hate_xplain(row):
    annotators = [
        {"label": label, "annotator_id": n, "target": ["x"]}
        for n, label in enumerate((row["label"], "good", row["label"]))
    ]
    tokens = row["text"].split()
    spans = [[0] * len(tokens)] * 2
    return {"annotators": annotators, "rationales": spans, "post_tokens": tokens}


def columns(convert):
    return {name: convert([row[name] for row in ROWS]) for name in ("text", "label")}


def indexed(values):
    return {str(n): value for n, value in enumerate(values)}


SHAPES = {
    "CLINC150": {"oos_val": [], "val": PAIRS, "train": PAIRS, "test": PAIRS[:9]},
    "SNIPS": by_class(lambda text: {"data": [{"text": text}, {"text": "!", "x": 1}]}),
    "HateXplain": {f"{n}_gab": hate_xplain(row) for n, row in enumerate(ROWS)},
    "data": {"data": ROWS},
    "SQuAD": {"version": "v2.0", "data": [{"id": n, **r} for n, r in enumerate(ROWS)]},
    "viewer": {
        "features": [{"name": "text", "type": {}}, {"name": "label", "type": {}}],
        "rows": [{"row_idx": n, "row": row} for n, row in enumerate(ROWS)],
        "num_rows_total": 60,
    },
    "rows": {"rows": [{"row": row} for row in ROWS]},
    "pandas": columns(indexed),
    "pandas list": columns(list),
    "pandas index": indexed(ROWS),
    "pandas split": {"columns": ["text", "label"], "index": [0], "data": PAIRS},
    "pandas table": {"schema": {"fields": [{"name": "text"}]}, "data": ROWS},
    "splits": {"train": ROWS, "validation": ROWS},
    "splits of columns": {"train": columns(list), "test": columns(list)},
    "texts of classes": by_class(str),
    "rows of classes": by_class(lambda text: {"id": 1, "text": text}),
    "labels of texts": {row["text"]: row["label"] for row in ROWS},
    "tokens": {
        "data": [{"tokens": r["text"].split(), "tag": r["label"]} for r in ROWS]
    },
    "nested": {"status": "ok", "result": {"items": ROWS}},
    "rasa": {"nlu": {"common": [{**r, "entities": []} for r in ROWS], "regex": []}},
    "splits with other names": {"Training": ROWS, "Validation": ROWS[:9]},
    "named rows": {"name": "My set", "version": 1, "rows": ROWS},
    "pairs": PAIRS,
    "quotes": {'it\'s "x"': ROWS, "n": 1},
}


def look(path):
    return look_at(str(path), DataConfig(), Choices(), {})


def convert(path, encoding="utf-8"):
    """Converts as the command of the message does; returns what it names."""
    rows = RowFile(str(path), "jsonl", DataConfig(encoding=encoding)).read()
    ((_, error),) = rows
    assert isinstance(error, FileError)
    target, command = re.search(r"and give (.*?): python (.*)$", str(error)).groups()
    flag, module, *arguments = shlex.split(command)
    assert (flag, module) == ("-m", json_conversion.__name__)
    json_conversion.main(*arguments)
    return target


@pytest.mark.parametrize(
    ("shape", "indent"),
    [*((shape, None) for shape in SHAPES), ("SNIPS", 1), ("data", 1)],
)
def test_command_of_the_message_leads_to_a_file_that_works(tmp_path, shape, indent):
    path = tmp_path / "it's data.json"
    path.write_text(json.dumps(SHAPES[shape], indent=indent))
    data_set = look(convert(path))
    assert sorted(data_set.task.classes) == [*CLASSES]
    (text,) = data_set.task.text_columns
    assert data_set.columns[text].filled == 60
    assert len(data_set.columns[text].values) == 60
    if shape == "CLINC150":
        assert [*data_set.source.files] == ["train", "eval", "test"]


def test_packed_file_and_its_other_encoding_are_converted(tmp_path):
    rows = [{**row, "text": row["text"] + " café"} for row in ROWS]
    content = json.dumps({"data": rows}, ensure_ascii=False)
    packed, latin = tmp_path / "data.json.gz", tmp_path / "latin.json"
    packed.write_bytes(gzip.compress(content.encode()))
    latin.write_text(content, encoding="cp1252")
    for target in (convert(packed), convert(latin, "cp1252")):
        assert all("café" in text for text in look(target).columns["text"].values)


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")
def test_module_is_a_command(tmp_path, monkeypatch):
    path = tmp_path / "data.json"
    path.write_text(json.dumps(PAIRS))
    monkeypatch.setattr(sys, "argv", ["json_conversion", str(path)])
    runpy.run_module(json_conversion.__name__, run_name="__main__")
    assert len((tmp_path / "data_rows.jsonl").read_text().splitlines()) == 60


def test_object_of_one_class_names_how_to_join_the_others(tmp_path):
    path = tmp_path / "train_AddToPlaylist.json"
    rows = [{"data": [{"text": row["text"]}]} for row in ROWS]
    path.write_text(json.dumps({"AddToPlaylist": rows}))
    with pytest.raises(UsageError, match=r"one class; .* join .*: python -m") as error:
        look(path)
    join = re.search(r"with (cat .*?): python", str(error.value))[1]
    (tmp_path / "train_A_rows.jsonl").write_text("a\n")
    subprocess.run(join, shell=True, check=True, cwd="/")
    assert (tmp_path / "all.jsonl").read_text() == "a\n"


def test_lists_of_labels_by_text_are_converted(tmp_path):
    path = tmp_path / "data.json"
    names = [[*CLASSES[: n % 3], "other"] for n in range(60)]
    texts = [row["text"] for row in ROWS]
    path.write_text(json.dumps(dict(zip(texts, names, strict=True))))
    task = look(convert(path)).task
    assert (task.kind, task.classes) == ("multilabel", ["bad", "good", "other"])


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ([{"word": "cat", "kind": "a"}], [{"word": "cat", "kind": "a"}]),
        ([["A cat.", "a"]], [{"text": "A cat.", "label": "a"}]),
        ([["A cat."]], []),  # has no label
        ([{"n": 1}], []),
        ({"a": [1, "x"], "b": [2]}, []),
    ],
)
def test_rows_have_a_text(content, rows):
    assert json_conversion.convert(content).get("", []) == rows


def test_several_texts_in_a_row_are_no_text(tmp_path):
    path = tmp_path / "intents.json"
    intents = [{"tag": name, "patterns": by_class(str)[name]} for name in CLASSES]
    path.write_text(json.dumps({"intents": intents}))
    with pytest.raises(UsageError, match="with intents; write its rows, one per line"):
        look(path)


def test_object_without_rows_is_refused_by_a_few_of_its_keys(tmp_path):
    path = tmp_path / "data.json"
    content = {"k" * 1000 + str(n): {"a": [[1, 2], [3]]} for n in range(1500)}
    path.write_text(json.dumps(content))
    with pytest.raises(UsageError, match=r"and 1,495 more") as refused:
        look(path)
    assert len(str(refused.value)) < 500
    path.write_text(json.dumps({f"key{n}": n for n in range(3000)}))
    with pytest.raises(UsageError) as refused:
        look(path)
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize(
    "row",
    [
        {"text": "One."},
        {"text": "hello", "label": "x"},
        {"text": "hello", "spans": [{"word": "a b", "end": 5}]},
        {"review": "hello", "spans": [{"start": 0, "end": 5}]},
        {"text": "Hello you.", "meta": {"lang": "en"}, "labels": ["a", "b"]},
        {"text": "hello", "meta": {"lang": "en", "by": "me"}, "score": 1.5},
        {f"column{n}": n for n in range(40)},
    ],
)
def test_only_line_of_a_file_is_a_row_if_it_has_a_text(tmp_path, row):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(row) + "\n")
    assert [read for _, read in RowFile(str(path), "jsonl").read()] == [row]
