"""Recipes from a user's own data, which come as a DataFrame."""

import numpy as np
import pandas as pd
import pytest

from ingest.examples.data_card import CARD_FILE
from pipeline import DataRefusedError, Recipe, UsageError, inspect
from tests import tiny

ROWS = 240
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
    splits = [pd.read_csv(folder / "data" / f"{s}.csv") for s in ("train", "eval")]
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
    ],
    ids=["floats with NaN", "nullable integers", "booleans"],
)
def test_labels_of_every_dtype_are_read(label, classes, encoder):
    found = inspect(
        reviews(label),
        encoder=encoder,
        settings={**SETTINGS, "data.on_bad_rows": "skip"},
    )
    assert list(found.details.splits["train"].labels) == classes
    assert not found.refused


def test_lists_of_labels_are_any_number_of_labels(encoder):
    label = [["toxic", "rude"][: row % 3] for row in range(ROWS)]
    found = inspect(reviews(label), encoder=encoder, settings=SETTINGS)
    assert list(found.details.splits["train"].labels) == ["rude", "toxic"]
    assert found.details.splits["train"].unlabelled


@pytest.mark.parametrize(
    ("frame", "name", "said"),
    [
        (pd.DataFrame([["a", "b"]]), "E-frame-columns", "the name 0 of a column"),
        (
            pd.DataFrame([["a", "b"]], columns=["x", "x"]),
            "E-frame-columns",
            "several columns of the DataFrame are named 'x'",
        ),
        (
            pd.DataFrame([["a"]], columns=pd.MultiIndex.from_tuples([("a", "b")])),
            "E-frame-columns",
            "have 2 levels",
        ),
        (pd.DataFrame({"text": []}), "E-frame-empty", "has 0 rows"),
        (
            pd.DataFrame({"text": ["a", "b"], "label": [1, "one"]}),
            "E-frame-values",
            "the column 'label' of the DataFrame cannot be written",
        ),
        ([{"text": "a"}], "E-frame-type", "list is neither a pandas.DataFrame nor"),
    ],
    ids=["numbers", "duplicates", "levels", "empty", "mixed", "no frame"],
)
def test_frame_that_no_file_can_hold_is_refused(frame, name, said, tmp_path):
    with pytest.raises(UsageError) as refused:
        Recipe.from_data(frame, tmp_path / "project")
    assert refused.value.name == name
    assert said in str(refused.value)
    assert not (tmp_path / "project").exists()


def test_refused_data_raise_the_text_of_the_command(tmp_path, encoder):
    frame = reviews(["good", "bad"] * (ROWS // 2))
    with pytest.raises(DataRefusedError, match="nothing was written; --set data_gate"):
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
    with pytest.raises(UsageError, match="epoch: unknown key; did you mean epochs"):
        recipe.with_settings({"trainer.epoch": 1})


def test_names_of_columns_are_for_files_without_a_header(tmp_path, encoder):
    frame = reviews(["good", "bad"] * (ROWS // 2))
    for choice in ({"columns": "a,b"}, {"settings": {"data.columns": ["a", "b"]}}):
        with pytest.raises(UsageError, match=r"rename .*data\.rename"):
            inspect(frame, encoder=encoder, **choice)
    path = tmp_path / "rows.csv"
    frame["review"] = frame["review"].str.replace("\r\n", " ")
    frame.to_csv(path, index=False, header=False)
    choices = {"encoder": encoder, "settings": SETTINGS}
    inspection = inspect(path, columns=["text", "label"], **choices)
    assert {c.name for c in inspection.details.columns} == {"text", "label"}
