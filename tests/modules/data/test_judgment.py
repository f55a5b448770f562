"""The findings: refusals, warnings, and the rows that they name."""

import dataclasses

import numpy as np
import pytest

from contracts.settings.data_gate import DataGateConfig
from contracts.settings.evaluator import EvaluatorConfig
from contracts.settings.sections import Sections
from contracts.task.definition import TaskConfig
from modules.data import judgment
from modules.data.all_rows import AllRows
from modules.data.judgment import Row
from modules.data.profile import Profile
from modules.data.row_facts import RowFacts, hash_texts

TASK = TaskConfig(classes=["ham", "spam"])
SCORES = TaskConfig(label_range=[0.0, 5.0])
MANY = TaskConfig(classes=[f"class{index}" for index in range(40)])


def rows(count=200, first=0, **columns):
    """Returns rows of alternating labels and 20 tokens, with different texts."""
    index = np.arange(first, first + count)
    values = {
        "texts": 2
        * index,  # hashes that differ in the lowest bit are of reversed pairs
        "labels": index % 2,
        "lengths": np.full(count, 20),
        "tokens": np.full(count, 17),
        "words": np.full(count, 17),
        "unknown": np.zeros(count),
        "letters": np.zeros(count),
        "ids": index,
        "records": index + 10_000,
    }
    return RowFacts(**{**values, **columns})


def judge(splits, task=TASK, thresholds=None, previous=None, **limits):
    settings = Sections(
        task=task,
        data_gate=DataGateConfig(**limits),
        evaluator=EvaluatorConfig(split="eval", thresholds=thresholds or {}),
    )
    return judgment.judge(AllRows(splits, task), settings, previous)


def find(findings, kind):
    """Returns the only finding of a kind."""
    (finding,) = (finding for finding in findings if finding.kind == kind)
    return finding


def good():
    return {"train": rows(), "eval": rows(first=1000), "test": rows(first=2000)}


def test_good_data_have_no_finding():
    assert judge(good(), thresholds={"accuracy": 0.8, "f1": 0.8, "auc": 0.9}) == []


@pytest.mark.parametrize(
    ("thresholds", "is_found"),
    [
        ({"accuracy": 0.85}, True),
        ({"f1": 0.9, "accuracy": 0.9}, True),  # spam is the positive class
        ({"recall/spam": 0.9}, True),
        ({"accuracy": 0.91}, False),
        ({"accuracy": 0.85, "recall/ham": 0.1}, False),
        ({"accuracy": 0.85, "auc": 0.6}, False),
        ({"accuracy": 0.0}, False),  # documented: it lets every model through
    ],
)
def test_thresholds_that_a_constant_model_reaches_are_a_warning(thresholds, is_found):
    labels = np.arange(400) % 10 != 0
    splits = {**good(), "eval": rows(400, first=1000, labels=labels)}
    findings = [
        finding
        for finding in judge(splits, thresholds=thresholds)
        if finding.kind == judgment.CONSTANT_MODEL
    ]
    assert len(findings) == is_found
    for finding in findings:
        assert not finding.is_refused
        assert "always predicts `spam` reaches all of evaluator." in finding.message
        assert finding.message.endswith("raise them, or add one for accuracy or f1")


@pytest.mark.parametrize("split", ["train", "eval"])
def test_split_of_one_class_is_refused_with_the_class_to_add(split):
    splits = good()
    splits[split] = rows(40, first=5000, labels=np.ones(40))
    finding = find(judge(splits), judgment.ONE_CLASS)
    assert finding.is_refused
    assert finding.message.startswith(f"{split}: all 40 rows have the class `spam`: ")
    assert finding.message.endswith("; add rows of ham")


def test_equal_scores_are_refused():
    splits = {"train": rows(40, labels=np.full(40, 2.5)), "eval": rows(first=1000)}
    finding = find(judge(splits, SCORES), judgment.ONE_CLASS)
    assert "all 40 rows have the score 2.5" in finding.message


def test_split_without_rows_is_refused():
    findings = judge({**good(), "test": RowFacts.concatenate([])})
    (finding,) = findings
    assert (finding.kind, finding.split, finding.is_refused) == (
        "no rows",
        "test",
        True,
    )
    assert judge({"train": RowFacts.concatenate([]), "eval": RowFacts.concatenate([])})


def test_gate_that_is_too_small_is_refused_with_its_interval_and_the_rows_it_needs():
    splits = {**good(), "eval": rows(40, first=1000)}
    finding = find(judge(splits, thresholds={"accuracy": 0.85}), judgment.SMALL_GATE)
    assert finding.is_refused
    assert finding.message.startswith(
        "eval: too small for evaluator.thresholds accuracy 0.85: on 40 rows its 95 % "
        "interval is 0.71 to 0.93, and data_gate.max_interval allows ±0.1; about "
    )
    assert judge(splits, thresholds={"accuracy": 0.85}, max_interval=0.2) == []


