"""Guessing a task from columns, and refusing ambiguous ones."""

import json
import random
import re

import numpy as np
import pytest

from contracts.task.definition import TaskConfig
from pipeline.onboarding.columns import add_row
from pipeline.onboarding.guess import guess_task, guess_thresholds
from tests.refusals import refused

WORDS = ["the", "cat", "sees", "a", "dog", "and", "likes", "it", "while", "birds"]
EMOTIONS = ["anger", "fear", "joy", "love", "neutral"]
TOXIC = ["toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate"]
MANY = [f"l{number}" for number in range(300)]
NUMBERED = [str(number) for number in range(12)]
UNCLEAR, LABEL = "E-column-unclear", "E-label-refused"


def sentence(chance, words=8):
    return " ".join(chance.choices(WORDS, k=words)).capitalize() + "."


def rows(**columns):
    """Returns a function that makes rows.

    Args:
      **columns: A number of words, values that are repeated, or a function of the
        number of the row and `Random`.
    """

    def make(number, chance):
        return {
            name: sentence(chance, values)
            if isinstance(values, int)
            else values(number, chance)
            if callable(values)
            else values[number % len(values)]
            for name, values in columns.items()
        }

    return make


def labelled(values, column="label"):
    """Returns a function that makes rows of a text and a label."""
    return rows(**{"text": 8, column: values})


def flags(names):
    """Returns columns of 0 and 1."""
    return {name: lambda _, chance: chance.choice("01") for name in names}


def chosen(values, column="label"):
    """Returns a function that makes rows with one of some values."""
    return labelled(lambda _, chance: chance.choice(values), column)


def emotions(write, most=3, least=1, names=EMOTIONS, column="labels"):
    """Returns a function that makes rows with several names."""

    def label(_, chance):
        return write(sorted(chance.sample(names, chance.randint(least, most))))

    return rows(text=8, **{column: label, "id": lambda number, _: number})


def as_fasttext(names):
    return " ".join(f"__label__{name}" for name in names)


def guess(make_row, count=200, **choices):
    """Guesses the task of rows that a function makes."""
    chance = random.Random(0)
    columns = {}
    for number in range(count):
        add_row(columns, make_row(number, chance))
    return guess_task(columns, **choices)


def test_columns_of_any_name_are_found_and_each_guess_has_a_reason():
    guessed = guess(
        rows(
            id=lambda number, _: str(number),
            date=lambda number, _: f"2024-01-{number % 28 + 1:02} 10:00:00",
            url=lambda number, _: f"https://example.org/{number}",
            Nachricht=8,
            art=["spam", *9 * ["ham"]],
        )
    )
    task, reasons = guessed.task, guessed.reasons
    assert (task.text_columns, task.label_column) == (["Nachricht"], "art")
    assert (task.classes, task.metric) == (["ham", "spam"], "f1")  # 10 % are spam
    assert reasons["task.text_columns"] == "the only column of texts"
    assert reasons["task.label_column"] == "the only column of few values"
    assert "ham means no" in reasons["task.classes"]
    assert "10% of the rows" in reasons["task.metric"]


@pytest.mark.parametrize(
    ("columns", "texts"),
    [
        ({"question": 8, "answer": 8}, ["question", "answer"]),
        ({"Title": 6, "Review Text": 60}, ["Review Text"]),
        ({"text": 8, "summary": 4}, ["text"]),
        ({"description": 30, "location": 3, "title": 7}, ["description"]),
        ({"headline": 8, "body": 200}, ["headline", "body"]),
        ({"Question": 8, "Answer": 60, "topic of it": 3}, ["Question", "Answer"]),
        ({"first": 8, "second": 9}, ["first", "second"]),
        ({"answer_a": 8, "prompt": 5, "answer_b": 9}, ["answer_a", "answer_b"]),
        ({"text2": 8, "text1": 9}, ["text1", "text2"]),
        ({"author": lambda n, _: f"Anna{n} Meier", "body": 8}, ["body"]),
        # A script without spaces.
        ({"text": lambda n, _: f"这部电影非常好看{n}"}, ["text"]),
    ],
)
def test_longest_texts_or_a_known_pair_are_chosen(columns, texts):
    task = guess(rows(**columns, label=["0", "1"])).task
    assert task.text_columns == texts
    assert (task.classes, task.metric) == (["0", "1"], "accuracy")


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
        ([*map(str, range(150))], [*map(str, range(150))]),
    ],
)
def test_classes_and_the_positive_one(values, classes):
    assert guess(labelled(values), 400).task.classes == classes


