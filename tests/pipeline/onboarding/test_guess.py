"""Guessing a task from columns, and refusing ambiguous ones."""

import json
import random

import numpy as np
import pytest

from contracts.errors import UsageError
from contracts.task.definition import TaskConfig
from pipeline.onboarding.columns import add_row
from pipeline.onboarding.guess import guess_task, guess_thresholds

WORDS = [
    "the",
    "cat",
    "sees",
    "a",
    "dog",
    "and",
    "likes",
    "it",
    "while",
    "birds",
    "sing",
    "in",
    "old",
    "trees",
]


def sentence(chance, words=8):
    return " ".join(chance.choices(WORDS, k=words)).capitalize() + "."


def guess(make_row, rows=200, **choices):
    """Guesses the task of rows that a function makes of a number and `Random`."""
    chance = random.Random(0)
    columns = {}
    for number in range(rows):
        add_row(columns, make_row(number, chance))
    return guess_task(columns, **choices)


def spam(number, chance):
    return {
        "id": str(number),
        "date": f"2024-01-{number % 28 + 1:02} 10:00:00",
        "url": f"https://example.org/{number}",
        "Nachricht": sentence(chance),
        "art": "spam" if number % 10 == 0 else "ham",
    }


def test_columns_of_any_name_are_found():
    task = guess(spam).task
    assert task.text_columns == ["Nachricht"]
    assert task.label_column == "art"
    assert task.classes == ["ham", "spam"]
    assert task.metric == "f1"  # 10 % are spam


def test_each_guess_has_a_reason():
    reasons = guess(spam).reasons
    assert reasons["task.text_columns"] == "the only column of texts"
    assert reasons["task.label_column"] == "the only column of few values"
    assert "ham means no" in reasons["task.classes"]
    assert "10% of the rows" in reasons["task.metric"]


def test_two_texts_are_a_pair_in_the_order_of_the_file():
    task = guess(
        lambda n, chance: {
            "question": sentence(chance),
            "answer": sentence(chance),
            "label": str(n % 2),
        }
    ).task
    assert task.text_columns == ["question", "answer"]
    assert task.classes == ["0", "1"]
    assert task.metric == "accuracy"


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        ({"Title": 6, "Review Text": 60}, ["Review Text"]),
        ({"text": 8, "summary": 4}, ["text"]),
        ({"description": 30, "location": 3, "title": 7}, ["description"]),
        ({"headline": 8, "body": 200}, ["headline", "body"]),
        ({"Question": 8, "Answer": 60, "topic of it": 3}, ["Question", "Answer"]),
        ({"first": 8, "second": 9}, ["first", "second"]),
        ({"answer_a": 8, "prompt": 5, "answer_b": 9}, ["answer_a", "answer_b"]),
        ({"text2": 8, "text1": 9}, ["text1", "text2"]),
    ],
)
def test_longest_texts_or_a_known_pair_are_chosen(words, texts):
    task = guess(
        lambda n, chance: {
            **{name: sentence(chance, count) for name, count in words.items()},
            "label": ["bad", "good"][n % 2],
        }
    ).task
    assert task.text_columns == texts


def test_names_of_people_are_not_text():
    task = guess(
        lambda n, chance: {
            "author": f"Anna{n} Meier",
            "body": sentence(chance),
            "label": ["x", "y"][n % 2],
        }
    ).task
    assert task.text_columns == ["body"]


def test_numbers_of_many_values_are_scores_within_their_range():
    task = guess(
        lambda n, chance: {
            "text": sentence(chance),
            "score": f"{chance.uniform(0.3, 4.6):.2f}",
        }
    ).task
    assert task.label_range == [0.0, 5.0]
    assert task.metric == "pearson_spearman"


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (["no", "yes"], ["no", "yes"]),
        (["valid", "not_valid"], ["not_valid", "valid"]),
        (["-1", "1"], ["-1", "1"]),
        (["1.0", "1.0", "0.0"], ["0.0", "1.0"]),
        (["1.0", "1", "0.0"], ["0.0", "1"]),
        (["TRUE", "FALSE"], ["FALSE", "TRUE"]),
        (["1.1", "1.10", "2.0.1"], ["1.1", "1.10", "2.0.1"]),
        (["True", "FALSE", "true"], ["FALSE", "true"]),
        (["2", "2.0", "1"], ["2", "1"]),  # 1 is rarer
        (["ja", "ja", "nein"], ["nein", "ja"]),
        (["true", "false"], ["false", "true"]),
        (["0", "1", "2"], ["0", "1", "2"]),
        (["c", "b", "a"], ["a", "b", "c"]),
        (["b", "a", "b"], ["b", "a"]),  # the rarer one is the positive class
    ],
)
def test_classes_and_the_positive_one(values, classes):
    task = guess(
        lambda n, chance: {"text": sentence(chance), "label": values[n % len(values)]}
    ).task
    assert task.classes == classes


