"""Folders with a subfolder of text files for each class."""

import gzip
import json
import os
import re

import pytest

from contracts.errors import UsageError
from contracts.settings.data import DataConfig
from contracts.task.definition import TaskConfig
from ingest import examples as examples_lib
from ingest.examples import find_source
from pipeline.onboarding.data_set import Choices, look_at
from tests import records
from tests.refusals import refused

UNCLEAR = "E-split-unclear"
TASK = TaskConfig(
    text_columns=["text"], label_column="label", classes=["neg", "pos"], labels="name"
)


def write(directory, files):
    """Writes files by name; a text names its own file unless it is given."""
    for name in files:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = files[name] if isinstance(files, dict) else f"The text of {name}."
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return directory


def class_files(*folders, count=4, suffix=".txt"):
    return [f"{folder}/{n}{suffix}" for folder in folders for n in range(count)]


@pytest.fixture
def source(tmp_path):
    """Folders of two classes with 4 texts each."""
    return write(tmp_path / "data", class_files("neg", "pos"))


def look(source, **settings):
    return look_at(str(source), DataConfig(**settings), Choices(), {})


def read(source, **settings):
    """Returns the texts of each class by split."""
    found = find_source(str(source), DataConfig(**settings))
    texts = {}
    for split in found.files:
        for _, row in found.read(split):
            texts.setdefault((split, row["label"]), []).append(row["text"])
    return texts


def test_aclimdb_is_read_as_it_is_published(tmp_path):
    source = write(
        tmp_path / "aclImdb",
        [
            *class_files("train/neg", "train/pos", "train/unsup", "test/neg"),
            *class_files("test/pos"),
            *("README", "imdb.vocab", "imdbEr.txt", ".DS_Store", "train/.DS_Store"),
            *("train/urls_pos.txt", "train/labeledBow.feat", "test/urls_neg.txt"),
            *("train/pos/._0.txt", "__MACOSX/train/pos/0.txt", "train/neg/Thumbs.db"),
        ],
    )
    data_set = look(source)
    assert data_set.task.text_columns == ["text"]
    assert data_set.task.label_column == "label"
    assert data_set.task.classes == ["neg", "pos"]
    assert read(source) == {
        (split, name): [f"The text of {split}/{name}/{n}.txt." for n in range(4)]
        for split in ("train", "test")
        for name in ("neg", "pos")
    }
    train, test, others = data_set.source.describe_reading()
    assert train == (
        "train: folders: 8 text files in 2 folders, neg, pos; left out: "
        "labeledBow.feat, unsup (4 unlabelled files), urls_pos.txt"
    )
    assert test.endswith("neg, pos; left out: urls_neg.txt")
    assert others.startswith("README, imdb.vocab, imdbEr.txt: ")


def test_classes_at_the_top_are_split(tmp_path):
    source = write(
        tmp_path / "data", class_files("alt.atheism", "sci.med", count=10, suffix="")
    )
    data_set = look(source)
    assert data_set.needs_split
    assert data_set.task.classes == ["alt.atheism", "sci.med"]
    task = TASK.model_copy(update={"classes": ["alt.atheism", "sci.med"]})
    counts = examples_lib.prepare(str(source), str(tmp_path / "records"), task)
    assert sum(counts.values()) == 20
    ids = records.read(str(tmp_path / "records" / "train" / "*.gz"))
    assert len({row["idx"][0] for row in ids}) == counts["train"]


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("train", "test"),
        ("20news-bydate-train", "20news-bydate-test"),
        *(("train", name) for name in ("val", "valid", "validation", "dev", "eval")),
    ],
)
def test_names_of_splits(tmp_path, train, test):
    folders = [f"{split}/{name}" for split in (train, test) for name in ("neg", "pos")]
    expected = "test" if test.endswith("test") else "eval"
    texts = read(write(tmp_path / "data", class_files(*folders)))
    assert {split for split, _ in texts} == {"train", expected}


def test_files_have_any_or_no_extension_and_may_be_in_deeper_folders(tmp_path):
    deep = "/".join("d" * 150)
    names = ["1", "10001", "a.text", "b.html", "c.md", f"2020/{deep}/e.txt"]
    source = write(tmp_path / "data", [f"{c}/{n}" for c in ("a", "b") for n in names])
    (source / "a" / "f.txt.gz").write_bytes(gzip.compress(b"A packed text."))
    texts = read(source)
    assert len(texts[None, "a"]) == 7
    assert "A packed text." in texts[None, "a"]
    assert f"The text of b/2020/{deep}/e.txt." in texts[None, "b"]


