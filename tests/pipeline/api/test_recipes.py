"""Recipes from a user's own data, which come as a DataFrame."""

import decimal
import json
import re
import uuid

import numpy as np
import pandas as pd
import pytest

from ingest.examples.data_card import CARD_FILE
from pipeline import DataRefusedError, Recipe, inspect
from tests import tiny
from tests.refusals import refused

ROWS = 240
SPLITS = ("train", "eval", "test")
SETTINGS = {"data_gate.max_interval": 0.9}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny.write_encoder(tmp_path_factory.mktemp("source") / "encoder")


def reviews(label, **columns):
    """Returns reviews whose index is not the number of the row."""
    texts = [
        f'The "naïve" cat sees <b>\r\nthe big tree 雪 number {row}.'
        for row in range(ROWS)
    ]
    frame = pd.DataFrame({"review": texts, "stars": label, **columns})
    return frame.set_index(pd.RangeIndex(5000, 5000 + ROWS))


def test_frame_becomes_a_project_that_keeps_its_rows(tmp_path, encoder):
    frame = reviews(pd.Categorical(["<i>good", "bad", "<i>good"] * (ROWS // 3)))
    folder = tmp_path / "project"
    recipe = Recipe.from_data(frame, folder, encoder=encoder, settings=SETTINGS)

    assert recipe.settings.task.text_columns == ["review"]
    assert recipe.settings.task.classes == ["bad", "<i>good"]
    assert {"review", "stars"} <= {c.name for c in recipe.inspection.details.columns}
    guesses = {key: value for key, value, _ in recipe.inspection.guesses}
    assert guesses["task.label_column"] == '"stars"'
    splits = [pd.read_csv(folder / "data" / f"{s}.csv") for s in SPLITS]
    rows = pd.concat(splits).sort_values("idx")
    assert rows["stars"].tolist() == frame["stars"].tolist()
    # pandas reads a line break in any form as it is.
    written = [text.replace("\r\n", "\n") for text in rows["review"]]
    assert written == [text.replace("\r\n", "\n") for text in frame["review"]]
    assert "a pandas.DataFrame" in (folder / "data" / CARD_FILE).read_text()
    assert "a pandas.DataFrame" in recipe.path.read_text()
    html = recipe._repr_html_()
    assert "&lt;i&gt;good" in html
    assert "<i>good" not in html


@pytest.mark.parametrize(
    ("label", "classes"),
    [
        ([float(row % 2) if row % 9 else np.nan for row in range(ROWS)], ["0", "1"]),
        (
            pd.array([row % 2 if row % 9 else None for row in range(ROWS)], "Int64"),
            ["0", "1"],
        ),
        ([bool(row % 2) for row in range(ROWS)], ["false", "true"]),
        (
            pd.array([bool(row % 2) if row % 9 else None for row in range(ROWS)]),
            ["false", "true"],
        ),
        (pd.array(["no", "yes"] * (ROWS // 2), "string[pyarrow]"), ["no", "yes"]),
        (pd.Categorical([0, 1] * (ROWS // 2)), ["0", "1"]),
        (pd.Categorical([False, True] * (ROWS // 2)), ["false", "true"]),
        ([decimal.Decimal(row % 2) for row in range(ROWS)], ["0", "1"]),
        (np.arange(ROWS, dtype=np.float16) % 2, ["0", "1"]),
    ],
    ids=[
        *("floats with NaN", "nullable integers", "booleans", "nullable booleans"),
        *("strings of pyarrow", "categories of integers", "categories of booleans"),
        *("decimals", "half precision"),
    ],
)
def test_labels_of_every_dtype_are_read(label, classes, encoder):
    found = inspect(
        reviews(label),
        encoder=encoder,
        settings={**SETTINGS, "data.on_bad_rows": "skip"},
    )
    assert list(found.details.splits["train"].labels) == classes
    assert not found.refused


@pytest.mark.parametrize(
    ("container", "names"),
    [
        *((container, ["toxic", "rude"]) for container in (list, set, np.array)),
        *((container, [7, 3]) for container in (tuple, frozenset, str)),
    ],
)
def test_lists_of_labels_are_any_number_of_labels(encoder, container, names):
    label = [container(names[: row % 3]) for row in range(ROWS)]
    found = inspect(reviews(label), encoder=encoder, settings=SETTINGS)
    expected = sorted(map(str, names))
    assert list(found.details.splits["train"].labels) == expected
    assert found.details.splits["train"].unlabelled


LEVELS = pd.MultiIndex.from_tuples([("a", "b")])


@pytest.mark.parametrize(
    ("frame", "name", "got"),
    [
        (pd.DataFrame([["a", "b"]]), "E-frame-refused", "name 0 of a column"),
        (pd.DataFrame([["a", "b"]], columns=["x", "x"]), "E-frame-refused", "'x'"),
        (pd.DataFrame([["a"]], columns=LEVELS), "E-frame-refused", "2 levels"),
        (pd.DataFrame({"cut \ud83d": ["a"]}), "E-frame-refused", r"'cut \ud83d'"),
        (pd.DataFrame({"text": []}), "E-frame-refused", "0 rows"),
        (
            pd.DataFrame({"text": ["a", "b"], "label": [1, "one"]}),
            "E-prediction-columns",
            "'label'",
        ),
        ([{"text": "a"}], "E-frame-refused", "list"),
    ],
)
def test_frame_that_no_file_can_hold_is_refused(frame, name, got, tmp_path):
    with refused(name, setting="data", got=re.compile(re.escape(got))):
        Recipe.from_data(frame, tmp_path / "project")
    assert not (tmp_path / "project").exists()


ODD = {
    "bins": lambda: pd.cut(range(ROWS), 4),
    "empty objects": lambda: [{}] * ROWS,
    "uuids": lambda: [uuid.UUID(int=row) for row in range(ROWS)],
    "mixed": lambda: [1, "one"] * (ROWS // 2),
    "complex": lambda: np.arange(ROWS) * 1j,
    "matrices": lambda: [np.eye(3)] * ROWS,
    "objects": lambda: [object()] * ROWS,
    "periods": lambda: pd.period_range("2020-01", periods=ROWS, freq="D"),
    "surrogates": lambda: ["cut \ud83d"] * ROWS,
    "functions": lambda: [len] * ROWS,
}


def test_columns_that_are_not_used_need_not_be_storable(encoder, tmp_path):
    plain = reviews(["good", "bad"] * (ROWS // 2))
    frame = plain.assign(**{name: make() for name, make in ODD.items()})
    frame["money"] = [decimal.Decimal("1.50")] * ROWS
    frame["when"] = pd.Timestamp("2026-01-02", tz="UTC")
    found = [
        inspect(each, encoder=encoder, settings=SETTINGS) for each in (plain, frame)
    ]
    task = {key: value for key, value, _ in found[1].guesses if "task." in key}
    assert task == {key: value for key, value, _ in found[0].guesses if "task." in key}
    assert found[1].details.splits == found[0].details.splits
    recipe = Recipe.from_data(
        frame, tmp_path / "project", encoder=encoder, settings=SETTINGS
    )
    assert recipe.settings.task.text_columns == ["review"]


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("use", ["label", "task.weight_column"])
def test_column_in_use_that_no_file_can_hold_is_refused_by_name(name, use, encoder):
    frame = reviews(["good", "bad"] * (ROWS // 2)).assign(**{name: ODD[name]()})
    choice = {use: name} if "." not in use else {"settings": {use: name}}
    place = r"row 0 \(index 5000\).*" if name == "surrogates" else ""
    got = re.compile(f"{name!r}.*{place}")
    with refused("E-prediction-columns", setting="data", got=got):
        inspect(frame, encoder=encoder, **choice)


@pytest.mark.parametrize(
    ("cell", "got", "advice"),
    [
        (["a\ud800"], "lone surrogate", "correct the row"),
        (["a", 1], r"\['a', 1\]", "write a list of texts"),
        ("a", "'a'", "write a list of texts"),
    ],
)
def test_bad_row_of_a_column_of_lists_is_named(encoder, cell, got, advice):
    frame = reviews([["a"], ["a", "b"]] * (ROWS // 2))
    frame.at[frame.index[3], "stars"] = cell
    fields = {"got": f"row 3 .*{got}", "advice": advice}
    patterns = {name: re.compile(text) for name, text in fields.items()}
    with refused("E-prediction-columns", setting="data", **patterns):
        inspect(frame, encoder=encoder, label="stars")


def test_guessed_column_that_no_file_can_hold_is_refused_by_name(encoder):
    for label in (pd.cut(range(ROWS), 3), np.arange(ROWS) % 2 * 1j):
        with refused("E-prediction-columns", setting="data", got=re.compile("'stars'")):
            inspect(reviews(label), encoder=encoder)


@pytest.mark.parametrize(
    ("index", "place"),
    [
        (pd.RangeIndex(ROWS), "row 7"),
        (pd.RangeIndex(5000, 5000 + ROWS), r"row 7 \(index 5007\)"),
        (pd.Index(["same"] * ROWS), r"row 7 \(index 'same'\)"),
        (
            pd.MultiIndex.from_product([["a"], range(ROWS)]),
            r"row 7 \(index \('a', 7\)\)",
        ),
    ],
)
def test_bad_row_is_named_by_its_place_in_the_frame(index, place, encoder, tmp_path):
    frame = reviews(["good", "bad"] * (ROWS // 2)).set_index(index)
    frame.iloc[7, 0] = " "
    got = re.compile(rf"^bad {place}: review is")
    with refused("E-data-refused", DataRefusedError, got=got) as error:
        Recipe.from_data(frame, tmp_path / "a", encoder=encoder, settings=SETTINGS)
    found = inspect(frame, encoder=encoder, settings=SETTINGS)
    texts = [str(error.value), *found.refused, *found.warnings]
    texts += [split.shortest for split in found.details.splits.values()]
    assert not any("parquet" in text for text in texts)
    settings = {**SETTINGS, "data.on_bad_rows": "skip"}
    Recipe.from_data(frame, tmp_path / "b", encoder=encoder, settings=settings)
    (row,) = (tmp_path / "b" / "skipped.jsonl").read_text().splitlines()
    row = json.loads(row)
    assert (row["file"], row["row"]) == ("a pandas.DataFrame", 7)
    assert row["index"] == json.loads(json.dumps(index[7:8].tolist()[0]))


def test_refused_data_raise_what_the_user_can_do(tmp_path, encoder):
    frame = reviews(["good", "bad"] * (ROWS // 2))
    advice = re.compile("^nothing was written; .*`data_gate.max_interval=0.2`")
    with refused("E-data-refused", DataRefusedError, advice=advice):
        Recipe.from_data(
            frame,
            tmp_path / "project",
            encoder=encoder,
            settings={"data_gate.max_interval": 0.01},
        )
    assert not (tmp_path / "project").exists()


def test_settings_replace_those_of_the_file(tmp_path):
    file = tiny.write_config(tmp_path / "recipe.yaml", splits=("train", "eval"))
    recipe = Recipe(file, settings={"trainer.epochs": 7})
    changed = recipe.with_settings({"trainer.seed": 3})
    assert (recipe.settings.trainer.epochs, recipe.settings.trainer.seed) == (7, 0)
    assert (changed.settings.trainer.epochs, changed.settings.trainer.seed) == (7, 3)
    with refused("E-settings-refused"):
        recipe.with_settings({"trainer.epoch": 1})


def test_names_of_columns_are_for_files_without_a_header(tmp_path, encoder):
    frame = reviews(["good", "bad"] * (ROWS // 2))
    for choice in ({"columns": "a,b"}, {"settings": {"data.columns": ["a", "b"]}}):
        with refused("E-column-missing", setting="columns"):
            inspect(frame, encoder=encoder, **choice)
    path = tmp_path / "rows.csv"
    frame["review"] = frame["review"].str.replace("\r\n", " ")
    frame.to_csv(path, index=False, header=False)
    choices = {"encoder": encoder, "settings": SETTINGS}
    inspection = inspect(path, columns=["text", "label"], **choices)
    assert {c.name for c in inspection.details.columns} == {"text", "label"}
