"""`inspect-data` on files of a user's own."""

import json
import re

import pytest
import yaml

from modules.data import judgment
from modules.data.profile import Profile
from tests import records, tiny
from tests.pipeline.cli.own_rows import make_rows, write, write_splits
from tests.refusals import check_command

pytestmark = pytest.mark.slow


def inspect(invoke, *arguments):
    """Returns exit status and JSON of `inspect-data`."""
    result = invoke("inspect-data", *arguments, "--json")
    return result.exit_code, json.loads(result.stdout)


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "tiny").mkdir()
    return tiny.write_config(tmp_path / "tiny" / "recipe.yaml")


def test_inspection_counts_what_a_user_looks_for(invoke, tmp_path):
    rows = make_rows(600)
    rows[10]["Nachricht"] = rows[11]["Nachricht"]  # both ham
    rows[20]["Nachricht"] = rows[21]["Nachricht"]  # spam and ham
    rows[30]["Nachricht"] = "ok"
    rows[40]["Nachricht"] += " " + " ".join(["cat"] * 60)
    rows[50]["Nachricht"] += " caf\u00c3\u00a9"
    rows[60]["Nachricht"] += "<br>"
    status, inspected = inspect(invoke, write(tmp_path / "rows.csv", rows))
    assert status == 0
    splits = inspected["splits"].values()
    assert sum(split["rows"] for split in splits) == 600
    assert sum(split["labels"]["spam"] for split in splits) == 150
    assert sum(split["duplicates"] for split in splits) == 2
    assert sum(split["near_empty"] for split in splits) == 1
    assert sum(split["cut"] for split in splits) == 1
    assert any("rows.csv:42: " in split["longest"] for split in splits)
    assert any("rows.csv:32: ok" in split["shortest"] for split in splits)
    assert inspected["contradictions"] == 2
    assert {column["name"]: column["filled"] for column in inspected["columns"]} == (
        dict.fromkeys(("Nachricht", "Art", "Autor"), 600)
    )
    assert inspected["odd"] == {"HTML": 1, "UTF-8 that was read as another encoding": 1}
    assert inspected["guessed"]["task"]["classes"] == ["ham", "spam"]
    assert sum(count for _, count in inspected["histogram"]) == 600
    assert inspected["refused"] == []


def test_rows_in_two_splits_are_counted_and_named(invoke, tmp_path, monkeypatch):
    judge, count, calls = judgment.judge, Profile.of, []
    monkeypatch.setattr(judgment, "judge", lambda *a: calls.append("all") or judge(*a))
    monkeypatch.setattr(Profile, "of", lambda *a: calls.append("split") or count(*a))
    rows = make_rows(900)
    data = write_splits(
        tmp_path / "data", train=rows[:600], eval=[*rows[600:], rows[7]]
    )
    status, inspected = inspect(invoke, data)
    assert status == 0
    # `eval` is halved, as in a run.
    assert sum(inspected["splits"][s]["rows"] for s in ("eval", "test")) == 301
    assert inspected["shared"] in ({"eval, train": 1}, {"test, train": 1})
    (warning,) = inspected["warnings"]
    assert "eval.csv:302 and" in warning
    assert "train.csv:9" in warning
    assert sorted(calls) == ["all", "split", "split", "split"]  # each judged once


def test_inspection_of_a_recipe_takes_its_task_and_limits(invoke, recipe):
    status, inspected = inspect(invoke, "--config", recipe)
    assert status == 0
    assert {s: split["rows"] for s, split in inspected["splits"].items()} == {
        "train": 48,
        "eval": 48,
        "test": 48,
    }
    settings = yaml.safe_load(recipe.read_text())
    settings["evaluator"]["thresholds"] = {"accuracy": 0.5}
    recipe.write_text(yaml.safe_dump(settings))
    status, inspected = inspect(invoke, "--config", recipe)
    assert status == 2
    assert "too small for evaluator.thresholds accuracy 0.5" in inspected["refused"][0]


