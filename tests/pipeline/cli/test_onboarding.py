"""`init` on files of a user's own."""

import csv
import json
import random
import re
import shutil

import pandas as pd
import pytest

from contracts import fingerprint
from ingest.examples import resolve_examples
from pipeline.config.recipe import load_config
from tests import opened_files, records
from tests.pipeline.cli.own_rows import make_rows, write, write_splits
from tests.refusals import check_command, refused

pytestmark = pytest.mark.slow

SPLITS = ("train", "eval", "test")


@pytest.fixture
def init(invoke, tmp_path):
    """Runs `init`; returns the result and the folder."""

    def init(data, *arguments):
        folder = tmp_path / "My project"
        return invoke("init", folder, "--data", data, *arguments), folder

    return init


@pytest.fixture
def project(init):
    """Runs `init`; returns the settings of the recipe, and the folder."""

    def project(data, *arguments):
        result, folder = init(data, *arguments)
        assert result.exit_code == 0, result.output
        return load_config(folder / "recipe.yaml"), folder

    return project


def read_split(folder, split):
    with open(folder / "data" / f"{split}.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_project_has_a_recipe_that_loads_the_splits_and_a_short_readme(init, tmp_path):
    path = write(tmp_path / "rows.csv", make_rows(600))
    with opened_files.counted() as opened:
        result, folder = init(path)
    assert opened["rows.csv"] == 1
    output = " ".join(result.output.split())
    assert "task.text_columns" in output
    assert "the only column of few values" in output
    assert "rows.csv: csv: comma" in output

    config = load_config(folder / "recipe.yaml")
    assert config.name == "my-project"
    assert config.task.text_columns == ["Nachricht"]
    assert config.task.classes == ["ham", "spam"]
    assert config.task.metric == "f1"
    assert config.data.source == str(folder / "data")
    assert config.evaluator.split == "test"
    assert config.evaluator.thresholds == {"accuracy": pytest.approx(0.78, abs=0.05)}
    assert config.preprocessing.max_seq_length == 16
    assert config.output == str(folder / "output")
    lines = (folder / "recipe.yaml").read_text().splitlines()
    settings = [n for n, line in enumerate(lines) if ": " in line and "#" not in line]
    assert [lines[n] for n in settings if "#" not in lines[n - 1]] == []  # explained

    splits = {split: read_split(folder, split) for split in SPLITS}
    assert sum(map(len, splits.values())) == 600
    assert 95 <= len(splits["test"]) <= 145
    assert 40 <= len(splits["eval"]) <= 80
    assert all({"ham", "spam"} == {r["Art"] for r in rows} for rows in splits.values())
    card = json.loads((folder / "data" / "data_card.json").read_text())
    assert card["fingerprint"] == fingerprint.of_files([path])
    readme = (folder / "README.md").read_text()
    assert len(readme.splitlines()) <= 10
    for command in ("run --config", "predict --model", "serve --model"):
        assert command in readme


def test_new_rows_of_a_file_move_no_other_row(invoke, tmp_path):
    split_of = []
    rows = make_rows(800)
    for number, part in enumerate((rows[:700], rows[::-1])):
        path = write(tmp_path / f"rows{number}.csv", part)
        folder = tmp_path / f"project{number}"
        result = invoke("init", folder, "--data", path)
        assert result.exit_code == 0, result.output
        split_of.append(
            {r["Nachricht"]: s for s in SPLITS for r in read_split(folder, s)}
        )
    before, after = split_of
    assert len(before) < len(after)
    assert {text: after[text] for text in before} == before


def test_columns_get_usable_names_and_rows_the_ids_of_their_lines(project, tmp_path):
    rows = make_rows(600)
    rows[0]["Nachricht"] += "\nA second line."
    for row in rows:
        row["Was sie schrieben?"] = row.pop("Nachricht")
    config, folder = project(write(tmp_path / "rows.csv", rows))
    column = "Was_sie_schrieben"  # an input of the exported model can have it
    assert config.task.text_columns == [column]
    written = [row for split in SPLITS for row in read_split(folder, split)]
    lines = {int(row["idx"]): row[column] for row in written}
    assert lines[2] == rows[0]["Was sie schrieben?"]
    assert lines[4] == rows[1]["Was sie schrieben?"]
    assert len(lines) == 600


def test_choices_overrule_the_guesses(project, tmp_path):
    rows = [{**row, "score": n / 600} for n, row in enumerate(make_rows(600))]
    config, folder = project(
        write(tmp_path / "rows.csv", rows),
        *("--label", "score", "--group", "Autor", "--test-size", "0.5"),
        *("--set", "trainer.epochs=7", "--set", "data.license=CC0-1.0"),
    )
    assert config.task.label_range == [0.0, 1.0]
    assert config.trainer.epochs == 7
    assert config.data.license == "CC0-1.0"
    train, evaluated = (
        {row["Nachricht"] for row in read_split(folder, split)}
        for split in ("train", "test")
    )
    assert 230 <= len(evaluated) <= 370
    authors = {row["Nachricht"]: row["Autor"] for row in rows}
    assert not {authors[t] for t in train} & {authors[t] for t in evaluated}
    card = json.loads((folder / "data" / "data_card.json").read_text())
    assert card["splitting"] == {
        "test_size": 0.5,
        "eval_size": 0.1,
        "group_column": "Autor",
        "split_seed": 0,
    }


def test_policy_of_the_project_applies_to_the_guess(init, project, tmp_path):
    path = write(tmp_path / "rows.csv", make_rows(600))
    policy = tmp_path / "pipeline-policy.yaml"
    policy.write_text("forbidden_columns: [nach*]\n")
    result, folder = init(path)
    check_command(result, "E-policy-refused", "Nachricht", str(policy))
    assert not folder.exists()
    policy.write_text("forbidden_columns: [Autor]\n")
    _, folder = project(path)
    assert str(policy) in (folder / "README.md").read_text()
    with refused("E-policy-refused"):
        load_config(folder / "recipe.yaml", {"task.text_columns": ["Autor"]})


def test_encoding_applies_to_the_file_and_not_to_the_splits(init, project, tmp_path):
    rows = [{**row, "Art": f"für {row['Art']}"} for row in make_rows(600)]
    path = write(tmp_path / "rows.csv", rows, encoding="cp1252", sep=";")
    result, folder = init(path)
    check_command(result, "E-file-damaged", "0xfc", "--set data.encoding=cp1252")
    assert not folder.exists()
    config, folder = project(path, "--set", "data.encoding=cp1252")
    assert config.data.encoding == "utf-8"
    assert config.task.classes == ["für ham", "für spam"]
    assert {row["Art"] for row in read_split(folder, "eval")} == {*config.task.classes}


def test_bad_rows_are_refused_or_skipped_into_a_file(init, project, tmp_path):
    rows = [*make_rows(600), {"Nachricht": " ", "Art": "ham"}]
    path = write(tmp_path / "rows.csv", rows)
    result, folder = init(path)
    check_command(result, "E-data-refused", "--set data.on_bad_rows=skip")
    assert "refused: bad row" in result.stdout
    assert "rows.csv:602: Nachricht is ' '" in result.stdout
    assert not folder.exists()
    config, folder = project(path, "--set", "data.on_bad_rows=skip")
    (line,) = (folder / "skipped.jsonl").read_text().splitlines()
    assert json.loads(line)["row"] == 602
    assert config.data.on_bad_rows == "refuse"


def test_splits_of_a_directory_stay_where_they_are(project, tmp_path):
    rows = make_rows(900)
    data = write_splits(tmp_path / "data", train=rows[:600], dev=rows[600:])
    config, folder = project(data)
    assert config.data.source == str(data)
    assert not (folder / "data").exists()
    # A run halves `dev`, which is large enough, by the same rule.
    assert config.evaluator.split == "test"
    assert (
        "rows: half of eval, whose other half" in (folder / "recipe.yaml").read_text()
    )
    examples = resolve_examples(
        str(data),
        config.task,
        lambda key: tmp_path / "examples",
        halving=config.halving,
    )
    assert sorted(examples.patterns) == ["eval", "test", "train"]


@pytest.mark.parametrize(("count", "is_rare"), [(120, False), (560, True)])
def test_eval_whose_half_is_too_small_for_the_metric_also_tests(
    project, tmp_path, count, is_rare
):
    rows = make_rows(600 + count)
    for n, row in enumerate(rows):
        row["Art"] = "spam" if n % 4 == 0 else "ham"
    data = write_splits(tmp_path / "data", train=rows[:600], dev=rows[600:])
    config, folder = project(data)
    assert config.evaluator.split == "eval"
    recipe = (folder / "recipe.yaml").read_text()
    assert ("120 rows, which also choose" in recipe) != is_rare


def test_eval_is_split_from_train_and_the_gate_takes_the_test_split(project, tmp_path):
    rows = make_rows(900)
    data = write_splits(tmp_path / "data", train=rows[:600], test=rows[600:])
    config, folder = project(data)
    assert config.evaluator.split == "test"
    counts = [len(read_split(folder, split)) for split in ("train", "eval", "test")]
    assert sum(counts) == 900
    assert 40 <= counts[1] <= 80
    assert counts[2] == 300


def test_rare_class_is_weighed(project, tmp_path):
    rows = [{**row, "Art": "ham"} for row in make_rows(6000)]
    for row in rows[::16]:
        row["Art"] = "spam"
    config, _ = project(write(tmp_path / "rows.csv", rows))
    assert config.trainer.class_weights == "auto"


@pytest.mark.parametrize(
    ("metric", "thresholds"),
    [
        ("f1/ham", {"f1/ham": pytest.approx(0.87, abs=0.03)}),
        # A model that always predicts one class has the best recall.
        ("recall/ham", {"accuracy": pytest.approx(0.78, abs=0.05)}),
    ],
)
def test_any_metric_of_the_task_may_be_chosen(project, tmp_path, metric, thresholds):
    path = write(tmp_path / "rows.csv", make_rows(600))
    config, _ = project(
        path, "--set", f"task.metric={metric}", "--set", "data_gate.max_interval=0.2"
    )
    assert config.task.metric == metric
    assert config.evaluator.thresholds == thresholds


@pytest.mark.parametrize("odd", ["\n\x92\u2028: # ", "\x00"])
def test_recipe_of_any_names_is_read_back(project, tmp_path, odd):
    rows = [
        {f"What{odd}they wrote": row["Nachricht"], f"a{odd}b": f"{row['Art']}{odd}c"}
        for row in make_rows(600)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config, _ = project(path)
    assert config.task.label_column == f"a{odd}b"
    assert config.task.classes == [f"ham{odd}c", f"spam{odd}c"]


def test_weights_of_rows_are_written_and_used(project, tmp_path):
    rows = [{**row, "Gewicht": 1 + n % 3} for n, row in enumerate(make_rows(600))]
    path = write(tmp_path / "rows.csv", rows)
    choices = ("--label", "Art", "--set", "task.weight_column=Gewicht")
    config, folder = project(path, *choices)
    assert config.task.weight_column == "Gewicht"
    weights = {float(row["Gewicht"]) for row in read_split(folder, "train")}
    assert weights == {1, 2, 3}


def test_columns_to_slice_by_are_written_and_neither_text_nor_label(
    init, project, tmp_path
):
    lands = ("at", "de", None)
    rows = [{**row, "Land": lands[n % 3]} for n, row in enumerate(make_rows(600))]
    path = write(tmp_path / "rows.csv", rows)
    result, _ = init(path, "--set", "data.slice_columns=[Region]")
    check_command(result, "E-column-missing", "data.slice_columns", "Region")
    config, folder = project(path, "--set", "data.slice_columns=[Land]")
    assert config.data.slice_columns == ["Land"]
    assert config.task.label_column == "Art"
    assert {row["Land"] for row in read_split(folder, "eval")} == {"at", "de", ""}


def test_stars_that_pandas_made_floats_are_the_same_classes(project, tmp_path):
    stars = [n % 5 + 1 for n in range(600)]
    frame = pd.DataFrame(make_rows(600)).assign(stars=[*stars[:-1], None])
    frame[["Nachricht", "stars"]].to_parquet(tmp_path / "rows.parquet")
    choices = ("--kind", "classes", "--set", "data.on_bad_rows=skip")
    _, folder = project(tmp_path / "rows.parquet", *choices)
    expected = dict(zip(frame["Nachricht"], stars, strict=True))
    for row in (*read_split(folder, "train"), *read_split(folder, "eval")):
        assert row["stars"] == str(expected[row["Nachricht"]])
    (skipped,) = (folder / "skipped.jsonl").read_text().splitlines()
    assert json.loads(skipped)["row"] == 600


def test_ids_of_shards_differ(init, tmp_path):
    rows = make_rows(800)
    for part in range(2):
        write(tmp_path / "data" / f"part-{part}.csv", rows[part::2])
    _, folder = init(tmp_path / "data", "--label", "Art")
    for split in ("train", "eval"):
        ids = [row["idx"] for row in read_split(folder, split)]
        assert len({*ids}) == len(ids)


@pytest.mark.parametrize("splits", [("train", "val"), ("train", "test")])
def test_groups_of_splits_are_checked(init, project, tmp_path, splits):
    rows = make_rows(900)  # four of each author
    first, second = splits
    data = write_splits(tmp_path / "data", **{first: rows[:602], second: rows[602:]})
    result, folder = init(data, "--group", "Autor")
    check_command(result, "E-groups-across-splits", "'a150'")
    assert not folder.exists()
    write_splits(data, **{second: rows[604:]})
    config, _ = project(data, "--group", "Autor")
    # The splits that `init` wrote have only the columns of the task.
    assert config.data.group_column == ("Autor" if second == "val" else None)


def test_few_rows_get_a_larger_share_in_test(project, tmp_path):
    _, folder = project(write(tmp_path / "rows.csv", make_rows(300)))
    assert 95 <= len(read_split(folder, "test")) <= 145
    reason = "40% of the rows are in test, 10% of the rows are in eval"
    assert reason in " ".join((folder / "recipe.yaml").read_text().split())


def test_length_of_texts_in_windows_is_not_limited_by_the_encoder(init, tmp_path):
    rows = make_rows(600)
    for row in rows[:300]:
        row["Nachricht"] += " cat" * 90
    path = write(tmp_path / "rows.csv", rows)
    _, folder = init(path)
    recipe = (folder / "recipe.yaml").read_text()
    limit = r"the encoder's limit; (49|50|51)% of the rows are cut; with preprocessing."
    assert re.search(limit, recipe)
    shutil.rmtree(folder)
    init(path, "--set=preprocessing.long_text.window=16")
    config = load_config(folder / "recipe.yaml")
    assert config.preprocessing.long_text.window == 16
    assert config.preprocessing.max_seq_length == 104
    recipe = (folder / "recipe.yaml").read_text()
    assert "cuts at most one row in 200; the longest has" in recipe


ROWS = make_rows(600)
TEXT_AND_LABEL = ("--text", "Nachricht", "--label", "Art")


@pytest.mark.parametrize(
    ("rows", "arguments", "name", "part"),
    [
        (
            ROWS[:40],
            TEXT_AND_LABEL,
            "E-data-refused",
            "too small for evaluator.thresholds",
        ),
        (
            ROWS[:60],
            ("--label", "Art"),
            "E-data-refused",
            "--set data_gate.max_interval=0.2",
        ),
        (
            [{**row, "Art": label} for row in ROWS for label in ("ham", "spam")],
            TEXT_AND_LABEL,
            "E-data-refused",
            "have the same texts as another row but a different label",
        ),
        (
            ROWS,
            ("--set", "task.classes=[ham, spam, eggs]"),
            "E-data-refused",
            "refused: train: it has no row of `eggs`",
        ),
        (
            [{**row, "Nachricht": "The same text."} for row in ROWS],
            TEXT_AND_LABEL,
            "E-class-too-small",
            "ham, spam",
        ),
    ],
)
def test_data_that_a_run_would_refuse_are_refused(
    init, tmp_path, rows, arguments, name, part
):
    result, folder = init(write(tmp_path / "rows.csv", rows), *arguments)
    check_command(result, name)
    assert part in result.output
    assert "on_bad_rows" not in result.output
    assert not folder.exists()


def test_eval_of_one_class_is_refused_with_the_class_to_add(init, tmp_path):
    rows = make_rows(900)
    ham = [row for row in rows[600:] if row["Art"] == "ham"]
    result, _ = init(write_splits(tmp_path / "data", train=rows[:600], eval=ham))
    check_command(result, "E-data-refused")
    assert "refused: eval: all 225 rows have the class `ham`" in result.stdout
    assert "evaluator.thresholds:" not in result.stdout


@pytest.mark.parametrize(
    ("settings", "name", "parts"),
    [
        ("evaluator.split=train", "E-settings-refused", ["evaluator.split"]),
        (
            "evaluator.split=test_mismatched",
            "E-settings-refused",
            ["evaluator.split", "'test_mismatched'", "eval, test, train"],
        ),
        (
            "data.test_size=0.5 data.eval_size=0.5",
            "E-settings-refused",
            ["test_size", "eval_size", "0.5"],
        ),
        ("task.label_column=Art", "E-options-conflict", ["--label"]),
        ("task.text_columns=[Art]", "E-options-conflict", ["--text"]),
        ("task.metric=mse", "E-settings-refused", ["metric", "'mse'"]),
        (
            "preprocessing.max_seq_length=65",
            "E-settings-refused",
            ["preprocessing.max_seq_length", "65", "8 to 64"],
        ),
        ("trainer.epoch=2", "E-settings-refused", ["trainer.epoch", "epochs"]),
    ],
)
def test_setting_that_does_not_fit_is_refused(init, tmp_path, settings, name, parts):
    overrides = (f"--set={setting}" for setting in settings.split())
    result, folder = init(write(tmp_path / "rows.csv", ROWS), *overrides)
    check_command(result, name, *parts)
    assert "recipe.yaml" not in result.output
    assert not folder.exists()


@pytest.mark.parametrize(
    ("splits", "name", "part"),
    [
        (("imdb_train", "imdb_test"), "E-split-unclear", "imdb_test.csv"),
        (("train", "val"), "E-options-conflict", "--test-size: "),
        (("train", "test"), "E-options-conflict", "--test-size: "),
    ],
)
def test_splits_that_are_unclear_or_not_to_be_split_are_refused(
    init, tmp_path, splits, name, part
):
    data = write_splits(tmp_path / "data", **dict.fromkeys(splits, ROWS))
    check_command(init(data, "--test-size", "0.3")[0], name, part)


def test_file_without_rows_and_spreadsheet_are_refused(init, tmp_path):
    (tmp_path / "rows.csv").write_text("text,label\n")
    check_command(init(tmp_path / "rows.csv")[0], "E-split-missing", "rows.csv")
    (tmp_path / "rows.xlsx").touch()
    check_command(init(tmp_path / "rows.xlsx")[0], "E-format-unknown", "rows.xlsx")


def test_folder_that_cannot_be_written_is_refused_before_the_rows_are_read(
    init, invoke, tmp_path
):
    (tmp_path / "My project").touch()
    check_command(init(tmp_path / "absent")[0], "E-destination-exists", "My project")
    folder = tmp_path / "My project" / "below"
    result = invoke("init", folder, "--data", tmp_path / "absent")
    check_command(result, "E-storage-failed", f"{folder}", "Not a directory")


def test_bytes_of_another_encoding_are_named_before_any_guess(init, tmp_path):
    for row in (rows := make_rows(600))[:400]:
        row["Nachricht"] += " für"
    result, _ = init(write(tmp_path / "rows.csv", rows, encoding="cp1252"))
    check_command(result, "E-file-damaged", "400 of 600", "--set data.encoding=cp1252")
    assert "task.text_columns" not in result.output


EMOTIONS = {"joy": "smiles", "love": "hugs", "anger": "shouts"}


def emotional_rows(count, suffix=""):
    """Returns rows of a text with a word of each of its labels, and the labels."""
    chance = random.Random(0)
    rows = []
    for number in range(count):
        labels = [name for name in EMOTIONS if chance.random() < 0.4]
        words = [EMOTIONS[name] for name in labels if chance.random() < 0.8]
        text = f"The cat number {number} sees a tree and {' '.join(words)}."
        rows.append((text, [name + suffix for name in labels]))
    return rows


@pytest.mark.parametrize(
    ("form", "suffix"),
    [
        ("columns", "|a"),
        ("lists", "|a, b"),
        ("texts", "|a, b"),
        ("texts", " # a"),
    ],
)
def test_project_of_several_labels_trains_on_what_the_file_has(
    init, tmp_path, form, suffix
):
    rows = emotional_rows(400, suffix)
    names = [name + suffix for name in EMOTIONS]
    if form == "columns":
        table = [
            {"comment": text, **{name: int(name in labels) for name in names}}
            for text, labels in rows
        ]
        source = write(tmp_path / "rows.csv", table)
    elif form == "texts":  # as pandas writes lists
        table = [{"comment": text, "mood": str(labels)} for text, labels in rows]
        source = write(tmp_path / "rows.csv", table)
    else:
        source = tmp_path / "rows.jsonl"
        lines = (json.dumps({"comment": text, "mood": labels}) for text, labels in rows)
        source.write_text("\n".join(lines))
    result, folder = init(source)
    assert result.exit_code == 0, result.output
    config = load_config(folder / "recipe.yaml")
    assert config.task.kind == "multilabel"
    assert sorted(config.task.classes) == sorted(names)
    assert config.task.metric == "micro_f1"
    assert config.evaluator.thresholds["micro_f1"] == pytest.approx(0.6, abs=0.1)
    assert "class joy" in result.output
    examples = resolve_examples(
        str(folder / "data"), config.task, lambda key: tmp_path / "examples"
    )
    written = {}
    for split in SPLITS:
        for row in records.read(f"{examples.directory}/{split}/*.gz"):
            names = zip(config.task.classes, row[config.task.label_column], strict=True)
            text = row["comment"][0].decode()
            written[text] = {name for name, is_set in names if is_set}
    assert written == {text: set(labels) for text, labels in rows}


def test_rare_label_of_several_is_not_weighed_and_all_share_a_threshold(
    project, tmp_path
):
    table = [
        {"comment": text, "mood": "|".join([*labels, *["grief"] * (n % 40 == 0)])}
        for n, (text, labels) in enumerate(emotional_rows(1000))
    ]
    config, _ = project(write(tmp_path / "rows.csv", table))
    assert "grief" in config.task.classes
    assert config.trainer.class_weights is None
    assert config.task.decision.maximize == "micro_f1"


def test_folders_of_classes_lead_to_a_recipe_that_reads_them(init, tmp_path):
    for split, count in (("train", 300), ("test", 120)):
        for number, row in enumerate(make_rows(count, seed=count)):
            path = tmp_path / "aclImdb" / split / row["Art"] / f"{number}_7.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(row["Nachricht"])
    (tmp_path / "aclImdb" / "train" / "unsup").mkdir()
    (tmp_path / "aclImdb" / "train" / "unsup" / "0_0.txt").write_text("A text.")
    result, folder = init(tmp_path / "aclImdb")
    assert result.exit_code == 0, result.output
    assert "unsup (1 unlabelled file)" in result.stderr
    config = load_config(folder / "recipe.yaml")
    assert config.task.classes == ["ham", "spam"]
    assert config.evaluator.split == "test"
    sizes = {s: read_split(folder, s) for s in ("train", "eval", "test")}
    assert len(sizes["train"]) + len(sizes["eval"]) == 300
    assert len(sizes["test"]) == 120
    assert len({row["idx"] for row in sizes["train"]}) == len(sizes["train"])


@pytest.mark.parametrize("has_splits", [True, False])
def test_files_without_a_header_get_the_names_of_the_option(
    project, tmp_path, has_splits
):
    rows = [[row["Nachricht"], row["Art"]] for row in make_rows(800)]
    for split in ("train", "eval") if has_splits else ("rows",):
        write(tmp_path / "data" / f"{split}.csv", rows, header=False)
    config, _ = project(tmp_path / "data", "--columns", "text, label")
    # The splits that `init` writes have a header.
    assert config.data.columns == (["text", "label"] if has_splits else None)
    examples = resolve_examples(
        config.data_source, config.task, lambda key: tmp_path / key, print, config.data
    )
    counts = {name: split.rows for name, split in examples.card.splits.items()}
    if has_splits:
        assert counts == {"train": 800, "eval": 800}
    else:
        assert sum(counts.values()) == 800