def stars(number, chance):
    return {"text": sentence(chance), "stars": str(number % 5 + 1)}


def test_numbers_that_could_be_indices_of_other_classes_are_names():
    task = guess(stars, kind="classes").task
    assert task.classes == ["1", "2", "3", "4", "5"]
    assert task.labels == "name"


def test_codes_keep_their_leading_zeros():
    def row(number, chance):
        return {"text": sentence(chance), "code": f"{number % 3 + 1:03}"}

    assert guess(row, kind="classes").task.classes == ["001", "002", "003"]


@pytest.mark.parametrize(
    ("values", "classes", "labels"),
    [
        ("12345", ["1", "2", "3"], "name"),
        ("01", ["negative", "positive"], "index"),
        ("01", ["1", "0"], "name"),
    ],
)
def test_chosen_classes_are_names_unless_all_labels_are_indices(
    values, classes, labels
):
    guessed = guess(
        lambda n, chance: {"text": sentence(chance), "y": values[n % len(values)]},
        classes=classes,
    )
    assert guessed.task.labels == labels


def test_chosen_classes_that_no_label_has_are_refused():
    with pytest.raises(UsageError, match="the label y has -1, 0, 1; write the classes"):
        guess(
            lambda n, chance: {"text": sentence(chance), "y": n % 3 - 1},
            classes=["negative", "neutral", "positive"],
        )


@pytest.mark.parametrize("count", [5, 77, 150])
def test_indices_of_many_classes_are_classes(count):
    task = guess(
        lambda n, chance: {"text": sentence(chance), "code": str(n % count)},
        rows=400,
    ).task
    assert task.classes == list(map(str, range(count)))


@pytest.mark.parametrize("count", [30, 300])
def test_other_whole_numbers_are_never_scores_without_a_question(count):
    with pytest.raises(
        UsageError, match="may be classes or scores; choose with --kind"
    ):
        guess(
            lambda n, chance: {"text": sentence(chance), "label": n % count + 1},
            rows=900,
        )


def test_stars_as_scores():
    task = guess(
        lambda n, chance: {"text": sentence(chance), "stars": str(n % 5 + 1)},
        kind="score",
    ).task
    assert task.label_range == [1.0, 5.0]


def test_names_of_classes_that_the_source_has_are_kept_in_its_order():
    task = guess(
        lambda n, chance: {"text": sentence(chance), "label": n % 2},
        class_names=lambda label: {"0": "yes", "1": "no"},
    ).task
    assert task.classes == ["yes", "no"]


def test_known_names_are_text_in_a_script_without_spaces():
    task = guess(
        lambda n, chance: {"text": f"这部电影非常好看{n}", "label": str(n % 2)}
    ).task
    assert task.text_columns == ["text"]


@pytest.mark.parametrize("missing", ["NA", "<NA>", "-", "", None, float("nan")])
def test_marks_of_missing_labels_are_counted_and_not_a_class(missing):
    guessed = guess(
        lambda n, chance: {
            "text": sentence(chance),
            "label": missing if n % 50 == 7 else ["neg", "pos"][n % 2],
        }
    )
    assert guessed.task.classes == ["neg", "pos"]
    mark = "nan" if missing != missing else missing or "(empty)"
    missing = f"label is missing in 4 rows ({mark} in 4)"
    assert missing in guessed.reasons["task.label_column"]


def stance(number, chance):
    label = ["FAVOR", "AGAINST", "NONE"][number % 3]
    return {"text": sentence(chance), "stance": label}