@pytest.mark.parametrize(
    ("values", "choices", "classes", "labels"),
    [
        # Numbers may be indices of other classes.
        ("12345", {"kind": "classes"}, [*"12345"], "name"),
        (["001", "002"], {"kind": "classes"}, ["001", "002"], "name"),
        ("12345", {"classes": ["1", "2", "3"]}, ["1", "2", "3"], "name"),
        ("01", {"classes": ["no", "yes"]}, ["no", "yes"], "index"),
        ("01", {"classes": ["1", "0"]}, ["1", "0"], "name"),
        (["b", "a", "c"], {"classes": ["c", "b", "a"]}, ["c", "b", "a"], "name"),
        ([0, 1], {"class_names": lambda _: {"0": "y", "1": "n"}}, ["y", "n"], "name"),
    ],
)
def test_chosen_classes_are_names_unless_all_labels_are_indices(
    values, choices, classes, labels
):
    task = guess(labelled(values, "y"), label="y", **choices).task
    assert (task.classes, task.labels) == (classes, labels)


@pytest.mark.parametrize(
    ("column", "values", "kind", "label_range"),
    [
        ("score", lambda _, c: f"{c.uniform(0.3, 4.6):.2f}", None, [0.0, 5.0]),
        ("stars", "12345", "score", [1.0, 5.0]),
        # A score that float32 does not hold is outside the range.
        *(
            ("score", [f"{n / 100}" for n in range(199)] + [odd], None, [0.0, 2.0])
            for odd in ("1e999", "-1e999", "1e39", "-1e300")
        ),
    ],
)
def test_numbers_of_many_values_are_scores_within_their_range(
    column, values, kind, label_range
):
    task = guess(labelled(values, column), kind=kind).task
    assert (task.label_range, task.metric) == (label_range, "pearson_spearman")


@pytest.mark.parametrize("missing", ["NA", "<NA>", "-", "", None, float("nan")])
def test_marks_of_missing_labels_are_counted_and_not_a_class(missing):
    values = lambda n, _: missing if n % 50 == 7 else ["neg", "pos"][n % 2]  # noqa: E731
    guessed = guess(labelled(values))
    assert guessed.task.classes == ["neg", "pos"]
    mark = "nan" if missing != missing else missing or "(empty)"
    missing = f"label is missing in 4 rows ({mark} in 4)"
    assert missing in guessed.reasons["task.label_column"]


@pytest.mark.parametrize(
    ("columns", "label"),
    [({"idx": 1}, None), ({"idx": "01"}, "idx"), ({"row_number": "01"}, "row_number")],
)
def test_id_column_holds_numbers_and_is_none_of_the_columns_of_the_task(columns, label):
    other = {} if label else {"label": "01"}
    task = guess(rows(text=8, **columns, **other), label=label).task
    assert task.label_column == (label or "label")
    assert task.id_column not in ("text", label)
    assert (task.id_column == "idx") == (label == "row_number")


FEW = "ab"
NUMBERS = [str(n * 1.5) for n in range(400)]
# The name of an error, and its setting.
TEXTS, LABELS, VALUES = (UNCLEAR, "text"), (UNCLEAR, "label"), (LABEL, "label")
CLASSES = ("E-classes-differ", "task.classes")
THREE = {"a": 8, "b": 8, "c": 8, "label": FEW}
STANCE = {"text": 8, "stance": ["FAVOR", "AGAINST", "NONE"]}


def check_refused(make_row, error, got, advice="", count=400, **choices):
    """Asserts that no task is guessed, and parts of the error."""
    name, setting = error
    patterns = {"got": re.compile(got), "advice": re.compile(advice)}
    with refused(name, setting=setting, **patterns):
        guess(make_row, count, **choices)