def test_contradictions_beyond_the_limit_are_refused_and_fewer_are_a_warning():
    splits = good()
    texts = splits["eval"].texts.copy()
    texts[:2] = 2, 4  # train has 2 of the other class, and 4 of the same class
    labels = splits["eval"].labels.copy()
    labels[:2] = 0, 0
    splits["eval"] = rows(first=1000, texts=texts, labels=labels)
    warned = find(judge(splits), judgment.CONTRADICTIONS)
    assert not warned.is_refused
    assert warned.count == 2
    assert "all splits: 2 of 600 rows (0.3%)" in warned.message
    assert warned.rows == ((Row("eval", 11_000, 1000), Row("train", 10_001, 1)),)
    refused = find(judge(splits, max_contradictions=0.001), judgment.CONTRADICTIONS)
    assert refused.is_refused
    assert "data_gate.max_contradictions is 0.001" in refused.message


def test_scores_contradict_if_they_are_a_fifth_of_the_range_apart():
    def count(second):
        labels = np.tile([2.0, 4.0], 100)
        texts = 2 * np.arange(200)
        texts[1], labels[:2] = 0, (2.0, second)
        splits = {"train": rows(texts=texts, labels=labels)}
        kinds = [f.kind for f in judge(splits, SCORES, warn_duplicates=1)]
        return kinds.count(judgment.CONTRADICTIONS)

    assert count(3.0) == 0
    assert count(3.1) == 1