def test_mark_as_frequent_as_a_class_is_asked_for():
    with pytest.raises(UsageError, match="stance is NONE in 66 rows") as error:
        guess(stance)
    assert """'task.classes=["AGAINST", "FAVOR", "NONE"]'""" in str(error.value)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["FAVOR", "AGAINST", "None", "", "", ""], "None in 33 rows"),
        (["hate", "none"], "none in 100 rows"),
        (["a", "b", "NONE", "None"], "NONE in 50 rows and None in 50 rows"),
    ],
)
def test_frequent_mark_is_asked_for_next_to_empty_values_and_one_class(labels, message):
    with pytest.raises(UsageError, match=f"is {message}, which may be a class or"):
        guess(
            lambda n, chance: {
                "text": sentence(chance),
                "art": labels[n % len(labels)],
            }
        )


def test_label_without_a_value_is_refused():
    with pytest.raises(UsageError, match="the label column y has no value"):
        guess(
            lambda n, chance: {"text": sentence(chance), "y": ""},
            label="y",
            classes=["a", "b"],
        )


def test_mark_is_a_class_if_it_is_chosen():
    classes = ["AGAINST", "FAVOR", "NONE"]
    assert guess(stance, classes=classes).task.classes == classes


def test_file_without_a_header_is_refused():
    def row(number, chance):
        text = sentence(chance)
        return {"this is the first review of all": text, "0": str(number % 2)}

    with pytest.raises(UsageError, match=r"looks like a row\..*--columns text,label;"):
        guess(row, label="0")


def test_rows_are_numbered_if_the_id_column_has_no_numbers():
    task = guess(
        lambda n, chance: {
            "idx": f"r{n}",
            "text": sentence(chance),
            "label": str(n % 2),
        }
    ).task
    assert task.id_column == "row_number"


@pytest.mark.parametrize(
    ("row", "choices", "message"),
    [
        (
            {"a": "text", "b": "text", "c": "text", "label": "few"},
            {},
            r"a \(8 words\), b \(8 words\), c \(8 words\) may each be the text",
        ),
        (
            {"remark": "text", "review": "text", "label": "few"},
            {},
            r"review \(8 words\) may each be the text; name one with --text re",
        ),
        (
            {"title": "text", "text": "text", "label": "few"},
            {},
            r"title \(8 words\), text \(8 words\) may each be the text",
        ),
        ({"label": "few", "n": "number"}, {}, "looks like text; name the text column"),
        (
            {"text": "text", "n": "id"},
            {},
            "looks like a label; name it",
        ),
        (
            {"text": "text", "x": "few", "y2": "few"},
            {},
            r"x \(a, b\), y2 \(a, b\) may each be the label; name one with --label x",
        ),
        (
            {"text": "text", "label": "few", "stars": "few"},
            {},
            r"label \(a, b\), stars \(a, b\) may each be the label",
        ),
        (
            {"text": "text", "stars": "stars"},
            {},
            "1, 2, 3, 4, 5, which may be classes or scores; choose with --kind",
        ),
        (
            {"text": "text", "label": "few"},
            {"label": "nope"},
            "--label nope: there is no",
        ),
        (
            {"text": "text", "label": "few"},
            {"text": ["no"]},
            "--text no: there is no such",
        ),
        (
            {"text": "text", "label": "few"},
            {"taken": {"g": "--group"}},
            "--group g: there is no",
        ),
        ({"text": "text", "label": "few"}, {"kind": "score"}, "or they are all equal"),
        (
            {"text": "text", "label": "number"},
            {"kind": "classes"},
            "label has 400 values; allowed are 2 to 200 classes",
        ),
    ],
)
def test_ambiguous_columns_are_refused_with_what_to_add(row, choices, message):
    make = {
        "text": lambda n, chance: sentence(chance),
        "few": lambda n, chance: ["a", "b"][n % 2],
        "number": lambda n, chance: str(n * 1.5),
        "id": lambda n, chance: str(n),
        "comma": lambda n, chance: f"{n},5",
        "case": lambda n, chance: ["Pos", "neg", "pos "][n % 3],
        "stars": lambda n, chance: str(n % 5 + 1),
    }
    with pytest.raises(UsageError, match=message):
        guess(
            lambda n, chance: {
                name: make[kind](n, chance) for name, kind in row.items()
            },
            rows=400,
            **choices,
        )