@pytest.mark.parametrize(
    ("columns", "error", "got", "advice"),
    [
        (THREE, TEXTS, r"a \(8 words\), b .* each be the text", "`text=a` `text=b`"),
        ({"remark": 8, "review": 8, "y": FEW}, TEXTS, "remark .*8 words", "`text=re"),
        ({"title": 8, "text": 8, "y": FEW}, TEXTS, "title .*8 words.* each", "`text="),
        ({"y": FEW, "n": NUMBERS}, TEXTS, "y, n looks like text", "`text=COLUMN`"),
        ({"text": 8, "n": range(400)}, LABELS, "looks like a label", "`label=COLUMN`"),
        ({"text": 8, "n": range(1, 31)}, LABELS, "looks like a label", ""),
        ({"text": 8, "x": FEW, "y2": FEW}, LABELS, r"x \(a, b\), y2 .* ea", "`label=x"),
        ({"text": 8, "label": FEW, "stars": FEW}, LABELS, r"label \(a, b\), stars", ""),
        ({"text": 8, "n": "12345"}, VALUES, "1, 2, 3, 4, 5, which may", "`kind=score`"),
        ({"text": 8, "label": range(1, 31)}, VALUES, "or scores", "`kind=classes`"),
        ({"text": 8, "label": range(1, 301)}, VALUES, "or scores", "`kind=classes`"),
        (
            STANCE,
            VALUES,
            "is NONE in 133 rows, which",
            r'\["AGAINST", "FAVOR", "NONE"\]`',
        ),
        (STANCE, VALUES, "is NONE", r'\["AGAINST", "FAVOR"\]` `data.on_bad_rows=skip`'),
        (
            {"text": 8, "y": ["a", "b", "None", *3 * [""]]},
            VALUES,
            "None in 67 rows",
            "",
        ),
        ({"text": 8, "y": ["hate", "none"]}, VALUES, "none in 200 rows, which", ""),
        (
            {"text": 8, "y": ["a", "b", "NA", "None"]},
            VALUES,
            "NA in 100 .* None in",
            "",
        ),
    ],
)
def test_ambiguous_columns_are_refused_with_what_to_add(columns, error, got, advice):
    check_refused(rows(**columns), error, got, advice)


@pytest.mark.parametrize(
    ("values", "choices", "error", "got"),
    [
        (NUMBERS, {"kind": "classes"}, VALUES, "y has 400 values"),
        (FEW, {"kind": "score"}, VALUES, "all equal"),
        ([f"1e{n + 40}" for n in range(300)], {"kind": "score"}, VALUES, "be a score"),
        ([""], {"classes": ["a", "b"]}, VALUES, "y has no value"),
        ([-1, 0, 1], {"classes": ["a", "b"]}, CLASSES, "^a, b, but .* y has -1, 0, 1"),
        (["good"], {"kind": "multilabel"}, VALUES, "y has good, none of which is a li"),
        (FEW, {"text": ["no"]}, ("E-column-missing", "text"), "called no"),
        (FEW, {"label": "no"}, ("E-column-missing", "label"), "called no"),
        (FEW, {"taken": {"no": "group"}}, ("E-column-missing", "group"), "called no"),
        (FEW, {"text": ["a", "b", "y"]}, ("E-options-conflict", "text"), "3 columns"),
        (FEW, {"text": ["a", "a"]}, ("E-options-conflict", "text"), "name a twice"),
        (FEW, {"text": ["y"]}, ("E-options-conflict", "text"), "name y twice"),
    ],
)
def test_choices_that_the_data_contradict_are_refused(values, choices, error, got):
    check_refused(rows(a=8, b=8, y=values), error, got, **{"label": "y", **choices})


@pytest.mark.parametrize(
    ("task", "counts", "thresholds"),
    [
        # Always ham has an accuracy of 0.9; always spam has an F1 of 0.18.
        ({"metric": "f1"}, [90, 10], {"accuracy": 0.91, "f1": 0.26}),
        ({}, [950, 50], {"accuracy": 0.955}),
        ({}, [995, 5], {"accuracy": 0.9955}),
        ({}, [50, 50], {"accuracy": 0.55}),
        ({"metric": "f1"}, [50, 25, 25], {"accuracy": 0.55, "f1": 0.3}),
        # Without a row of a class, every constant prediction may be right.
        ({"metric": "f1"}, [0, 50], {"accuracy": 1}),
        # Recall is 1 if all rows are predicted as the class.
        ({"metric": "recall"}, [50, 50], {"accuracy": 0.55}),
        ({"metric": "precision"}, [80, 20], {"accuracy": 0.82, "precision": 0.28}),
        ({"metric": "auc"}, [80, 20], {"accuracy": 0.82, "auc": 0.55}),
        ({"metric": "matthews"}, [80, 20], {"accuracy": 0.82, "matthews": 0.1}),
        ({"metric": "f1/c"}, [50, 25, 25], {"accuracy": 0.55, "f1/c": 0.46}),
        ({"label_range": [0, 5]}, [], {"pearson_spearman": 0.2}),
        ({"label_range": [0, 5], "metric": "pearson"}, [], {"pearson": 0.2}),
    ],
)
def test_thresholds_are_above_what_a_constant_prediction_reaches(
    task, counts, thresholds
):
    classes = {"classes": [*"abc"[: len(counts)]]} if counts else {}
    task = TaskConfig(text_columns=["text"], **classes, **task)
    labels = np.repeat(np.arange(len(counts)), counts)
    assert guess_thresholds(task, labels) == thresholds