def test_duplicates_are_a_warning_with_pairs():
    texts = 2 * np.arange(200)
    texts[[50, 60, 70]] = 6
    finding = find(
        judge({"train": rows(texts=texts, labels=np.arange(200) // 100)}),
        judgment.DUPLICATES,
    )
    assert not finding.is_refused
    assert finding.count == 3
    assert "train: 3 of 200 rows (1.5%) repeat" in finding.message
    assert finding.rows == ((Row("train", 10_003, 3), Row("train", 10_070, 70)),)
    findings = judge({"train": rows(texts=texts)}, warn_duplicates=0.02)
    assert judgment.DUPLICATES not in {finding.kind for finding in findings}


def test_id_of_rows_with_other_texts_is_a_warning():
    ids = np.arange(200)
    ids[[50, 60]] = 3
    finding = find(judge({"train": rows(ids=ids)}), judgment.REPEATED_IDS)
    assert not finding.is_refused
    assert "train: 3 of 200 rows (1.5%) have the idx of a row with" in finding.message
    assert finding.rows[0] == (Row("train", 10_003, 3),)
    # A row that occurs twice has its id twice, and rows without an id have none.
    texts = 2 * np.arange(200)
    texts[[50, 60]] = 6
    repeated = {"train": rows(texts=texts, ids=ids), "eval": rows(ids=[-1] * 200)}
    assert judgment.REPEATED_IDS not in {found.kind for found in judge(repeated)}


def pairs(count, first=0, *, is_reversed=False):
    texts = [[f"question {n}", f"answer {n}"] for n in range(first, first + count)]
    return [hash_texts(pair[::-1] if is_reversed else pair) for pair in texts]


@pytest.mark.parametrize(
    ("task", "label", "other", "count"),
    [(TASK, 1, 1, 5), (TASK, 1, 0, 0), (SCORES, 2.0, 3.0, 5), (SCORES, 2.0, 3.1, 0)],
)
def test_reversed_pair_is_a_duplicate_only_if_the_labels_agree(
    task, label, other, count
):
    labels = np.tile([0.0, 1.0], 100)
    labels[:5], labels[5:10] = label, other
    texts = np.array(
        [*pairs(5), *pairs(5, is_reversed=True), *pairs(190, 5)], np.uint64
    )
    kinds = {
        finding.kind: finding.count
        for finding in judge({"train": rows(texts=texts, labels=labels)}, task)
    }
    assert kinds.get(judgment.DUPLICATES, 0) == count
    assert judgment.CONTRADICTIONS not in kinds


@pytest.mark.parametrize(("label", "count"), [(1, 4), (0, 0)])
def test_reversed_pair_of_train_is_shared_only_if_the_labels_agree(label, count):
    splits = good()
    texts, labels = (splits["eval"].texts.copy(), splits["eval"].labels.copy())
    texts[:4], labels[:4] = pairs(4, is_reversed=True), label
    splits["eval"] = rows(first=1000, texts=texts, labels=labels)
    known = splits["train"].texts.copy()
    known[1:8:2] = pairs(4)  # each has the label 1
    splits["train"] = rows(texts=known)
    shared = [f for f in judge(splits) if f.kind == judgment.SHARED]
    assert sum(finding.count for finding in shared) == count
    for finding in shared:
        partners = [[row.id for row in group] for group in finding.rows]
        assert partners == [[1000, 1], [1001, 3], [1002, 5]]


def test_shared_rows_of_the_gate_are_a_warning_with_their_partners():
    splits = good()
    texts = splits["eval"].texts.copy()
    texts[[8, 4, 6, 2]] = 216, 208, 212, 204
    splits["eval"] = rows(first=1000, texts=texts)
    finding = find(judge(splits), judgment.SHARED)
    assert finding.count == 4
    assert "eval: 4 of 200 rows (2.0%) have texts that are in train" in finding.message
    assert finding.rows == tuple(
        (Row("eval", 11_000 + row, 1000 + row), Row("train", 10_100 + row, 100 + row))
        for row in (2, 4, 6)
    )
    assert judge(splits, warn_shared=0.02) == []


ONE_LABEL = rows(10, first=5000, labels=np.ones(10))
MOST_OF_A_LABEL = rows(10, first=1000, labels=(np.arange(10) < 8).astype(float))


@pytest.mark.parametrize(
    ("splits", "options"),
    [
        ({"test": ONE_LABEL}, {"warn_label_drift": 1}),
        ({"eval": MOST_OF_A_LABEL}, {}),  # chance explains the difference
        ({"eval": rows(first=1000, lengths=np.full(200, 21))}, {}),  # by one token
        ({"eval": rows(4, first=1000)}, {"thresholds": {"accuracy": -0.5}}),
        (
            {
                "train": rows(400, labels=np.arange(400) % 40),
                "eval": rows(390, first=1000, labels=np.arange(390) % 39),
                "test": rows(400, first=2000, labels=np.arange(400) % 40),
            },
            {"task": MANY},
        ),
    ],
    ids=["one class", "chance", "one token", "any model", "class absent from eval"],
)
def test_data_that_can_test_a_model_have_no_finding(splits, options):
    assert judge({**good(), **splits}, **options) == []


@pytest.mark.parametrize("absent", [[39], [3, 17]])
def test_class_without_a_row_in_train_is_refused(absent):
    labels = np.array([n for n in range(40) if n not in absent] * 50)
    train = rows(len(labels), labels=labels)
    finding = find(judge({"train": train}, MANY), judgment.NO_CLASS)
    assert finding.is_refused
    names = ", ".join(f"`class{index}`" for index in absent)
    assert finding.message.startswith(f"train: it has no row of {names}, which ")
    assert "task.classes" in finding.message


def test_rare_class_is_a_warning():
    labels = (np.arange(200) < 9).astype(float)
    findings = judge({"train": rows(labels=labels)})
    finding = find(findings, judgment.RARE_CLASS)
    assert "`spam` 4.5%" in finding.message
    common = judge({"train": rows(labels=(np.arange(200) < 10).astype(float))})
    assert common == []


def test_with_many_classes_one_far_below_an_equal_share_is_rare():
    index = np.arange(4000)
    labels = np.where(index < 20, 39, index % 39).astype(float)
    finding = find(
        judge({"train": rows(4000, labels=labels)}, MANY), judgment.RARE_CLASS
    )
    assert finding.message.startswith("train: 1 of 40 classes have less than 1.2% of")


def test_texts_that_are_cut_are_a_warning_with_the_longest():
    lengths = np.full(200, 128)
    lengths[[5, 9, 11]] = 129, 300, 140
    findings = judge({"train": rows(lengths=lengths)})
    finding = find(findings, judgment.CUT)
    assert "3 of 200 rows (1.5%) have more than 128 tokens" in finding.message
    assert "the longest has 300" in finding.message
    assert "up to the encoder's limit, or shorten them" in finding.message
    assert [row.id for (row,) in finding.rows] == [5, 9, 11]
    single = TaskConfig(text_columns=["text"], classes=["ham", "spam"])
    finding = find(judge({"train": rows(lengths=lengths)}, single), judgment.CUT)
    assert "limit or, with preprocessing.long_text, beyond it, or sh" in finding.message


@pytest.mark.parametrize("kind", ["unknown", "letters"])
def test_texts_that_the_encoder_cannot_read_are_a_warning(kind):
    splits = good()
    unread = np.zeros(200)
    unread[:10] = 17  # a twentieth is the limit
    unread[10:] = 6  # of 17, as in a language with other accents
    splits["eval"] = rows(first=1000, **{kind: unread})
    assert judge(splits) == []
    unread[10] = 7
    splits["eval"] = rows(first=1000, words=np.full(200, 5), **{kind: unread})
    finding = find(judge(splits), judgment.UNREADABLE)
    assert not finding.is_refused
    assert (finding.split, finding.count) == ("eval", 11)
    assert finding.rows[0] == (Row("eval", 11_000, 1000),)
    share = "38.6%" if kind == "unknown" else "0.0%"
    assert finding.message == (
        "eval: the encoder can hardly read 11 of 200 rows (5.5%): over 40% of their "
        "tokens are [UNK] or single letters within a word (data_gate.warn_unreadable "
        f"0.05); of all tokens {share} are [UNK], and a word has 3.4 tokens: set "
        "encoder.source to an encoder for the language of the texts"
    )
    assert judge(splits, warn_unreadable=0.06) == []


def test_drift_of_labels_and_lengths_is_a_warning_of_each_split():
    drifted = rows(
        first=1000,
        labels=(np.arange(200) < 160).astype(float),
        lengths=np.repeat([20, 60], 100),
    )
    findings = judge({**good(), "eval": drifted})
    label = find(findings, judgment.LABEL_DRIFT)
    assert label.message.startswith("eval: the class `spam` has 80.0% of the rows, and")
    length = find(findings, judgment.LENGTH_DRIFT)
    assert "differ from those of train by 100%" in length.message
    assert {label.split, length.split} == {"eval"}


def test_drift_of_scores():
    splits = {
        "train": rows(labels=np.linspace(0, 5, 200)),
        "eval": rows(first=1000, labels=np.linspace(2, 5, 200)),
    }
    finding = find(judge(splits, SCORES), judgment.LABEL_DRIFT)
    assert "eval: the scores differ from those of train by 0.4" in finding.message


def test_drift_against_the_last_span():
    last = rows(labels=(np.arange(200) < 20).astype(float))
    previous = dataclasses.replace(Profile.of(last, TASK), span=7)
    (finding,) = judge(good(), previous=previous)
    assert (finding.kind, finding.split) == (judgment.LABEL_DRIFT, "train")
    assert "90.0% in train of span 7" in finding.message
    # The last span of another task has no labels to compare.
    other = Profile.of(last, TaskConfig(classes=["no", "yes"]))
    assert judge(good(), previous=other) == []


def test_judgment_does_not_depend_on_the_order_of_rows():
    random = np.random.default_rng(0)
    splits = {
        split: rows(
            texts=random.integers(0, 150, 200),
            labels=random.integers(0, 2, 200),
            lengths=random.integers(5, 150 + 100 * number, 200),
            unknown=random.integers(0, 17, 200),
            ids=np.full(200, -1),
            records=random.permutation(200),
        )
        for number, split in enumerate(("train", "eval", "test"))
    }

    def shuffle(facts):
        order = random.permutation(len(facts))
        return RowFacts(**{name: array[order] for name, array in vars(facts).items()})

    thresholds = {"accuracy": 0.8, "f1": 0.8}
    expected = judge(splits, thresholds=thresholds)
    assert {finding.kind for finding in expected} >= {
        judgment.CONTRADICTIONS,
        judgment.DUPLICATES,
        judgment.SHARED,
        judgment.CUT,
        judgment.LENGTH_DRIFT,
    }
    for _ in range(5):
        shuffled = {split: shuffle(facts) for split, facts in splits.items()}
        assert judge(shuffled, thresholds=thresholds) == expected


def test_refused_findings_come_first():
    splits = {**good(), "eval": rows(4, first=0)}
    findings = judge(splits, thresholds={"accuracy": 0.9})
    assert [finding.is_refused for finding in findings] == [True, False]


LABELS = TaskConfig(kind="multilabel", classes=["joy", "love", "anger"])


def labels_of(count, *sets):
    """Returns sets of labels in turn, float64[count, 3]."""
    return np.array([sets[index % len(sets)] for index in range(count)], float)


JOY, BOTH, NONE, ANGER = [1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1]
USUAL = (JOY, BOTH, NONE, ANGER, NONE)


def several(**labels):
    """Returns splits of 200 rows; `labels` are those of a split, float64[200, 3]."""
    labels = {"train": labels_of(200, *USUAL), "eval": labels_of(200, *USUAL), **labels}
    return {
        split: rows(len(values), first=1000 * number, labels=values)
        for number, (split, values) in enumerate(labels.items())
    }


def test_rows_with_several_labels_or_none_have_no_finding():
    assert judge(several(), LABELS, {"micro_f1": 0.8, "accuracy": 0.8}) == []


def test_label_of_no_row_and_label_of_all_rows_are_refused():
    train = labels_of(200, JOY, BOTH)
    absent, constant = judge(several(train=train), LABELS)[:2]
    assert absent.message == (
        "train: it has no row of `anger`, which no model can learn to predict: add "
        "rows, or leave the class out of task.classes"
    )
    assert constant.message == (
        "train: all rows have `joy`, so that a model would always predict it: add "
        "rows, or leave the class out of task.classes"
    )
    assert absent.is_refused
    assert constant.is_refused


def test_split_whose_rows_all_have_the_same_labels_is_refused():
    finding = find(
        judge(several(eval=labels_of(200, BOTH)), LABELS), judgment.ONE_CLASS
    )
    assert finding.message.startswith("eval: all 200 rows have the labels `joy|love`: ")
    finding = find(
        judge(several(train=labels_of(200, NONE)), LABELS), judgment.ONE_CLASS
    )
    assert finding.message.startswith("train: all 200 rows have the labels `(none)`: ")


def test_contradiction_is_a_difference_in_any_label():
    splits = several()
    splits["test"] = rows(4, labels=labels_of(4, JOY, JOY, NONE, ANGER))
    finding = find(judge(splits, LABELS), judgment.CONTRADICTIONS)
    assert finding.count == 2  # the second row has `love` in train, the others agree
    assert [row.id for row in finding.rows[0]] == [1, 1]


def test_labels_of_the_gate_decide_whether_it_is_too_small():
    evaluated = labels_of(200, *[NONE] * 24, BOTH)
    thresholds = {"micro_f1": 0.8, "accuracy": 0.8, "recall/love": 0.5}
    findings = [
        finding
        for finding in judge(several(eval=evaluated), LABELS, thresholds)
        if finding.kind == judgment.SMALL_GATE
    ]
    assert [finding.count for finding in findings] == [16, 8]
    assert "micro_f1 0.8: on 16 labels its 95 % interval" in findings[0].message
    assert "recall/love 0.5: on 8 rows of `love` its" in findings[1].message


@pytest.mark.parametrize("sets", [(JOY, BOTH), (NONE,)])
def test_threshold_that_an_absent_label_keeps_out_of_reach_is_refused(sets):
    """Macro F1 is at most 2/3 if a third label has no row."""
    evaluated = labels_of(200, *sets)
    findings = judge(several(eval=evaluated), LABELS, {"macro_f1": 0.7})
    finding = find(findings, judgment.SMALL_GATE)
    assert finding.is_refused
    assert "macro_f1 0.7: on 0 rows of the rarest label" in finding.message
    if sets == (NONE,):
        assert find(findings, judgment.ONE_CLASS).is_refused


@pytest.mark.parametrize(
    ("thresholds", "predicted"),
    [
        ({"micro_f1": 0.4}, "`joy`"),
        ({"accuracy": 0.4}, "no label"),
        ({"recall/love": 0.9}, "`joy`, `love`"),
        ({"micro_f1": 0.7}, None),
    ],
)
def test_thresholds_that_fixed_labels_reach_are_a_warning(thresholds, predicted):
    messages = [
        finding.message
        for finding in judge(several(), LABELS, thresholds)
        if finding.kind == judgment.CONSTANT_MODEL
    ]
    assert len(messages) == (predicted is not None)
    for message in messages:
        assert f"a model that always predicts {predicted} reaches all of" in message


def test_rare_label_and_drift_of_a_label_are_warnings():
    train = labels_of(200, *USUAL)
    train[:, 1] = 0
    train[:4, 1] = 1
    findings = judge(several(train=train), LABELS)
    rare = find(findings, judgment.RARE_CLASS)
    assert "1 of 3 classes have less than 5.0% of the rows" in rare.message
    assert "`love` 2.0%" in rare.message
    assert rare.message.endswith("add rows, or set task.decision")
    drift = find(findings, judgment.LABEL_DRIFT)
    assert drift.message.startswith(
        "eval: the class `love` has 20.0% of the rows, and 2.0% in train"
    )


def test_difference_of_a_label_that_chance_explains_is_not_a_drift():
    random = np.random.default_rng(0)
    task = LABELS.model_copy(update={"classes": [f"label{n}" for n in range(40)]})
    drawn = [(random.random((300, 40)) < 0.2).astype(float) for _ in range(2)]
    splits = several(train=drawn[0], eval=drawn[1])
    assert judge(splits, task, warn_label_drift=0.01, warn_class_share=0) == []