@pytest.mark.parametrize(
    ("task", "counts", "thresholds"),
    [
        # Always ham has an accuracy of 0.9; always spam has an F1 of 0.18.
        (
            {"classes": ["ham", "spam"], "metric": "f1"},
            {"ham": 90, "spam": 10},
            {"accuracy": 0.91, "f1": 0.26},
        ),
        ({"classes": ["a", "b"]}, {"a": 950, "b": 50}, {"accuracy": 0.955}),
        ({"classes": ["a", "b"]}, {"a": 995, "b": 5}, {"accuracy": 0.9955}),
        ({"classes": ["a", "b"]}, {"a": 50, "b": 50}, {"accuracy": 0.55}),
        (
            {"classes": ["a", "b", "c"], "metric": "f1"},
            {"a": 50, "b": 25, "c": 25},
            {"accuracy": 0.55, "f1": 0.3},
        ),
        # Without a row of a class, every constant prediction may be right.
        ({"classes": ["a", "b"], "metric": "f1"}, {"a": 0, "b": 50}, {"accuracy": 1}),
        # Recall is 1 if all rows are predicted as the class.
        (
            {"classes": ["a", "b"], "metric": "recall"},
            {"a": 50, "b": 50},
            {"accuracy": 0.55},
        ),
        (
            {"classes": ["a", "b"], "metric": "precision"},
            {"a": 80, "b": 20},
            {"accuracy": 0.82, "precision": 0.28},
        ),
        (
            {"classes": ["a", "b"], "metric": "auc"},
            {"a": 80, "b": 20},
            {"accuracy": 0.82, "auc": 0.55},
        ),
        (
            {"classes": ["a", "b"], "metric": "matthews"},
            {"a": 80, "b": 20},
            {"accuracy": 0.82, "matthews": 0.1},
        ),
        (
            {"classes": ["a", "b", "c"], "metric": "f1/c"},
            {"a": 50, "b": 25, "c": 25},
            {"accuracy": 0.55, "f1/c": 0.46},
        ),
        ({"label_range": [0, 5]}, {}, {"pearson_spearman": 0.2}),
        ({"label_range": [0, 5], "metric": "pearson"}, {}, {"pearson": 0.2}),
    ],
)
def test_thresholds_are_above_what_a_constant_prediction_reaches(
    task, counts, thresholds
):
    task = TaskConfig(text_columns=["text"], **task)
    labels = np.repeat(np.arange(len(counts)), list(counts.values()))
    assert guess_thresholds(task, labels) == thresholds


def test_threshold_of_several_labels_is_above_any_fixed_set_of_them():
    task = TaskConfig(kind="multilabel", text_columns=["text"], classes=["a", "b"])
    labels = np.array([[1, 0]] * 50 + [[1, 1]] * 10 + [[0, 0]] * 40)
    # Always `a`: F1 2 * 60 / (100 + 70); all labels of a row are right in 50 of 100.
    assert guess_thresholds(task, labels) == {"accuracy": 0.55, "micro_f1": 0.74}


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"text": ["a", "b", "c"]}, "--text is given 3 times; give it once, or twice"),
        ({"text": ["a", "a"]}, "--text and --label name a twice; name different col"),
        ({"text": ["a"], "label": "a"}, "--text and --label name a twice; name diff"),
    ],
)
def test_choices_that_cannot_be_a_task_are_refused(choices, message):
    def row(number, chance):
        texts = {name: sentence(chance) for name in "abc"}
        return texts | {"label": str(number % 2)}

    with pytest.raises(UsageError, match=message):
        guess(row, **choices)


@pytest.mark.parametrize("column", ["idx", "row_number"])
def test_id_column_is_none_of_the_columns_of_the_task(column):
    def row(number, chance):
        return {"text": sentence(chance), column: str(number % 2), "idx_": "a"}

    task = guess(row, label=column).task
    assert task.label_column == column
    assert task.id_column not in ("text", column)


@pytest.mark.parametrize("odd", ["1e999", "-1e999", "1e39", "-1e300"])
def test_score_that_float32_does_not_hold_is_outside_the_range(odd):
    def row(number, chance):
        score = odd if number == 7 else f"{number / 100}"
        return {"text": sentence(chance), "score": score}

    assert guess(row).task.label_range == [0.0, 2.0]


def test_scores_that_float32_does_not_hold_are_refused():
    def row(number, chance):
        return {"text": sentence(chance), "score": f"1e{number + 40}"}

    with pytest.raises(UsageError, match="score cannot be a score"):
        guess(row, label="score", kind="score")