def test_threshold_of_several_labels_is_above_any_fixed_set_of_them():
    task = TaskConfig(kind="multilabel", text_columns=["text"], classes=["a", "b"])
    labels = np.array([[1, 0]] * 50 + [[1, 1]] * 10 + [[0, 0]] * 40)
    # Always `a`: F1 2 * 60 / (100 + 70); all labels of a row are right in 50 of 100.
    assert guess_thresholds(task, labels) == {"accuracy": 0.55, "micro_f1": 0.74}


def toxic_comment(number, chance):
    """Returns a row as that of the Jigsaw toxic comments."""
    flags = {name: str(int(chance.random() < 0.2)) for name in TOXIC}
    comment = {"id": f"{number:016x}", "comment_text": sentence(chance), **flags}
    return {**comment, "identity_hate": "0"}


def test_columns_of_0_and_1_are_several_labels():
    guessed = guess(toxic_comment)
    task = guessed.task
    assert (task.kind, task.metric) == ("multilabel", "micro_f1")
    assert task.text_columns == ["comment_text"]
    assert task.classes == TOXIC[:-1]
    assert task.has_label_columns
    reasons = guessed.reasons
    assert "5 columns of 0 and 1, of which a row has any num" in reasons["task.kind"]
    assert "; identity_hate has one value in all rows" in reasons["task.classes"]


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
    task = guessed.task
    assert (task.kind, task.label_column, task.labels) == ("multilabel", column, "name")
    assert (task.classes, task.label_separator) == (EMOTIONS, separator)
    assert f"{column} has " in guessed.reasons["task.kind"]


@pytest.mark.parametrize(
    "separator",
    [",", "; ", "|", " | ", "#", "/", " + ", "&", " ", "\t", "\n", "\r\n", "__label__"],
)
def test_each_separator_is_found(separator):
    task = guess(emotions(separator.join, least=0), 400).task
    assert task.classes == EMOTIONS
    end = emotions(lambda names: separator.join([*names, ""]), least=0)
    assert guess(end, 400).task.classes == EMOTIONS


@pytest.mark.parametrize(
    "write",
    [
        lambda names: f"[{' '.join(map(repr, names))}]",  # NumPy
        lambda names: str({*names}) if names else "set()",
        lambda names: str((*names,)),
        json.dumps,
        lambda names: names + names[:1],
        lambda names: "|".join(names + names[:1]),
    ],
)
def test_labels_are_read_in_each_form_and_repeats_count_once(write):
    names = ["Sales, marketing", "café", "R&D", "very good"]
    task = guess(emotions(write, names=names), 400).task
    assert (task.classes, task.label_separator) == (sorted(names), "|")


@pytest.mark.parametrize("separator", ["|", "\n", ",", "/", " "])
@pytest.mark.parametrize("form", ["pairs", "mostly one", "few"])
def test_combinations_are_never_classes_without_a_question(separator, form):
    def label(_, chance):
        if form == "few":
            few = (["joy"], ["fear"], ["love"], ["fear", "joy"], ["joy", "love"])
            return separator.join(chance.choice(few))
        number = 2 if form == "pairs" else chance.choice([1] * 20 + [2])
        return separator.join(sorted(chance.sample(EMOTIONS, number)))

    row = labelled(label)
    names = ["fear", "joy", "love"] if form == "few" else EMOTIONS
    if separator in "|\n" or (separator == "," and form != "pairs"):
        assert guess(row, 400).task.classes == names
    else:
        advice = "`label=label` `kind=multilabel`, .* `label=label` `kind=classes`"
        check_refused(row, VALUES, f"into {len(names)} names", advice)
    task = guess(row, 400, kind="multilabel").task
    assert (task.kind, task.classes) == ("multilabel", names)
    assert guess(row, 400, kind="classes").task.kind is None


