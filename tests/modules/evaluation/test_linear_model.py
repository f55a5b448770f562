"""The linear model on words that a fine-tuned model is compared with."""

from pathlib import Path

import numpy as np
import pytest

from contracts import fingerprint
from contracts.task.definition import TaskConfig
from modules.data.words import split_words
from modules.evaluation.linear_model import LinearModel, most_rows
from pipeline.config.tfx_names import RUN_FN
from tests import tiny

PAIRS = TaskConfig()
SENTENCE = TaskConfig(text_columns=["text"])
SCORES = TaskConfig(text_columns=["text"], label_range=[0.0, 5.0])


def words(*texts):
    return [split_words(text) for text in texts]


def test_words_of_a_sentence_decide_its_class():
    texts = [f"the film was {w}" for w in ("good", "fine", "bad", "dull")] * 5
    labels = np.array([1, 1, 0, 0] * 5)
    model = LinearModel(SENTENCE, [words(text) for text in texts], labels)
    new = [words("A GOOD one!"), words("so dull"), words("not seen")]
    probabilities = model.predict(new)
    assert probabilities.shape == (3, 2)
    assert probabilities.sum(axis=1) == pytest.approx(1)
    assert probabilities[:2].argmax(axis=1).tolist() == [1, 0]


def test_words_that_two_texts_share_decide_their_class():
    rows = tiny.pairs(400, seed=0)
    labels = np.array([label for label, *_ in rows])
    texts = [words(*pair) for _, *pair in rows]
    model = LinearModel(PAIRS, texts[:300], labels[:300])
    assert np.mean(model.predict(texts[300:]).argmax(axis=1) == labels[300:]) == 1


def test_labels_are_predicted_one_by_one():
    task = TaskConfig(
        text_columns=["text"], kind="multilabel", classes=["good", "long", "never"]
    )
    texts = ["a good film", "a good film of three hours", "of three hours", "a film"]
    labels = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 0]] * 5, float)
    model = LinearModel(task, [words(text) for text in texts * 5], labels)
    probabilities = model.predict([words(text) for text in texts])
    assert (probabilities >= 0.5).tolist() == (labels[:4] == 1).tolist()
    assert probabilities[:, 2].tolist() == [0, 0, 0, 0]


def test_scores_are_predicted():
    texts = [words(f"{'very ' * n}good") for n in range(5)] * 3
    labels = np.array([0.0, 1.0, 2.0, 2.0, 2.0] * 3)
    scores = LinearModel(SCORES, texts, labels).predict(texts)
    assert np.corrcoef(scores, labels)[0, 1] > 0.9


@pytest.mark.parametrize("text", ["", "☃", "漢字", "Ünïcödé", "\x00"])
def test_any_text_has_features(text):
    rows = [words(text)] * 4
    probabilities = LinearModel(SENTENCE, rows, np.array([0, 1, 1, 1])).predict(rows)
    assert probabilities.argmax(axis=1).tolist() == [1, 1, 1, 1]
    assert LinearModel(PAIRS, [words(text, "")] * 2, np.array([0, 1]))


def test_characters_of_chinese_are_words():
    assert split_words("他说BERT很好。ok_1") == [*"他说", "bert", *"很好", "ok_1"]


def test_classes_that_a_training_lacks_are_not_predicted():
    task = TaskConfig(text_columns=["text"], classes=["a", "b", "c"])
    rows = [words("x"), words("y")]
    model = LinearModel(task, rows, np.array([0, 2]))
    assert model.predict(rows)[:, 1].tolist() == [0, 0]
    constant = LinearModel(task, rows, np.array([2, 2]))
    assert constant.predict(rows).tolist() == [[0, 0, 1]] * 2


def test_rows_of_a_training_are_limited_by_the_classes():
    classes = [f"class {number}" for number in range(150)]
    tasks = SCORES, SENTENCE, TaskConfig(classes=classes)
    assert [most_rows(task) for task in tasks] == [50_000, 50_000, 5_000]


def test_first_words_of_a_long_text_are_its_features():
    texts = [f"{'so ' * 200}{word}{' film' * 100}" for word in ("good", "bad")]
    late = [f"{'so ' * 300}{word}" for word in ("good", "bad")]
    model = LinearModel(SENTENCE, [words(text) for text in texts], np.array([1, 0]))
    good, bad = model.predict([words(text) for text in texts])
    assert good[1] > 0.5 > bad[1]
    good, bad = model.predict([words(text) for text in late])
    assert good.tolist() == bad.tolist()


def test_rows_of_higher_weight_decide():
    rows = [words("film")] * 3
    labels = np.array([0, 0, 1])
    assert LinearModel(SENTENCE, rows, labels).predict(rows)[0, 0] > 0.5
    weights = np.array([0.1, 0.1, 10.0])
    assert LinearModel(SENTENCE, rows, labels, weights).predict(rows)[0, 1] > 0.5


def test_training_of_the_model_does_not_depend_on_the_linear_one():
    """Otherwise an edit would train every model again."""
    assert "linear_model.py" not in {
        Path(path).name for path in fingerprint.closure(RUN_FN)
    }