EMOTIONS = ["anger", "fear", "joy", "love", "neutral"]
TOXIC = ["toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate"]


def toxic_comment(number, chance):
    """Returns a row as that of the Jigsaw toxic comments."""
    flags = {name: str(int(chance.random() < 0.2)) for name in TOXIC}
    comment = {"id": f"{number:016x}", "comment_text": sentence(chance), **flags}
    return {**comment, "identity_hate": "0"}


def names_in(label, column="label"):
    """Returns a function that makes rows with one of some values."""
    return lambda n, chance: {"text": sentence(chance), column: chance.choice(label)}


def emotions(write, most=3, least=1, names=EMOTIONS, column="labels"):
    """Returns a function that makes rows with several names."""

    def make_row(number, chance):
        chosen = chance.sample(names, chance.randint(least, most))
        return {"text": sentence(chance), column: write(sorted(chosen)), "id": number}

    return make_row


def test_columns_of_0_and_1_are_several_labels():
    guessed = guess(toxic_comment)
    task = guessed.task
    assert task.kind == "multilabel"
    assert task.text_columns == ["comment_text"]
    assert task.classes == TOXIC[:-1]
    assert task.has_label_columns
    assert task.metric == "micro_f1"
    assert (
        "5 columns of 0 and 1, of which a row has any num"
        in (guessed.reasons["task.kind"])
    )
    assert (
        "; identity_hate has one value in all rows" in (guessed.reasons["task.classes"])
    )


@pytest.mark.parametrize(
    ("write", "least", "separator"),
    [
        ("|".join, 1, "|"),
        (";".join, 0, ";"),
        (", ".join, 1, ","),
        (str, 0, "|"),  # as pandas writes a list
        (list, 0, "|"),
    ],
)
@pytest.mark.parametrize("column", ["labels", "feelings"])
def test_column_of_several_names_is_several_labels(write, least, separator, column):
    guessed = guess(emotions(write, least=least, column=column))
    assert guessed.task.kind == "multilabel"
    assert guessed.task.label_column == column
    assert guessed.task.classes == EMOTIONS
    assert guessed.task.label_separator == separator
    assert guessed.task.labels == "name"
    assert f"{column} has " in guessed.reasons["task.kind"]


@pytest.mark.parametrize(
    "separator",
    [",", "; ", "|", " | ", "#", "/", " + ", "&", " ", "\t", "\n", "\r\n", "__label__"],
)
def test_each_separator_is_found(separator):
    task = guess(emotions(separator.join, least=0), rows=400).task
    assert task.classes == EMOTIONS
    end = emotions(lambda names: separator.join([*names, ""]), least=0)
    assert guess(end, rows=400).task.classes == EMOTIONS


def test_prefix_of_fasttext_is_not_part_of_a_name():
    write = lambda names: " ".join(f"__label__{name}" for name in names)  # noqa: E731
    assert guess(emotions(write)).task.classes == EMOTIONS
    assert guess(emotions(write, most=1)).task.classes == EMOTIONS


@pytest.mark.parametrize(
    "write",
    [
        lambda names: f"[{' '.join(map(repr, names))}]",  # NumPy
        lambda names: str({*names}) if names else "set()",
        lambda names: str((*names,)),
        lambda names: json.dumps(names),
        lambda names: names + names[:1],
        lambda names: "|".join(names + names[:1]),
    ],
)
def test_labels_are_read_in_each_form_and_repeats_count_once(write):
    names = ["Sales, marketing", "café", "R&D", "very good"]
    task = guess(emotions(write, names=names), rows=400).task
    assert task.classes == sorted(names)
    assert task.label_separator == "|"