def test_symbolic_links_are_followed_once(tmp_path, source):
    write(tmp_path / "elsewhere", ["x/1.txt", "y.txt"])
    (source / "pos" / "more").symlink_to(tmp_path / "elsewhere")
    (source / "neu").symlink_to(tmp_path / "elsewhere")
    (source / "pos" / "up").symlink_to("../..")
    (source / "pos" / "self").symlink_to(".")
    (source / "neg" / "loop").symlink_to("loop")
    rows = dict(find_source(str(source), DataConfig()).read(None))
    bad = {at.file: str(row) for at, row in rows.items() if not isinstance(row, dict)}
    assert len(rows) - len(bad) == 4 + 6 + 2
    assert [*bad] == [f"{source}/neg/loop"]


@pytest.mark.parametrize("content", ["", " \n"])
def test_empty_file_is_a_bad_row_that_is_named(tmp_path, content):
    folders = [f"{split}/{c}" for split in ("train", "eval") for c in ("neg", "pos")]
    source = write(tmp_path / "data", class_files(*folders))
    (source / "train" / "pos" / "2.txt").write_text(content)
    got = re.compile(r"train/pos/2\.txt:1: text is .*no visible")
    with refused("E-rows-refused", got=got):
        examples_lib.prepare(str(source), str(tmp_path / "records"), TASK)
    skipping = DataConfig(on_bad_rows="skip")
    target = str(tmp_path / "records")
    counts = examples_lib.prepare(str(source), target, TASK, settings=skipping)
    assert counts == {"train": 7, "eval": 8}
    (line,) = (tmp_path / "records" / "skipped.jsonl").read_text().splitlines()
    assert json.loads(line)["file"] == f"{source}/train/pos/2.txt"


def test_bytes_of_another_encoding_are_named_with_advice_from_all_files(source):
    (source / "neg" / "1.txt").write_text("Hello,\nUn café", encoding="cp1252")
    (source / "pos" / "3.txt").write_text("“Déjà vu”", encoding="cp1252")
    message = (
        r"2 of 8 rows are not utf-8.*neg/1\.txt:1: line 2, column 7: the byte 0xe9 "
        r"is not utf-8; set .*data\.encoding.*cp1252"
    )
    with pytest.raises(UsageError, match=message):
        look(source)
    texts = read(source, encoding="cp1252")
    assert texts[None, "neg"][1] == "Hello,\nUn café"
    assert texts[None, "pos"][3] == "“Déjà vu”"


def test_encoding_that_reads_all_bytes_is_the_last_advice(source):
    (source / "neg" / "1.txt").write_bytes(b"caf\xe9 \x81 \xff end")
    with pytest.raises(UsageError, match=r"latin-1"):
        look(source)
    assert len(read(source, encoding="latin-1")[None, "neg"]) == 4


def test_byte_order_mark_of_one_file_is_its_encoding(source):
    (source / "neg" / "1.txt").write_bytes("Grüße".encode("utf-16"))
    (source / "neg" / "2.txt").write_bytes("Grüße".encode("utf-8-sig"))
    assert read(source)[None, "neg"][1:3] == ["Grüße", "Grüße"]


@pytest.mark.parametrize(
    "content", [b"\0\x01", b"PK\x03\x04\0\0", "a".encode("utf-32-le")]
)
def test_binary_file_is_named(source, content):
    (source / "neg" / "1.txt").write_bytes(content)
    with pytest.raises(UsageError, match=r"neg/1\.txt:1: .*NUL"):
        look(source)


def test_huge_file_is_named(source):
    with (source / "neg" / "1.txt").open("wb") as file:
        file.truncate(1 << 25)
    rows = dict(find_source(str(source), DataConfig()).read(None))
    assert "each file is one text" in str(rows[f"{source}/neg/1.txt", 1])


ONLY = "E-data-not-found"