def test_slices_that_a_run_would_refuse_are_refused(invoke, tmp_path):
    rows = [{**row, "Kunde": f"K{n}"} for n, row in enumerate(make_rows(600))]
    path = write(tmp_path / "rows.csv", rows)
    slices = ("--set", "data.slice_columns=[Kunde]")
    status, inspected = inspect(invoke, path, *slices)
    assert status == 2
    (refused,) = inspected["refused"]
    assert refused.startswith("test: Kunde has more than 50 values, such as 'K")
    rows = [{**row, "Kunde": "AB"[n % 2]} for n, row in enumerate(rows)]
    status, inspected = inspect(invoke, write(path, rows), *slices)
    assert (status, inspected["refused"]) == (0, [])


def test_required_row_that_is_in_train_is_a_warning(invoke, tmp_path, recipe):
    _, row, *_ = (tmp_path / "tiny" / "data" / "train.tsv").read_text().splitlines()
    _, _, first, second = row.split("\t")
    required = tmp_path / "tiny" / "must_pass.tsv"
    text = f"sentence1\tsentence2\tlabel\n{first.upper()}\t{second}\t1\n"
    required.write_text(text)
    setting = f"--set=checks.required_rows.file={required}"
    _, inspected = inspect(invoke, "--config", recipe, setting)
    (warning,) = [w for w in inspected["warnings"] if "required_rows" in w]
    assert warning.startswith("train: it has 1 row of checks.required_rows.file")
    assert not (tmp_path / "tiny" / "output").exists()


def test_word_that_is_the_label_is_refused(invoke, tmp_path):
    rows = make_rows(600)
    for row in rows:
        row["Nachricht"] = f"{row['Art']} {row['Nachricht']}"
    _, inspected = inspect(invoke, write(tmp_path / "rows.csv", rows))
    (message,) = inspected["refused"]
    assert re.match(r"train: 'ham' is in (\d+) of \1 rows of the class `ham`", message)


@pytest.mark.parametrize(
    "setting",
    [
        "evaluator.split=test_mismatched",
        "data.on_bad_rows=skip",
        "data.group_column=author",
    ],
)
def test_setting_that_the_data_do_not_fit_is_refused(invoke, tmp_path, recipe, setting):
    data = []
    if setting.startswith("data."):  # settings of text
        for split in ("train", "eval"):
            records.write(tmp_path / "data" / f"{split}.tfrecord", [])
        data = [tmp_path / "data"]
    result = invoke("inspect-data", *data, "--config", recipe, "--set", setting)
    key, value = setting.split("=")
    check_command(result, "E-settings-refused", key, value)


def test_inspection_reads_in_a_terminal_and_writes_nothing(invoke, tmp_path):
    rows = make_rows(600)
    rows[98]["Nachricht"] = "ok"
    path = write(tmp_path / "[v1]" / "row100.csv", rows)
    before = sorted(tmp_path.rglob("*"))
    result = invoke("inspect-data", path)
    assert result.exit_code == 0, result.output
    row = "[v1]/row100.csv:100: ok"  # no markup, and no emoji
    for text in ("good rows", "test", "class spam", "tokens, median", "█", row):
        assert text in result.output
    assert sorted(tmp_path.rglob("*")) == before


def test_texts_that_the_encoder_cannot_read_are_a_warning(invoke, tmp_path):
    rows = make_rows(600)
    for n, row in enumerate(rows):
        row["Nachricht"] = f"кот видит дом {n}."
    path = write(tmp_path / "rows.csv", rows)
    status, inspected = inspect(invoke, path)
    assert status == 0
    for split, facts in inspected["splits"].items():
        assert facts["unknown_share"] == 0.8  # all but the full stop
        assert facts["tokens_per_word"] == 1.0
        (warning,) = [line for line in inspected["warnings"] if line.startswith(split)]
        assert f"the encoder can hardly read {facts['rows']} of" in warning
    for command in (["inspect-data", path], ["init", tmp_path / "own", "--data", path]):
        output = invoke(*command).output
        for text in ("unknown tokens", "80.0%", "tokens per word", "hardly read"):
            assert text in output


def test_rows_in_any_two_splits_are_counted(invoke, tmp_path):
    rows = make_rows(1500)
    data = write_splits(
        tmp_path / "data",
        train=rows[:600],
        eval=[*rows[600:900], *rows[:3]],
        test=[*rows[900:], rows[700]],
    )
    _, inspected = inspect(invoke, data)
    assert inspected["shared"] == {"eval, train": 3, "test, eval": 1}