@pytest.mark.parametrize("separator", ["|", ";", "#", "\n", ",", "/", "+", "&", " "])
@pytest.mark.parametrize("form", ["pairs", "mostly one", "few"])
def test_combinations_are_never_classes_without_a_question(separator, form):
    def label(chance):
        if form == "few":
            few = (["joy"], ["fear"], ["love"], ["fear", "joy"], ["joy", "love"])
            return chance.choice(few)
        number = 2 if form == "pairs" else chance.choice([1] * 20 + [2])
        return sorted(chance.sample(EMOTIONS, number))

    def row(number, chance):
        return {"text": sentence(chance), "label": separator.join(label(chance))}

    names = ["fear", "joy", "love"] if form == "few" else EMOTIONS
    if separator in "|;#\n" or (separator == "," and form != "pairs"):
        assert guess(row, rows=400).task.classes == names
    else:
        with pytest.raises(UsageError, match=f"into {len(names)} names") as error:
            guess(row, rows=400)
        assert "labels, add --label label --kind multilabel, or if" in str(error.value)
        assert "is one class, --label label --kind classes" in str(error.value)
    task = guess(row, rows=400, kind="multilabel").task
    assert (task.kind, task.classes) == ("multilabel", names)
    assert guess(row, rows=400, kind="classes").task.kind is None


def test_indices_may_be_separated_by_any_separator():
    names = [str(number) for number in range(12)]
    for separator in ("|", " ", "/", "#"):
        task = guess(emotions(separator.join, names=names, most=4), rows=900).task
        assert task.classes == names


@pytest.mark.parametrize(
    "classes",
    [
        ["R&D", "Sales", "HR"],
        ["C++", "C", "C#", "F#", "A+", "Java"],
        ["comp.sys.mac.hardware", "comp.graphics", "sci.med"],
        ["very good", "good", "bad", "very bad", "neutral"],
        ["Arts, Crafts", "Home, Kitchen", "Toys"],
        ["1/5", "2/5", "3/5", "4/5"],
        ["a/b testing", "survey", "interview"],
        ["New York", "Los Angeles", "New Orleans", "York"],
        ["black & white", "colour", "sepia"],
        ["TCP/IP", "TCP", "IP"],
        ["2024-01-01", "2024-01-02"],
        ["book flight", "book hotel", "cancel flight", "cancel hotel"],
        ["Books|Fiction", "Books|Science", "Toys|Lego"],
        ["10:00 AM", "11:00 AM", "10:00 PM"],
        ["#1", "#2", "#3"],
        ["(a) one", "(b) two"],
        ["not good", "good"],
    ],
)
def test_names_with_separators_stay_classes(classes):
    task = guess(names_in(classes)).task
    assert task.kind is None
    assert sorted(task.classes) == sorted(classes)


NO_LABELS = {
    "list of objects": ([{"id": 0, "name": "x"}], "a list of objects; write the names"),
    "its text": (
        '[{"id": 0}]',
        "a list of objects; write the names of the row's labels",
    ),
    "object": ({"/m/1": "Drama"}, "an object; write the names"),
    "its text ": ('{"/m/1": "Drama"}', "an object; write the names"),
    "flags": ("[0, 0, 1]", "looks like 0 or 1 for each label; write the names"),
    "flags with blanks": ("0 0 1", "looks like 0 or 1 for each label"),
    "flags of two": ([0, 1], "looks like 0 or 1 for each label"),
    "shares": ([0.1, 0.9], "a list of numbers with decimals, not of labels"),
    "null": ([None], "a list with a null"),
}


@pytest.mark.parametrize("name", NO_LABELS)
@pytest.mark.parametrize("kind", [None, "multilabel"])
def test_cells_that_hold_no_labels_are_refused_by_name(name, kind):
    value, reason = NO_LABELS[name]
    other = value[::-1] if name == "flags of two" else value
    with pytest.raises(UsageError, match=f"the label labels is .*{reason}"):
        guess(names_in([value, value, value, other], "labels"), kind=kind)


@pytest.mark.parametrize("named", ["quality", "Topic", "score", "rating", "sentiment"])
def test_usual_name_beside_columns_of_0_and_1_is_the_users_choice(named):
    names = [named, "price", "staff", "parking"]

    def row(number, chance):
        flags = {name: chance.choice("01") for name in names}
        return {"text": sentence(chance), **flags}

    with pytest.raises(UsageError) as error:
        guess(row)
    assert f"name one with --label {named}, or several with --kind mu" in str(
        error.value
    )
    assert guess(row, kind="multilabel").task.classes == names
    assert guess(row, label=named).task.classes == ["0", "1"]
    row_with_classes = lambda n, chance: {**row(n, chance), named: "ab"[n % 2]}  # noqa: E731
    with pytest.raises(UsageError, match="may each be the label; name one with"):
        guess(row_with_classes)