@pytest.mark.parametrize(
    ("folders", "name", "got"),
    [
        ("pos", ONLY, "text files in the folder pos only"),
        ("a/train/neg a/train/pos", ONLY, "in the folder a only"),
        ("train/pos test/pos", ONLY, "text files in the folder pos only"),
        ("train test", UNCLEAR, "test, train, which looks like a split"),
        (
            *("Train/neg Train/pos Test/neg Test/pos", UNCLEAR),
            "Test, Train, which looks like a split",
        ),
        (
            *("train/neg train/pos eval/neg dev/neg", UNCLEAR),
            "dev and eval, which are both the split eval",
        ),
        ("x.csv neg pos", UNCLEAR, "x.csv, and folders of text"),
        ("x.json train/n train/p", UNCLEAR, "x.json, and folders"),
    ],
)
def test_folders_that_are_no_classes_are_refused_by_name(tmp_path, folders, name, got):
    folders = folders.split()
    files = [folder for folder in folders if folder.startswith("x.")]
    files += class_files(*(folder for folder in folders if folder not in files))
    source = write(tmp_path / "data", files)
    is_in_train = folders[0].startswith("train/") and name == ONLY
    setting = f"{source}/train" if is_in_train else str(source)
    with refused(name, setting=setting, got=re.compile(f"^it has .*{got}")):
        look(source)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (class_files("test/neg", "test/pos"), r"has the splits test, but no train"),
        (["1.txt", "2.txt"], r"no files of text.*folder of text files for each class"),
        (["a/1.parquet", "b/2.parquet"], r"no files of text"),
    ],
)
def test_folders_without_classes_to_train_are_refused(tmp_path, names, message):
    with pytest.raises(UsageError, match=message):
        look(write(tmp_path / "data", names))


def test_tables_beside_and_in_the_folders_are_left_out_or_are_texts(tmp_path):
    names = ["info.json", "neg/index.csv", *class_files("neg", "pos")]
    source = write(tmp_path / "data", names)
    assert len(look(source, format="folders").source.files[None][0].classes["neg"]) == 5
    (source / "info.json").unlink()
    assert len(read(source)[None, "neg"]) == 4
    (line,) = look(source).source.describe_reading()
    assert "left out: 1 tables" in line


def test_class_may_have_the_name_of_a_split_or_of_a_column(tmp_path):
    source = write(tmp_path / "data", class_files("train", "bus", "label", "text"))
    assert look(source).task.classes == ["bus", "label", "text", "train"]


def test_empty_folder_is_no_class(source):
    (source / "neu" / "inner").mkdir(parents=True)
    data_set = look(source)
    assert data_set.task.classes == ["neg", "pos"]
    assert "neu (empty)" in data_set.source.describe_reading()[0]


def test_names_that_are_no_unicode(source):
    (source / "neg" / os.fsdecode(b"caf\xe9.txt")).write_text("A text.")
    locations = [str(at) for at, _ in find_source(str(source), DataConfig()).read(None)]
    assert f"{source}/neg/caf\\xe9.txt:1" in locations
    (source / os.fsdecode(b"caf\xe9")).mkdir()
    got = re.compile(r"caf\\xe9 has bytes")
    with refused("E-data-not-found", setting=str(source), got=got):
        look(source)


def test_fingerprint_has_the_classes_names_and_contents(source):
    def sha256():
        return find_source(str(source), DataConfig()).sha256

    hashes = [sha256(), sha256()]
    assert hashes[0] == hashes[1]
    # The files have the same names, contents and order.
    (source / "pos" / "0.txt").rename(source / "neg" / "4.txt")
    (source / "neg" / "4.txt").rename(source / "pos" / "0.txt")
    assert sha256() == hashes[0]
    (source / "neg" / "3.txt").rename(source / "pos" / "-3.txt")
    hashes.append(sha256())
    (source / "pos" / "-3.txt").rename(source / "neg" / "-3.txt")
    hashes.append(sha256())
    (source / "pos").rename(source / "good")
    hashes.append(sha256())
    (source / "good" / "1.txt").write_text("Another text.")
    hashes.append(sha256())
    assert len({*hashes}) == len(hashes) - 1


def test_run_reads_the_folders_again_only_if_they_changed(tmp_path):
    folders = [f"{split}/{c}" for split in ("train", "eval") for c in ("neg", "pos")]
    source = write(tmp_path / "data", class_files(*folders))

    def resolve():
        found = examples_lib.resolve_examples(
            str(source), TASK, lambda key: tmp_path / "examples" / key[:8]
        )
        return found.directory

    first = resolve()
    assert resolve() == first
    (source / "train" / "pos" / "3.txt").rename(source / "train" / "neg" / "9.txt")
    assert resolve() != first


def test_file_that_changes_while_it_is_read_is_refused(source):
    found = find_source(str(source), DataConfig())
    assert found.sha256
    (source / "pos" / "3.txt").write_text("Another text.")
    with refused("E-data-changed", setting=str(source), advice="run again"):
        list(found.read(None))


def test_folder_as_the_format_of_a_file_is_refused(tmp_path):
    write(tmp_path, {"rows.csv": "text,label\na b,c\n"})
    for name, got in (("rows.csv", "rows.csv is a file$"), ("", "no folder with text")):
        with refused("E-data-not-found", setting="data.format", got=re.compile(got)):
            look(tmp_path / name, format="folders")