@pytest.mark.parametrize(
    ("make_row", "classes"),
    [
        (labelled(["a|b", "b|c", "a|c", ""]), ["a", "b", "c"]),  # a row without a label
        (labelled(["a|b", "b|a"]), ["a", "b"]),  # order does not matter
        (emotions(as_fasttext), EMOTIONS),
        (emotions(as_fasttext, most=1), EMOTIONS),
        *((emotions(s.join, names=NUMBERED, most=4), NUMBERED) for s in "| /#"),
    ],
)
def test_names_in_one_text_are_several_labels(make_row, classes):
    assert guess(make_row, 900).task.classes == classes


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
        ["book-flight", "book-hotel", "cancel-flight", "cancel-hotel", "pay-bill"],
        ["Books|Fiction", "Books|Science", "Toys|Lego"],
        ["10:00 AM", "11:00 AM", "10:00 PM"],
        ["#1", "#2", "#3"],
        ["(a) one", "(b) two"],
        ["not good", "good"],
    ],
)
def test_names_with_separators_stay_classes(classes):
    task = guess(chosen(classes)).task
    assert task.kind is None
    assert sorted(task.classes) == sorted(classes)


def cells(value, other=None):
    return chosen([value, value, value, value if other is None else other], "labels")


@pytest.mark.parametrize(
    ("make_row", "got", "advice"),
    [
        (cells([{"id": 0, "name": "x"}]), "a list of objects", "write the names"),
        (cells('[{"id": 0}]'), "a list of objects", "the names of the row's labels"),
        (cells({"/m/1": "Drama"}), "an object", "write the names"),
        (cells('{"/m/1": "Drama"}'), "an object", "write the names"),
        (cells("[0, 0, 1]"), "looks like 0 or 1 for each label", "write the names"),
        (cells("0 0 1"), "looks like 0 or 1 for each label", ""),
        (cells([0, 1], [1, 0]), "looks like 0 or 1 for each label", ""),
        (cells([0.1, 0.9]), "a list of numbers with decimals, not of labels", ""),
        (cells([None]), "a list with a null", ""),
        (
            labelled(lambda n, _: [0, n % 2, 1], "labels"),
            r"is '?\[0, 0, 1\]'?, which looks like",
            "a column of 0 and 1 for each",
        ),
        (
            emotions("|".join, names=MANY, least=3),
            r"has over 200 names with `\|` between them",
            "leave rare ones out",
        ),
        (emotions(list, names=MANY, least=3), "over 200 names in lists", "`kind=cl"),
    ],
)
@pytest.mark.parametrize("kind", [None, "multilabel"])
def test_values_that_cannot_be_labels_are_refused_with_the_reason(
    make_row, kind, got, advice
):
    check_refused(make_row, VALUES, f"^labels .*{got}", advice, kind=kind)


@pytest.mark.parametrize("named", ["quality", "Topic", "score", "rating", "sentiment"])
def test_usual_name_beside_columns_of_0_and_1_is_the_users_choice(named):
    names = [named, "price", "staff", "parking"]
    row = rows(text=8, **flags(names))
    advice = f"`label={named}`, or several with `kind=multilabel`"
    check_refused(row, LABELS, "", advice)
    assert guess(row, kind="multilabel").task.classes == names
    assert guess(row, label=named).task.classes == ["0", "1"]
    row = rows(text=8, **{**flags(names), named: "ab"})
    check_refused(row, LABELS, "may each be the label")


@pytest.mark.parametrize(
    ("kind", "names"),
    [(None, TOXIC), ("multilabel", TOXIC), (None, ["toxic", "score"])],
)
def test_shares_are_not_labels(kind, names):
    shares = dict.fromkeys(names, lambda _, chance: f"{chance.random():.3f}")
    with refused(UNCLEAR, setting="label") as caught:
        guess(rows(text=8, **shares), kind=kind)
    assert re.search(
        "toxic, .* hold shares between 0 and 1, .* round them to 0 or",
        caught.value.sentence(),
    )