@pytest.mark.parametrize("kind", [None, "multilabel"])
def test_shares_are_not_labels(kind):
    def row(number, chance):
        shares = {name: f"{chance.random():.3f}" for name in TOXIC}
        return {"text": sentence(chance), **shares}

    with pytest.raises(
        UsageError,
        match=r"toxic, .* hold shares between 0 and 1, .* round them to 0 or",
    ):
        guess(row, kind=kind)


@pytest.mark.parametrize(
    ("alike", "shown"),
    [
        (("joy", "Joy"), "'joy', 'Joy'"),
        (("joy", "joy\u200b"), r"'joy', 'joy\u200b'"),
        (("caf\u00e9", "cafe\u0301"), r"'caf\xe9', 'cafe\u0301'"),
    ],
)
@pytest.mark.parametrize("write", ["|".join, list])
@pytest.mark.parametrize("most", [1, 3])
def test_labels_that_look_alike_are_refused(alike, shown, write, most):
    values = [*alike, "fear", "love"]
    row = emotions(write, most=most, names=values)
    if most == 1:  # one class
        row = names_in(values)
    with pytest.raises(UsageError) as error:
        guess(row)
    assert all(name in str(error.value) for name in shown.split(", "))
    assert "differ only in letter case, spaces, invisible characters" in str(
        error.value
    )


def test_order_of_labels_does_not_matter():
    assert guess(names_in(["a|b", "b|a"])).task.classes == ["a", "b"]


def test_indices_of_labels_get_names_from_the_user_or_from_the_source():
    numbers = [str(number) for number in range(28)]
    row = emotions(",".join, names=numbers)
    assert guess(row).task.classes == numbers
    names = [f"emotion{number}" for number in numbers]
    task = guess(row, classes=names).task
    assert (task.classes, task.labels) == (names, "index")
    source_names = dict(zip(numbers, names, strict=True))
    task = guess(row, class_names=lambda label: source_names).task
    assert (task.classes, task.labels) == (names, "name")
    with pytest.raises(
        UsageError, match=r"task.classes are a, b; the label labels has"
    ):
        guess(row, classes=["a", "b"])


SINGLE = {
    "one column": lambda n, chance: {"text": sentence(chance), "spam": str(n % 2)},
    "features beside a label": lambda n, chance: {
        "text": sentence(chance),
        "label": str(n % 2),
        **{name: chance.choice("01") for name in TOXIC},
    },
    "names with a comma": lambda n, chance: {
        "text": sentence(chance),
        "label": chance.choice(["Arts, Crafts", "Home, Kitchen", "Toys", "Home, Bath"]),
    },
    "names of two parts": lambda n, chance: {
        "text": sentence(chance),
        "label": ", ".join((chance.choice(["good", "bad"]), chance.choice("ab"))),
    },
    "names of two parts, some missing": lambda n, chance: {
        "text": sentence(chance),
        "label": f"{chance.choice('ab')}, {chance.choice('cd')}" if n % 9 else "",
    },
    "tags beside a label": lambda n, chance: {
        **emotions("|".join, column="tags")(n, chance),
        "label": str(n % 2),
    },
}


@pytest.mark.parametrize("name", SINGLE)
def test_file_of_one_label_is_not_taken_for_several(name):
    task = guess(SINGLE[name]).task
    assert task.kind is None
    assert task.label_column in ("spam", "label")


