"""Labels that are in the texts."""

import random

import pytest

from contracts.task.definition import TaskConfig
from modules.data import leaked_labels, row_facts
from modules.data.leaked_labels import MOST_ROWS, WordSample, cut_words
from modules.data.words import split_words

TASK = TaskConfig(text_columns=["text"], label_column="label", classes=["no", "yes"])
WORDS = [f"word{n}" for n in range(50)]


def sample(rows):
    """Returns a sample of (label, texts)."""
    words = WordSample()
    for label, *texts in rows:
        key = row_facts.hash_texts(texts)
        if key <= words.bound:
            words.add(key, label, [cut_words(split_words(text)) for text in texts])
    return words


def draw(write, count=200, seed=0, outputs=2):
    """Returns rows of random words, each written with its label."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        label = rng.randrange(outputs)
        rows.append((label, write(label, " ".join(rng.choices(WORDS, k=12)))))
    return rows


def judge(rows, task=TASK, limit=0.98):
    return list(leaked_labels.judge(sample(rows), task, limit))


@pytest.mark.parametrize(
    ("write", "word"),
    [
        (lambda label, text: f"__label__{label} {text}", "'__label__0'"),
        (lambda label, text: f"0 or 1? {text} Label={label}.", "'label 0'"),
        (lambda label, text: f"{label} {text} 1 0 {text}", "'0' at the start"),
        (lambda label, text: f"1 or 0? {text} ({label})", "'0' at the end"),
    ],
)
def test_word_of_one_class_is_refused_with_its_rows(write, word):
    rows = draw(write)
    (finding,) = judge(rows)
    assert finding.is_refused
    count = sum(label == 0 for label, _ in rows)
    assert finding.message.startswith(
        f"train: {word} is in {count} of {count} rows of the class `no` and in 0 of "
    )
    assert "set data_gate.max_word_f1 to 1" in finding.message
    assert judge(rows, limit=1.0) == []


def test_words_that_only_help_are_accepted():
    def write(label, text):
        words = text.split()
        return " ".join(
            words
            if random.Random(text).random() < 0.1
            else [*words, "good" if label else "bad"]
        )

    assert judge(draw(write, 2000)) == []


def test_random_labels_of_few_rows_are_accepted():
    for seed in range(20):
        assert judge(draw(lambda _, text: text, 70, seed)) == []


def test_only_the_class_whose_word_leaked_is_named_and_is_a_warning():
    task = TaskConfig(
        text_columns=["a", "b"], label_column="label", classes=["x", "y", "z"]
    )
    rows = [
        (label, text, "Order 7" if label == 1 else "Offer 7")
        for label, text in draw(lambda _, text: text, 300, outputs=3)
    ]
    (finding,) = judge(rows, task)
    count = sum(label == 1 for label, *_ in rows)
    assert f"in text 2 is in {count} of {count} rows of the class `y` and in 0 of" in (
        finding.message
    )
    assert "class `x`" not in finding.message
    # Its rows are less than half.
    assert not finding.is_refused


def test_word_of_all_rows_says_nothing_about_a_frequent_class():
    rng = random.Random(0)
    rows = [
        (int(rng.random() < 0.03), "Subject: " + " ".join(rng.choices(WORDS, k=12)))
        for _ in range(3000)
    ]
    assert judge(rows) == []


def test_word_of_a_rare_class_of_two_is_refused():
    rng = random.Random(0)
    labels = [int(rng.random() < 0.03) for _ in range(3000)]
    rows = [(n, "SPAM: " * n + " ".join(rng.choices(WORDS, k=12))) for n in labels]
    (finding,) = judge(rows)
    assert finding.is_refused
    assert "'spam' is in " in finding.message


def test_class_without_words_is_not_judged():
    rows = [(n % 2, "!?" if n % 2 else f"word{n}") for n in range(100)]
    assert judge(rows) == []
    assert judge([(n % 2, "") for n in range(100)]) == []


def test_keywords_of_many_intents_are_accepted():
    classes = [f"intent{n}" for n in range(150)]
    task = TaskConfig(text_columns=["text"], label_column="label", classes=classes)
    for seed in range(3):
        rng = random.Random(seed)
        rows = [
            (
                n % 150,
                " ".join(rng.choices(WORDS, k=8))
                + (f" keyword{n % 150}" if rng.random() < 0.9 else ""),
            )
            for n in range(15_000)
        ]
        assert not any(finding.is_refused for finding in judge(rows, task))


def test_rare_class_and_scores_are_not_judged():
    rows = draw(lambda label, text: f"{label} {text}", 40)
    assert judge(rows) == []
    scores = TaskConfig(
        text_columns=["text"], label_column="label", label_range=[0.0, 1.0]
    )
    assert judge(draw(lambda label, text: f"{label} {text}"), scores) == []


def test_sample_is_bounded_and_the_same_in_any_order():
    rows = draw(lambda label, text: f"{label} {text}", MOST_ROWS + 500)
    first = sample(rows)
    random.Random(1).shuffle(rows)
    assert first.rows == sample(rows).rows
    halves = sample(rows[:3000]).rows + sample(rows[3000:]).rows
    assert WordSample(halves).rows == first.rows
    assert len(first.rows) == MOST_ROWS


def test_word_of_one_of_several_labels_is_a_warning_and_of_all_labels_is_refused():
    task = TaskConfig(kind="multilabel", text_columns=["text"], classes=["no", "yes"])

    def rows(marked):
        rng = random.Random(0)
        drawn = []
        for _ in range(300):
            label = [int(rng.random() < 0.3) for _ in task.classes]
            words = rng.choices(WORDS, k=12)
            words += [f"mark{index}" for index in marked if label[index]]
            drawn.append((label, " ".join(words)))
        return drawn

    (finding,) = judge(rows([1]), task)
    count = sum(label[1] for label, _ in rows([1]))
    assert not finding.is_refused
    assert f"in {count} of {count} rows of the class `yes` and in 0 of" in (
        finding.message
    )
    (finding,) = judge(rows([0, 1]), task)
    assert finding.is_refused
    assert judge(rows([]), task) == []
