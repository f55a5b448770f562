"""Files whose first line is a row."""

import re

import pytest

from contracts.settings.data import DataConfig
from pipeline.onboarding.data_set import Choices, look_at
from pipeline.operations.monitoring import delayed_labels
from tests.refusals import refused

# As the files of Zhang et al. 2015 (AG News, DBpedia, Yelp).
NEWS = [
    (
        1 + n % 4,
        f"Stocks of company {n} fall again today",
        f"Report {n}: all of it fell.",
    )
    for n in range(40)
]


def write(path, rows, **options):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(",".join(f'"{v}"' for v in row) + "\n" for row in rows))
    return path


def look(path, columns=None, **choices):
    return look_at(str(path), DataConfig(columns=columns), Choices(**choices), {})


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (
            [(n % 2, f"The film number {n} was so good") for n in range(20)],
            "label,text",
        ),
        ([(f"Film {n}", ("good", "bad")[n % 2]) for n in range(20)], "text,label"),
        (NEWS, "column1,column2,column3"),
    ],
)
def test_first_row_that_looks_like_data_names_the_option(tmp_path, rows, columns):
    path = write(tmp_path / "rows.csv", rows)
    advice = re.compile(f"`columns={columns}`")
    with refused("E-dialect-unclear", setting="columns", advice=advice):
        look(path)
    choices = {"text": ["column3"], "label": "column1", "kind": "classes"}
    choices = choices if rows is NEWS else {}
    data_set = look(path, columns.split(","), **choices)
    assert len(data_set.task.classes) in (2, 4)
    assert data_set.columns[data_set.task.label_column].filled == len(rows)


def test_equal_values_in_the_first_row_name_the_setting(tmp_path):
    path = write(tmp_path / "rows.csv", [("a", "a", f"It is {n}.") for n in range(9)])
    with refused("E-rows-refused", setting=f"{path}:1") as caught:
        look(path)
    assert re.search(r"more than once.*data\.columns", str(caught.value))


def test_name_of_a_class_may_be_the_name_of_its_column(tmp_path):
    rows = [(f"The film number {n}.", ("label", "text")[n % 2]) for n in range(20)]
    path = write(tmp_path / "rows.csv", rows)
    assert look(path, ["text", "label"]).task.classes == ["label", "text"]


def test_question_as_a_column_can_be_chosen(tmp_path):
    rows = [("What did you like about the film?", "y")]
    rows += [(f"The number {n} was so good", ("good", "bad")[n % 2]) for n in range(20)]
    path = write(tmp_path / "rows.csv", rows)
    advice = re.compile("choose columns with `text`")
    with refused("E-dialect-unclear", setting="columns", advice=advice):
        look(path)
    assert look(path, text=[rows[0][0]]).task.text_columns == [rows[0][0]]


def test_labels_of_served_texts_are_read_without_a_header(tmp_path):
    rows = [(n % 2, f"The film number {n} was so good") for n in range(20)]
    path = write(tmp_path / "rows.csv", rows)
    data_set = look(path, ["label", "text"])
    settings = data_set.settings
    labels = delayed_labels.read_labels(str(path), data_set.task, settings)
    assert len(labels) == 20