UNCLEAR = {
    "one 1 in each row": (
        lambda n, chance: {
            "text": sentence(chance),
            **{name: str(int(n % 6 == index)) for index, name in enumerate(TOXIC)},
        },
        "the columns toxic, .* have as many 1s as rows, so they may be one class in ",
    ),
    "two columns": (
        lambda n, chance: {
            "text": sentence(chance),
            **{name: chance.choice("01") for name in TOXIC[:2]},
        },
        "may each be the label; name one with --label toxic, or several with --kind mu",
    ),
    "beside another column": (
        lambda n, chance: {**toxic_comment(n, chance), "region": chance.choice("ab")},
        r"region \(a, b\) may each be the label; .* or several with --kind multilabel",
    ),
    "lists of one": (
        emotions(list, most=1),
        "the label labels has a list of one name in each row, which is one class; wri",
    ),
    "a comma in numbers": (
        lambda n, chance: {"text": sentence(chance), "score": f"{n % 5},{5 + n % 4}"},
        "decimal commas, .*, or choose --kind multilabel if they are indices of labels",
    ),
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_file_that_may_have_several_labels_is_the_users_choice(name):
    make_row, message = UNCLEAR[name]
    with pytest.raises(UsageError, match=message):
        guess(make_row)
    assert guess(make_row, kind="multilabel").task.kind == "multilabel"


def test_rows_without_a_label_make_pairs_of_names_several_labels():
    pairs = ["a|b", "b|c", "a|c", ""]
    row = lambda n, chance: {"text": sentence(chance), "label": pairs[n % 4]}  # noqa: E731
    assert guess(row).task.classes == ["a", "b", "c"]


def test_phrases_with_commas_are_the_text_if_there_is_no_other():
    phrases = ["it crashes on start", "far too expensive", "on my old phone", "so slow"]

    def row(number, chance):
        text = ", ".join(chance.sample(phrases, chance.randint(1, 4)))
        return {"review": text, "topics": "|".join(chance.sample(EMOTIONS[:4], 2))}

    task = guess(row, rows=60).task
    assert task.text_columns == ["review"]
    assert task.label_column == "topics"


MANY = [f"l{number}" for number in range(300)]
REFUSED_NAMES = {
    "flags in lists": (
        lambda n, chance: {"text": sentence(chance), "labels": [0, n % 2, 1]},
        r"labels is \[0, 0, 1\], which looks like .* or a column of 0 and 1 for each",
    ),
    "over 200 names": (
        emotions("|".join, names=MANY, least=3),
        r"the label labels has over 200 names with `\|` between them; allowed are 2",
    ),
    "over 200 names in lists": (
        emotions(list, names=MANY, least=3),
        "the label labels has over 200 names in lists; allowed are 2 to 200",
    ),
}


@pytest.mark.parametrize("name", REFUSED_NAMES)
@pytest.mark.parametrize("kind", [None, "multilabel"])
def test_names_that_cannot_be_labels_are_refused_with_the_reason(name, kind):
    make_row, message = REFUSED_NAMES[name]
    with pytest.raises(UsageError, match=message):
        guess(make_row, kind=kind)


def test_over_200_names_in_a_column_of_any_name_are_refused_with_their_number():
    with pytest.raises(UsageError, match="the label tags has over 200 names with"):
        guess(emotions("|".join, names=MANY, column="tags"), kind="multilabel")


def test_chosen_label_is_one_label_and_chosen_classes_are_several():
    assert guess(toxic_comment, label="toxic").task.classes == ["0", "1"]
    assert guess(emotions("|".join), kind="classes").task.kind is None
    task = guess(toxic_comment, classes=["threat", "toxic"]).task
    assert task.kind == "multilabel"
    assert task.classes == ["threat", "toxic"]
    with pytest.raises(UsageError, match="has good, none of which is a list of names"):
        guess(
            lambda n, chance: {"text": sentence(chance), "label": "good"},
            kind="multilabel",
        )


@pytest.mark.parametrize("separator", ["-", "_", ":", "~", "\\", "•", "、", "，"])  # noqa: RUF001
def test_combinations_with_an_unusual_separator_are_asked_for(separator):
    names = ["joy", "love", "fear", "anger", "pride", "grief"]

    def row(number, chance):
        labels = chance.sample(names, chance.randint(1, 3))
        return {"text": sentence(chance), "label": separator.join(labels)}

    with pytest.raises(UsageError, match="separates into 6 names"):
        guess(row, rows=600)
    task = guess(row, rows=600, kind="multilabel").task
    assert (task.classes, task.label_separator) == (sorted(names), separator)
    with pytest.raises(UsageError, match="--kind classes"):
        guess(row, rows=600)


def test_names_of_one_class_with_unusual_separators_stay_classes():
    names = ["book-flight", "book-hotel", "cancel-flight", "cancel-hotel", "pay-bill"]
    task = guess(
        lambda number, chance: {"text": sentence(chance), "label": chance.choice(names)}
    ).task
    assert task.classes == names
    assert task.kind is None


def test_several_shares_beside_a_usual_name_are_asked_for():
    def row(number, chance):
        shares = {name: f"{chance.random():.3f}" for name in ("toxic", "score")}
        return {"text": sentence(chance), **shares}

    with pytest.raises(UsageError, match="hold shares between 0 and 1"):
        guess(row)
