"""Predictions for texts and files, with models that tell their inputs back."""

import json
from pathlib import Path

import pytest

from pipeline.config.errors import UsageError
from pipeline.prediction import predictor as predictor_lib
from tests import toy_models


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A directory with the versions 9 and 10."""
    root = tmp_path_factory.mktemp("serving")
    for version in ("9", "10"):
        toy_models.save(toy_models.Longer(), root / version)
    (root / ".11.incomplete").mkdir()
    return root


@pytest.fixture(scope="module")
def scorer(tmp_path_factory):
    """A regression of single sentences."""
    return toy_models.save(toy_models.Length(), tmp_path_factory.mktemp("scorer"))


def test_newest_whole_version_is_taken(served):
    assert predictor_lib.find_model(str(served)) == str(served / "10")
    assert predictor_lib.find_model(str(served / "9")) == str(served / "9")


def test_texts_are_given_in_the_order_of_the_task(served):
    pairs = [("long text", "short"), ("a", "bb")]
    found = list(predictor_lib.predict_texts(str(served), pairs))
    assert [row.value for row in found] == ["first", "second"]
    assert found[0].probability == pytest.approx(0.9)
    assert found[0].texts == ("long text", "short")


def test_single_texts_get_a_score_without_a_probability(scorer):
    found = list(predictor_lib.predict_texts(str(scorer), [("12345",), ("",)]))
    assert [row.value for row in found] == pytest.approx([0.5, 0.0])
    assert found[0].is_score
    assert found[0].probabilities is None


def test_other_number_of_texts_is_refused_with_what_the_model_takes(served, scorer):
    with pytest.raises(UsageError, match=r"takes pairs \(right and left\).*--pair A B"):
        list(predictor_lib.predict_texts(str(served), [("a", "b"), ("a",)]))
    with pytest.raises(UsageError, match=r"single texts \(sentence\).*--text TEXT"):
        list(predictor_lib.predict_texts(str(scorer), [("a", "b")]))


def test_table_of_a_regression_gets_one_column_more(scorer, tmp_path):
    source, target = tmp_path / "in.tsv", tmp_path / "out.tsv"
    source.write_text("n\tsentence\n1\tthe cat\n")
    assert predictor_lib.predict_file(str(scorer), str(source), str(target)) == 1
    assert target.read_text() == "n\tsentence\tprediction\n1\tthe cat\t0.7\n"


def test_table_keeps_its_columns_and_gets_two_more(served, tmp_path):
    source, target = tmp_path / "in.tsv", tmp_path / "out.tsv"
    rows = [f'{i}\t"quoted {i}\t{"x" * (i % 30)}' for i in range(600)]
    source.write_text("\n".join(["n\tleft\tright", *rows]) + "\n")
    assert predictor_lib.predict_file(str(served), str(source), str(target)) == 600
    lines = target.read_text().splitlines()
    assert lines[0] == "n\tleft\tright\tprediction\tprobability"
    assert lines[3] == f"{rows[2]}\tsecond\t0.9"
    assert len(lines) == 601


def test_json_lines_keep_their_fields(served, tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    row = {"id": "é", "left": "a\tb\nc", "right": ""}
    source.write_text(json.dumps(row) + "\n")
    predictor_lib.predict_file(str(served), str(source), str(target))
    found = json.loads(target.read_text())
    assert found == {**row, "prediction": "second", "probability": 0.9}


@pytest.mark.parametrize(
    ("name", "text", "target", "message"),
    [
        ("in.jsonl", '{"left": "a"}\n', "out.jsonl", r":1: column right is None"),
        ("in.jsonl", '{"left": "a"\n', "out.jsonl", r":1: not JSON"),
        ("in.jsonl", '["a"]\n', "out.jsonl", r":1: not a JSON object"),
        ("in.jsonl", '{"n": "\\ud800"}', "out.jsonl", r":1: column n is not Unicode"),
        ("in.jsonl", f'{{"n": {"1" * 5000}}}', "out.jsonl", r":1: not JSON: Exceeds"),
        ("in.jsonl", '{"n": "\udcff"}', "out.jsonl", r":1: not UTF-8"),
        ("in.tsv", "left\tright\na\n", "out.tsv", r":2: 1 fields, the header has 2"),
        ("in.csv", "left,right\n", "out.tsv", r"in\.csv: allowed are \.tsv and"),
        ("in.tsv", "left\tright\na\tb\n", "out.txt", r"out\.txt: allowed are \.tsv"),
        ("in.jsonl", '{"left": "a\\tb", "right": ""}', "out.tsv", r"write \.jsonl"),
    ],
)
def test_bad_file_is_refused_with_its_line_and_nothing_is_written(
    served, tmp_path, name, text, target, message
):
    (tmp_path / name).write_text(text, errors="surrogateescape")
    with pytest.raises(UsageError, match=message):
        predictor_lib.predict_file(
            str(served), str(tmp_path / name), str(tmp_path / target)
        )
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_two_predictions_of_one_file_do_not_mix(served, tmp_path, monkeypatch):
    source, target = tmp_path / "in.tsv", tmp_path / "out.tsv"
    rows = "".join(f"{i}\ta\tb\n" for i in range(400))
    source.write_text(f"n\tleft\tright\n{rows}")
    predict_rows = predictor_lib.Predictor.predict_rows

    def start_another(predictor, rows):
        monkeypatch.setattr(predictor_lib.Predictor, "predict_rows", predict_rows)
        predicted = predict_rows(predictor, rows)
        yield next(predicted)
        predictor_lib.predict_file(str(served), str(source), str(target))
        assert len(target.read_text().splitlines()) == 401
        yield from predicted

    monkeypatch.setattr(predictor_lib.Predictor, "predict_rows", start_another)
    assert predictor_lib.predict_file(str(served), str(source), str(target)) == 400
    assert len(target.read_text().splitlines()) == 401
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.tsv", "out.tsv"]


def test_link_is_kept_and_results_are_kept_if_they_cannot_be_moved(served, tmp_path):
    source, link = tmp_path / "in.tsv", tmp_path / "link.tsv"
    source.write_text("left\tright\na\tb\n")
    link.symlink_to(tmp_path / "out.tsv")
    predictor_lib.predict_file(str(served), str(source), str(link))
    assert link.is_symlink()
    assert "first" in (tmp_path / "out.tsv").read_text()
    (tmp_path / "directory.tsv").mkdir()
    with pytest.raises(
        UsageError, match=r"the predictions are in .*incomplete"
    ) as error:
        predictor_lib.predict_file(
            str(served), str(source), str(tmp_path / "directory.tsv")
        )
    kept = Path(str(error.value).partition("are in ")[2])
    assert "first" in kept.read_text()