@pytest.mark.parametrize(
    "alike", [("joy", "Joy"), ("joy", "joy\u200b"), ("caf\u00e9", "cafe\u0301")]
)
@pytest.mark.parametrize(
    "make_row",
    [
        chosen,
        lambda values: emotions("|".join, names=values),
        lambda values: emotions(list, names=values),
    ],
)
def test_labels_that_look_alike_are_refused(alike, make_row):
    with refused(LABEL, setting="label", got=re.compile("differ only in letter")) as e:
        guess(make_row([*alike, "fear", "love"]), kind=None)
    assert all(ascii(name) in e.value.got for name in alike)


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
    got = "^a, b, but the label labels has"
    check_refused(row, CLASSES, got, classes=["a", "b"])


@pytest.mark.parametrize(
    "make_row",
    [
        labelled("01", "spam"),
        rows(text=8, label="01", **flags(TOXIC)),
        chosen(["Arts, Crafts", "Home, Kitchen", "Toys", "Home, Bath"]),
        labelled(lambda _, c: ", ".join((c.choice(["good", "bad"]), c.choice("ab")))),
        # Names of two parts, of which some are missing.
        labelled(lambda n, c: f"{c.choice('ab')}, {c.choice('cd')}" if n % 9 else ""),
        lambda n, c: {**emotions("|".join, column="tags")(n, c), "label": str(n % 2)},
    ],
)
def test_file_of_one_label_is_not_taken_for_several(make_row):
    task = guess(make_row).task
    assert task.kind is None
    assert task.label_column in ("spam", "label")


@pytest.mark.parametrize(
    ("make_row", "error", "got", "advice"),
    [
        (
            rows(
                text=8,
                **{name: "0" * i + "1" + "0" * (5 - i) for i, name in enumerate(TOXIC)},
            ),
            VALUES,
            "the columns toxic, .* have as many 1s as rows, so they may be one class",
            "`kind=multilabel`",
        ),
        (
            rows(text=8, **flags(TOXIC[:2])),
            LABELS,
            "may each be the label",
            "`label=toxic`, or several with `kind=multilabel` `task.classes=",
        ),
        (
            lambda n, c: {**toxic_comment(n, c), "region": c.choice("ab")},
            LABELS,
            r"region \(a, b\) may each be the label",
            "or several with `kind=multilabel`",
        ),
        (
            emotions(list, most=1),
            VALUES,
            "labels has a list of one name in each row, which is one class",
            "write names without lists, or choose any number .* `kind=multilabel`",
        ),
        (
            labelled(lambda n, _: f"{n % 5},{5 + n % 4}", "score"),
            VALUES,
            "score has decimal commas, such as 0,5",
            "or choose `kind=multilabel` if they are indices of labels",
        ),
    ],
)
def test_file_that_may_have_several_labels_is_the_users_choice(
    make_row, error, got, advice
):
    check_refused(make_row, error, got, advice)
    assert guess(make_row, kind="multilabel").task.kind == "multilabel"


def test_phrases_with_commas_are_the_text_if_there_is_no_other():
    phrases = ["it crashes on start", "far too expensive", "on my old phone", "so slow"]
    row = rows(
        review=lambda _, c: ", ".join(c.sample(phrases, c.randint(1, 4))),
        topics=lambda _, c: "|".join(c.sample(EMOTIONS[:4], 2)),
    )
    task = guess(row, 60).task
    assert (task.text_columns, task.label_column) == (["review"], "topics")


def test_chosen_label_is_one_label_and_chosen_classes_are_several():
    assert guess(toxic_comment, label="toxic").task.classes == ["0", "1"]
    assert guess(emotions("|".join), kind="classes").task.kind is None
    task = guess(toxic_comment, classes=["threat", "toxic"]).task
    assert (task.kind, task.classes) == ("multilabel", ["threat", "toxic"])


@pytest.mark.parametrize("separator", ["-", "\\", "•", "，"])  # noqa: RUF001
def test_combinations_with_an_unusual_separator_are_asked_for(separator):
    names = ["joy", "love", "fear", "anger", "pride", "grief"]
    row = labelled(lambda _, c: separator.join(c.sample(names, c.randint(1, 3))))
    check_refused(row, VALUES, "into 6 names", "kind=classes", 600)
    task = guess(row, 600, kind="multilabel").task
    assert (task.classes, task.label_separator) == (sorted(names), separator)
